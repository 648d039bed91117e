"""All findings and counts of a run as one value, and as the bytes of verdict.json.

The same evidence gives the same bytes: nothing here looks at a clock, a locale or a path.
"""

import json
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.checks.baseline import NO_BASELINE, Baseline, baseline
from analysis.evidence import Evidence, Place
from analysis.finding import Check, Finding, exit_code, worst
from analysis.vocabulary import ExitCode, Outcome, Status

SCHEMA_VERSION = 1
NEVER_CLAIMED = (
    "anything about speed",
    "any server, backend, option, load or scenario that was not run",
    "the absence of faults that these requests do not provoke or these witnesses do not show",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one check said."""

    check: Check
    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of a run."""

    scenario: str
    answers: tuple[Answer, ...]
    counts: dict[str, int]
    by_stage: dict[str, dict[str, int]]
    terminal_reasons: dict[str, int]
    trace_coverage: dict[str, int]
    baseline: Baseline

    @property
    def status(self) -> Status:
        """The worst of all answers."""
        return worst(answer.finding.status for answer in self.answers)

    @property
    def exit_code(self) -> ExitCode:
        """What the shell sees."""
        return exit_code(self.status)

    def of(self, status: Status) -> tuple[Answer, ...]:
        """The answers with this status, in order."""
        return tuple(answer for answer in self.answers if answer.finding.status is status)

    def claims(self) -> list[str]:
        """What this run shows."""
        return [f"{answer.check.id}: {answer.finding.summary}" for answer in self.of(Status.PASS)]

    def not_claimed(self) -> list[str]:
        """What it does not."""
        silent = [f"{answer.check.id}: {answer.finding.summary}" for answer in self.of(Status.NOT_APPLICABLE)]
        lost = [f"{answer.check.id}: could not be answered: {answer.finding.summary}" for answer in self.of(Status.UNKNOWN)]
        return [*silent, *lost, *NEVER_CLAIMED]

    def to_json(self) -> str:
        """The text of verdict.json."""
        checks = [
            {
                "id": answer.check.id, "status": answer.finding.status, "question": answer.check.question,
                "summary": answer.finding.summary, "evidence": list(answer.finding.evidence),
            }
            for answer in self.answers
        ]  # fmt: skip
        document: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "verdict": self.status,
            "exit_code": int(self.exit_code),
            "scenario": self.scenario,
            "counts": self.counts,
            "by_stage": self.by_stage,
            "terminal_reasons": self.terminal_reasons,
            "trace_coverage": self.trace_coverage,
            "baseline": {"active": self.baseline.active, "pending": self.baseline.pending, "witnesses": self.baseline.witnesses},
            "checks": checks,
            "claims": self.claims(),
            "not_claimed": self.not_claimed(),
        }
        return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


def of_evidence(evidence: Evidence, answers: tuple[Answer, ...]) -> Verdict:
    """The verdict on a run that could be read."""
    requests, traces = evidence.requests, evidence.trace_frame
    by_stage = {stage.name: _outcomes(requests[requests["stage"] == stage.name]) for stage in evidence.plan.stages}
    reasons = traces.loc[traces["place"] != Place.EXCUSED, "raw_reason"].value_counts()
    return Verdict(
        scenario=evidence.plan.scenario,
        answers=answers,
        counts=_outcomes(requests),
        by_stage=by_stage,
        terminal_reasons={str(word): int(reasons[word]) for word in sorted(reasons.index)},
        trace_coverage=_coverage(evidence),
        baseline=baseline(evidence),
    )


def without_evidence(answers: tuple[Answer, ...]) -> Verdict:
    """The verdict on a directory that holds nothing to judge by."""
    none = dict.fromkeys((*_PLACES, "unreadable_lines"), 0)
    return Verdict(
        scenario="", answers=answers, counts=dict.fromkeys(map(str, Outcome), 0), by_stage={}, terminal_reasons={}, trace_coverage=none,
        baseline=NO_BASELINE,
    )  # fmt: skip


_PLACES = tuple(map(str, Place))


def _outcomes(requests: pd.DataFrame) -> dict[str, int]:
    found = requests["outcome"].value_counts()
    return {str(outcome): int(found.get(str(outcome), 0)) for outcome in Outcome}


def _coverage(evidence: Evidence) -> dict[str, int]:
    """Requests that are matched, client_only or excused; traces that are anything else."""
    requests, traces = evidence.requests["place"].value_counts(), evidence.trace_frame["place"].value_counts()
    own = (Place.MATCHED, Place.CLIENT_ONLY, Place.EXCUSED)
    counts = {str(place): int((requests if place in own else traces).get(str(place), 0)) for place in Place}
    return {**counts, "unreadable_lines": len(evidence.log.unreadable) if evidence.log else 0}
