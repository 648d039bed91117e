"""What a check says, and how many of them make a verdict: pass < unknown < fail, and the worst wins."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.vocabulary import ExitCode, Status

if TYPE_CHECKING:
    from analysis.evidence import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The answer of one check: one line for a person, and the request ids or figures behind it (at most a few dozen)."""

    status: Status
    summary: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One question. `judge` reads evidence and answers; it never measures, sleeps, or touches a file."""

    id: str
    question: str
    judge: Callable[["Evidence"], Finding]


def passed(summary: str, *evidence: str) -> Finding:
    """The evidence was there and good."""
    return Finding(status=Status.PASS, summary=summary, evidence=evidence)


def failed(summary: str, *evidence: str) -> Finding:
    """The evidence shows a fault of the server."""
    return Finding(status=Status.FAIL, summary=summary, evidence=evidence)


def unknown(summary: str, *evidence: str) -> Finding:
    """Evidence that was promised is missing."""
    return Finding(status=Status.UNKNOWN, summary=summary, evidence=evidence)


def not_applicable(summary: str) -> Finding:
    """The evidence was never promised; the summary says what is not claimed."""
    return Finding(status=Status.NOT_APPLICABLE, summary=summary)


def run(check: Check, evidence: "Evidence") -> Finding:
    """The finding of a check; one that raises is unknown, with the error in its summary."""
    try:
        return check.judge(evidence)
    except Exception as error:  # noqa: BLE001 - a broken check must not hide what the others found
        return unknown(f"the check itself broke: {type(error).__name__}: {error}")


def worst(statuses: Iterable[Status]) -> Status:
    """The verdict of many findings. Nothing that was judged at all is unknown, never a pass."""
    seen = set(statuses) - {Status.NOT_APPLICABLE}
    for status in (Status.FAIL, Status.UNKNOWN, Status.PASS):
        if status in seen:
            return status
    return Status.UNKNOWN


def exit_code(verdict: Status) -> ExitCode:
    """The exit code of a verdict."""
    return {Status.PASS: ExitCode.PASS, Status.FAIL: ExitCode.FAIL}.get(verdict, ExitCode.UNKNOWN)
