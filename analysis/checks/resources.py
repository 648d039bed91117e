"""Whether descriptors, sockets, threads, children and memory of the server come back once everybody has gone.

Figures at rest after the fault-free stages are the control; the last ones at rest are held against them. Every figure has
an allowance, since pools fill lazily and allocators keep what they have; a leak of one a fault goes beyond it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from analysis.checks.requests import most_in_flight
from analysis.evidence import Evidence
from analysis.finding import Check, Finding, failed, not_applicable, passed, unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """Figures of the process at rest after a stage; an absent figure is absent from the dictionary."""

    stage: str
    pid: int
    figures: dict[str, float]


FIGURES = ("fd_count", "socket_count", "thread_count", "child_count", "rss_bytes")


def _resources(evidence: Evidence) -> Finding:
    rests = list(_rests(evidence))
    faulty = {stage.name for stage in evidence.plan.stages if stage.faulty}
    before = [rest for rest in rests if rest.stage not in faulty]
    after = [rest for rest in rests if rest.stage in faulty]
    if not rests and not evidence.plan.target.launched:
        return not_applicable("no process id was given, so the server's resources are not judged")
    if not faulty:
        return not_applicable("nothing in this scenario could use up the server's resources")
    if not before or not after:
        return unknown("the server's process was not read at rest both before and after the faults")
    if len({rest.pid for rest in rests}) > 1:
        return unknown("the server's process changed, so its figures cannot be compared")
    control = before[-1]
    known = [name for name in FIGURES if name in control.figures and name in after[-1].figures]
    if not known:
        return unknown("the server's process shows none of its figures to us")
    grown = [line for name in known if (line := _grown(evidence, name, control, after))]
    if grown:
        return failed("the server keeps what faulty clients left behind", *grown)
    return passed(
        "the server is back at its figures of before the faults",
        *(f"{name}: {control.figures[name]:.0f} before, {after[-1].figures[name]:.0f} at the end" for name in known),
    )


def _rests(evidence: Evidence) -> Iterable[Rest]:
    for row in evidence.process.to_dict("records"):
        if row["moment"] == "sample" or row["pid"] is None or row["pid"] != row["pid"]:
            continue
        figures = {name: float(row[name]) for name in FIGURES if row[name] is not None and row[name] == row[name]}
        yield Rest(stage=str(row["stage"]), pid=int(row["pid"]), figures=figures)


def _grown(evidence: Evidence, name: str, control: Rest, after: list[Rest]) -> str | None:
    """A figure that ended beyond its allowance and rose in more than one stage: a pool or a cache fills once, a leak goes on."""
    base, end = control.figures[name], after[-1].figures[name]
    allowance = _ALLOWANCES[name](evidence, base)
    rising = _rising(name, [control, *after], allowance / 4)
    if end - base <= allowance or (name in LAZY and len(rising) < 2):
        return None
    steps = ", ".join(rising) or "small steps"
    return f"{name}: {base:.0f} at rest before the faults, {end:.0f} at the end (allowance {allowance:.0f}); it rose in {steps}"


LAZY = frozenset({"thread_count", "rss_bytes"})
"""Figures that legally rise once, at the first use of something."""


def _rising(name: str, rests: list[Rest], step: float) -> list[str]:
    """Stages at whose end a figure was higher than at the end of the stage before, by more than a step."""
    last = {rest.stage: rest.figures[name] for rest in rests if name in rest.figures}
    ends = list(last.items())
    return [stage for (_, before), (stage, value) in pairwise(ends) if value - before > step]


def _descriptors(evidence: Evidence, _: float) -> float:
    return evidence.limit("resource_descriptors")


def _threads(evidence: Evidence, _: float) -> float:
    return evidence.limit("resource_threads") + most_in_flight(evidence.records)


def _children(evidence: Evidence, _: float) -> float:
    return evidence.limit("resource_children")


def _memory(evidence: Evidence, base: float) -> float:
    return evidence.limit("resource_rss_bytes") + evidence.limit("resource_rss_share") * base


_ALLOWANCES: dict[str, Callable[[Evidence, float], float]] = {
    "fd_count": _descriptors,
    "socket_count": _descriptors,
    "thread_count": _threads,
    "child_count": _children,
    "rss_bytes": _memory,
}

RESOURCES = Check(id="process.resources", question="Do descriptors, sockets, threads and memory come back?", judge=_resources)
