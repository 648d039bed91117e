"""Which requests a check is about, when they were open, and how to name them to a person."""

from collections.abc import Iterable, Sequence

from analysis.evidence import Evidence
from analysis.record import RequestRecord
from analysis.trace import TraceEvent
from analysis.vocabulary import ErrorKind, Outcome, Role

EXPECTED = frozenset({Role.WARM_UP, Role.REFERENCE, Role.CONTROL, Role.BYSTANDER, Role.NORMAL, Role.FOLLOW_UP})
"""Roles of clients that do nothing wrong and stay to the end."""
FAULT_FREE = frozenset({Role.WARM_UP, Role.REFERENCE, Role.CONTROL})
"""Roles of requests that ran before anybody misbehaved."""
DROPPED = frozenset({ErrorKind.REFUSED_CONNECTION, ErrorKind.RESET, ErrorKind.CUT})
"""What a client sees when the server drops its connection."""
OVERLOAD_STATUS = frozenset({429, 503})
SHOWN = 24


def expected(evidence: Evidence) -> list[RequestRecord]:
    """Requests of clients that do nothing wrong: all of them have to complete."""
    return [record for record in evidence.records if record.role in EXPECTED]


def planned(evidence: Evidence, role: Role) -> bool:
    """True when the plan has requests of this role: what was never planned is not missing."""
    return any(item.role is role for stage in evidence.plan.stages for group in stage.groups for item in group.items)


def completed(records: Iterable[RequestRecord]) -> list[RequestRecord]:
    """Those that got their whole answer."""
    return [record for record in records if record.outcome is Outcome.COMPLETED]


def broken_promises(evidence: Evidence) -> list[RequestRecord]:
    """Requests that found the kept connection of an answer just before closed without notice; none when it happened once or twice,
    since a connection may always break."""
    found = [record for record in evidence.records if any(problem.startswith("kept_connection:") for problem in record.problems)]
    return found if len(found) >= evidence.limit("kept_connections") else []


def refused_for_load(evidence: Evidence, record: RequestRecord) -> bool:
    """True for a 429 or 503 where the profile declares that pressure may be answered so."""
    return record.status in OVERLOAD_STATUS and evidence.plan.target.queue == "queued_or_refused"


def mostly_ours(evidence: Evidence, record: RequestRecord) -> bool:
    """True for a deadline that passed while our own side stood still for half of it; what was answered was answered."""
    return record.outcome is Outcome.TIMEOUT and evidence.ours(record.started_unix_s, end_unix_s(record)) > record.ended_s / 2


def sent_unix_s(record: RequestRecord) -> float:
    """When the server could know of it: wholly sent, or begun where that never happened."""
    return record.started_unix_s + (record.sent_s or 0.0)


def end_unix_s(record: RequestRecord) -> float:
    """When its client stopped waiting for it: the answer was over, or the client began to leave."""
    return record.started_unix_s + (record.ended_s if record.cut_s is None else record.cut_s)


def most_in_flight(records: Iterable[RequestRecord]) -> int:
    """The most requests that were open at one moment."""
    steps = [(sent_unix_s(record), 1) for record in records] + [(end_unix_s(record), -1) for record in records]
    count = most = 0
    for _, step in sorted(steps):
        count += step
        most = max(most, count)
    return most


def traces_by_id(evidence: Evidence) -> dict[str, TraceEvent]:
    """The first trace of each request that has one."""
    found: dict[str, TraceEvent] = {}
    for trace in evidence.traces:
        if trace.request_id is not None:
            found.setdefault(trace.request_id, trace)
    return found


def where(record: RequestRecord) -> str:
    """`id stage/group#item`, and what is special in it."""
    special = record.row or (record.fault if record.fault != "none" else "")
    return f"{record.request_id} {record.stage}/{record.group}#{record.item}" + (f" {special}" if special else "")


def ending(record: RequestRecord) -> str:
    """Where it was, and how it ended."""
    facts = (f"{record.outcome}", f"status {record.status}" if record.status is not None else "", f"{record.error}", record.detail)
    return f"{where(record)}: " + ", ".join(fact for fact in facts if fact and fact != "none")


def shown(lines: Sequence[str]) -> tuple[str, ...]:
    """The first few lines, and how many more there are."""
    rest = len(lines) - SHOWN
    return tuple(lines[:SHOWN]) + ((f"… and {rest} more",) if rest > 0 else ())
