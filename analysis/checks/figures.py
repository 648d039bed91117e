"""Whether the numbers in the server's traces are possible: in themselves, beside the client's, and beside each other.

What the words of the trace mean is enforced always. Relations in which honest servers differ (which steps are counted, what
is stamped first) are enforced only where every fault-free trace of the same run kept them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from analysis.checks.clock import Clock, clock, pairs
from analysis.checks.leavers import notice_s
from analysis.checks.overlap import Crowd
from analysis.checks.requests import end_unix_s, shown, where
from analysis.checks.tempo import Tempo, tempo
from analysis.checks.trace import unjoined
from analysis.evidence import Evidence
from analysis.finding import Check, Finding, failed, passed, unknown
from analysis.record import RequestRecord
from analysis.trace import TraceEvent
from analysis.vocabulary import Outcome, Role, TerminalReason

Pair = tuple[RequestRecord, TraceEvent]
COUNTS = (
    "decode_step_count", "batch_decode_steps", "singleton_decode_steps", "decode_batch_size_max", "prompt_tokens", "completion_tokens",
    "active_max", "pending_max", "active_at_terminal", "pending_at_terminal", "queue_wait_ms", "scheduled_to_first_token_ms",
    "scheduled_to_terminal_ms", "prefill_ms", "first_decode_ms", "decode_total_ms", "decode_mean_ms",
)  # fmt: skip
ORDERED = (
    ("queued_unix_s", "scheduled_unix_s", "first_token_unix_s", "terminal_unix_s"),
    ("scheduled_unix_s", "prefill_done_unix_s", "terminal_unix_s"),
)
DURATIONS = (
    ("queue_wait_ms", "queued_unix_s", "scheduled_unix_s"),
    ("scheduled_to_first_token_ms", "scheduled_unix_s", "first_token_unix_s"),
    ("scheduled_to_terminal_ms", "scheduled_unix_s", "terminal_unix_s"),
)
PARTS = (
    ("prefill_ms", "scheduled_unix_s", "prefill_done_unix_s"),
    ("decode_total_ms", "scheduled_unix_s", "terminal_unix_s"),
)
"""Durations that may leave something out, but cannot be longer than the time between two stamps."""
MADE_NOTHING = frozenset({TerminalReason.REJECTED})
ALONE = frozenset({Role.REFERENCE})
FAULT_FREE = frozenset({Role.REFERENCE, Role.CONTROL})


def _figures(evidence: Evidence) -> Finding:
    missing = unjoined(evidence)
    if missing is not None:
        return missing
    speed, offset = tempo(evidence), clock(evidence)
    if speed is None or offset is None:
        return unknown("no fault-free request bounds the server's clock and pace")
    matched = pairs(evidence)
    wrong = [f"{where(record)}: {why}" for record, trace in matched for why in _impossible(evidence, record, trace)]
    wrong += [f"{where(record)}: {why}" for record, trace in matched for why in _outside(evidence, record, trace, offset, speed)]
    kept, broken = _relations(matched)
    wrong += broken + _crowd(evidence, matched, speed)
    slack = evidence.limit("trace_clock_s")
    if offset.low_s > offset.high_s + slack:
        wrong.append(f"fault-free first tokens were stamped {offset.low_s - offset.high_s:.3f} s later than the requests' stamps allow")
    if wrong:
        return failed(f"{len(wrong)} figures in the server's traces are impossible", *shown(wrong))
    return passed(f"the figures of {len(matched)} traces are possible; also kept: {', '.join(kept) or 'nothing more'}")


def _impossible(evidence: Evidence, record: RequestRecord, trace: TraceEvent) -> Iterable[str]:
    """What no server can mean."""
    yield from (f"{name} is {value}" for name in COUNTS if (value := getattr(trace, name)) is not None and value < 0)
    yield from _times(evidence, trace)
    yield from _sizes(trace)
    yield from _tokens(record, trace)


def _times(evidence: Evidence, trace: TraceEvent) -> Iterable[str]:
    slack = evidence.limit("trace_clock_s")
    for names in ORDERED:
        stamps = [(name, getattr(trace, name)) for name in names if getattr(trace, name) is not None]
        for (first, before), (second, after) in pairwise(stamps):
            if before > after + slack:
                yield f"{first} is {before - after:.3f} s after {second}"
    for name, begin, end, exact in [(*each, True) for each in DURATIONS] + [(*each, False) for each in PARTS]:
        said, one, other = getattr(trace, name), getattr(trace, begin), getattr(trace, end)
        if said is None or one is None or other is None:
            continue
        excess = said / 1e3 - (other - one)
        if excess > slack + 0.02 * (other - one) or (exact and -excess > slack + 0.02 * (other - one)):
            yield f"{name} is {said:.1f}, and its stamps are {(other - one) * 1e3:.1f} ms apart"


def _sizes(trace: TraceEvent) -> Iterable[str]:
    for most, now, name in (
        (trace.active_max, trace.active_at_terminal, "active"),
        (trace.pending_max, trace.pending_at_terminal, "pending"),
    ):
        if most is not None and now is not None and now > most and trace.reason is not TerminalReason.REJECTED:
            yield f"{now} {name} at its end, and at most {most} in its life"
    if trace.decode_batch_size_max and trace.active_max is not None and trace.decode_batch_size_max > trace.active_max:
        yield f"a batch of {trace.decode_batch_size_max} of at most {trace.active_max} active"
    rest = (trace.active_at_terminal, trace.pending_at_terminal)
    if trace.healthy_baseline is not None and None not in rest and trace.healthy_baseline is not (rest == (0, 0)):
        yield f"healthy baseline is {trace.healthy_baseline} with {rest[0]} active and {rest[1]} pending"


def _tokens(record: RequestRecord, trace: TraceEvent) -> Iterable[str]:
    made = trace.completion_tokens
    if trace.reason in MADE_NOTHING and (made or trace.first_token_unix_s is not None):
        yield f"rejected, with {made} tokens"
    if trace.reason is TerminalReason.CANCELLED and made == 0 and trace.first_token_unix_s is None:
        yield "cancelled, which means after the first token, with none"
    if made is None or record.role is Role.BAD:
        return
    if record.max_tokens is not None and made > record.max_tokens:
        yield f"{made} tokens, and {record.max_tokens} were asked for"
    if record.outcome is not Outcome.COMPLETED:
        return
    stop = trace.reason is TerminalReason.COMPLETED_STOP
    if record.completion_tokens is not None and abs(made - record.completion_tokens) > stop:
        yield f"{made} tokens, and the client was told {record.completion_tokens}"
    if None not in (record.prompt_tokens, trace.prompt_tokens) and record.prompt_tokens != trace.prompt_tokens:
        yield f"a prompt of {trace.prompt_tokens} tokens, and the client was told {record.prompt_tokens}"
    if trace.finish_reason is not None and record.finish_reason is not None and trace.finish_reason != record.finish_reason:
        yield f"finish reason {trace.finish_reason!r}, and the client was told {record.finish_reason!r}"


def _outside(evidence: Evidence, record: RequestRecord, trace: TraceEvent, offset: Clock, speed: Tempo) -> Iterable[str]:
    """Stamps outside the time in which the request existed, or a token that a client had before it was made."""
    slack = evidence.limit("trace_window_s")
    if trace.queued_unix_s is not None and offset.at_latest(trace.queued_unix_s) < record.started_unix_s - slack:
        yield f"queued {record.started_unix_s - offset.at_latest(trace.queued_unix_s):.3f} s before it was sent"
    if trace.first_token_unix_s is not None and record.first_token_s is not None:
        early = offset.at_earliest(trace.first_token_unix_s) - record.started_unix_s - record.first_token_s
        if early > slack:
            yield f"its client had the first token {early:.3f} s before it was made"
    if trace.terminal_unix_s is None or record.outcome is not Outcome.COMPLETED:
        return
    if offset.at_latest(trace.terminal_unix_s) < record.started_unix_s - slack:
        yield "it ended before it was sent"
    begin, end = end_unix_s(record), offset.at_earliest(trace.terminal_unix_s)
    if end - begin > notice_s(evidence, speed) and end - begin - evidence.ours(begin, end) > notice_s(evidence, speed):
        yield f"it ended {end - begin:.1f} s after its client had the whole answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A rule between figures of one trace that most servers keep. None: it says nothing about this trace."""

    name: str
    roles: frozenset[Role]
    """Fault-free requests that all have to keep it before it is enforced on others."""
    kept: Callable[[RequestRecord, TraceEvent], bool | None]


