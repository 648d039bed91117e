"""Requests whose clients left, with what the server's trace says of them afterwards, and how long a server may take to notice."""

from dataclasses import dataclass

from analysis.checks.clock import Clock, pairs
from analysis.checks.tempo import Tempo
from analysis.evidence import Evidence
from analysis.record import RequestRecord
from analysis.trace import TraceEvent
from analysis.vocabulary import Ending, Outcome, Role

LEFT = frozenset({Outcome.CANCELLED, Outcome.DISCONNECTED, Outcome.TIMEOUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    """One client that left, and the trace of its request."""

    record: RequestRecord
    trace: TraceEvent
    left_unix_s: float
    """When it began to leave, on its own clock."""
    lag_s: float | None
    """Seconds until the server had retired the request, at least; None where the trace has no end."""
    waited: bool
    """It left before the server had turned to it: still in the queue."""


def leavers(evidence: Evidence, offset: Clock) -> list[Leaver]:
    """All of them but half-closed ones, which a server may go on serving, and rows of the catalogue."""
    found = []
    for record, trace in pairs(evidence):
        if record.outcome not in LEFT or record.ending is Ending.HALF_CLOSE or record.role is Role.BAD:
            continue
        left = record.started_unix_s + (record.ended_s if record.cut_s is None else record.cut_s)
        found.append(
            Leaver(
                record=record,
                trace=trace,
                left_unix_s=left,
                lag_s=None if trace.terminal_unix_s is None else _theirs(evidence, left, offset.at_earliest(trace.terminal_unix_s)),
                waited=record.first_token_s is None
                and (trace.scheduled_unix_s is None or offset.at_earliest(trace.scheduled_unix_s) > left),
            )
        )
    return found


def notice_s(evidence: Evidence, speed: Tempo) -> float:
    """Seconds that a server may take to retire a request whose client left: some steps, and the prefills of a whole set between them."""
    return evidence.limit("retire_floor_s") + evidence.limit("retire_gaps") * speed.gap_s + speed.serial_prefill_s


def _theirs(evidence: Evidence, begin: float, end: float) -> float:
    """Seconds of a window that are not our own."""
    return end - begin - (evidence.ours(begin, end) if end > begin else 0.0)