def _steps_add_up(record: RequestRecord, trace: TraceEvent) -> bool | None:
    counts = (trace.batch_decode_steps, trace.singleton_decode_steps, trace.decode_step_count)
    if counts[0] is None or counts[1] is None or counts[2] is None:
        return None
    return abs(counts[0] + counts[1] - counts[2]) <= (record.outcome is not Outcome.COMPLETED)


def _steps_of_tokens(record: RequestRecord, trace: TraceEvent) -> bool | None:
    if record.outcome is not Outcome.COMPLETED or not trace.completion_tokens or trace.decode_step_count is None:
        return None
    if record.role is Role.BAD:  # its stop string may be found, and its end called for, while a step is under way
        return None
    return trace.decode_step_count == trace.completion_tokens - 1


def _length_is_whole(record: RequestRecord, trace: TraceEvent) -> bool | None:
    if record.outcome is not Outcome.COMPLETED or trace.reason is not TerminalReason.COMPLETED_LENGTH:
        return None
    if trace.completion_tokens is None or record.max_tokens is None or record.role is Role.BAD:
        return None
    return trace.completion_tokens == record.max_tokens


def _batches_have_rows(_: RequestRecord, trace: TraceEvent) -> bool | None:
    if trace.batch_decode_steps is None or trace.decode_batch_size_max is None:
        return None
    return (trace.batch_decode_steps > 0) is (trace.decode_batch_size_max > 1)


def _mean_is_mean(_: RequestRecord, trace: TraceEvent) -> bool | None:
    if trace.decode_mean_ms is None or trace.decode_total_ms is None or not trace.decode_step_count:
        return None
    return abs(trace.decode_mean_ms * trace.decode_step_count - trace.decode_total_ms) <= 1.0 + 0.02 * trace.decode_total_ms


def _client_has_no_more(record: RequestRecord, trace: TraceEvent) -> bool | None:
    if trace.completion_tokens is None or record.role is Role.BAD:
        return None
    return record.token_events <= trace.completion_tokens


def _whole_account(record: RequestRecord, trace: TraceEvent) -> bool | None:
    """A completed request has all the stamps that a fault-free one has."""
    if record.outcome is not Outcome.COMPLETED or record.role is Role.BAD:
        return None
    return None not in (
        trace.queued_unix_s,
        trace.scheduled_unix_s,
        trace.first_token_unix_s,
        trace.terminal_unix_s,
        trace.completion_tokens,
    )


RELATIONS = (
    Relation(name="batch and single steps add up", roles=ALONE, kept=_steps_add_up),
    Relation(name="a decode step for each token but the first", roles=ALONE, kept=_steps_of_tokens),
    Relation(name="finished by length means all tokens", roles=ALONE, kept=_length_is_whole),
    Relation(name="batch steps where there were batches", roles=FAULT_FREE, kept=_batches_have_rows),
    Relation(name="the mean is total by steps", roles=ALONE, kept=_mean_is_mean),
    Relation(name="no client has more pieces than tokens were made", roles=FAULT_FREE, kept=_client_has_no_more),
    Relation(name="every stamp is there", roles=ALONE, kept=_whole_account),
)


def _relations(matched: list[Pair]) -> tuple[list[str], list[str]]:
    """Names of the relations that fault-free traces keep, and where others break them."""
    names, broken = [], []
    for relation in RELATIONS:
        said = [(record, relation.kept(record, trace)) for record, trace in matched]
        usual = [kept for record, kept in said if record.role in relation.roles and kept is not None]
        if not usual or not all(usual):
            continue
        names.append(relation.name)
        broken += [f"{where(record)}: not as in fault-free traces: {relation.name}" for record, kept in said if kept is False]
    return names, broken


def active_intervals(evidence: Evidence) -> list[tuple[float, float]]:
    """On the server's clock: from being scheduled to the end."""
    return [
        (trace.scheduled_unix_s, trace.terminal_unix_s)
        for _, trace in pairs(evidence)
        if trace.scheduled_unix_s is not None and trace.terminal_unix_s is not None
    ]


def _pending_intervals(evidence: Evidence) -> list[tuple[float, float]]:
    """On the server's clock: from being queued until scheduled, or to the end of one that never was."""
    found = []
    for _, trace in pairs(evidence):
        until = trace.terminal_unix_s if trace.scheduled_unix_s is None else trace.scheduled_unix_s
        if trace.queued_unix_s is not None and until is not None:
            found.append((trace.queued_unix_s, until))
    return found


def _crowd(evidence: Evidence, matched: list[Pair], speed: Tempo) -> list[str]:
    """Traces that count fewer active or pending requests at their end than certainly were, by the other traces."""
    margin = evidence.limit("trace_crowd_s") + 2 * speed.gap_s + speed.serial_prefill_s
    active, pending = Crowd(active_intervals(evidence), margin), Crowd(_pending_intervals(evidence), margin)
    wrong = []
    for record, trace in matched:
        if trace.terminal_unix_s is None or trace.reason is TerminalReason.REJECTED:
            continue
        for crowd, now, most, name in (
            (active, trace.active_at_terminal, trace.active_max, "active"),
            (pending, trace.pending_at_terminal, trace.pending_max, "pending"),
        ):
            said, least = max(now or 0, most or 0), crowd.at(trace.terminal_unix_s)
            if now is not None and now < least:
                wrong.append(f"{where(record)}: {now} {name} at its end, and by other traces {least} certainly were")
            elif most is not None and trace.scheduled_unix_s is not None and said < least:
                wrong.append(f"{where(record)}: at most {most} {name} in its life, and by other traces {least} certainly were")
    return wrong


FIGURES = Check(id="trace.figures", question="Are the numbers in the traces possible?", judge=_figures)
