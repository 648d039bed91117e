"""How soon a server retires requests whose clients left, and what it still does for them.

The server's stamps are taken at the earliest moment on the client's clock that they can mean, so a lag is never longer than
it was. One long lag needs a large limit; many small ones show in their median.
"""

from collections import defaultdict
from statistics import median

from analysis.checks.clock import clock
from analysis.checks.leavers import Leaver, leavers, notice_s
from analysis.checks.requests import shown, where
from analysis.checks.tempo import Tempo, tempo
from analysis.checks.trace import unjoined
from analysis.evidence import Evidence
from analysis.finding import Check, Finding, failed, not_applicable, passed, unknown
from analysis.record import RequestRecord
from analysis.vocabulary import Outcome, Role


def _ready(evidence: Evidence) -> tuple[Finding | None, list[Leaver], Tempo | None]:
    """The leavers to judge, or why they cannot be."""
    missing = unjoined(evidence)
    if missing is not None:
        return missing, [], None
    if not any(item.fault != "none" for stage in evidence.plan.stages for group in stage.groups for item in group.items):
        return not_applicable("no client of this scenario leaves"), [], None
    speed, offset = tempo(evidence), clock(evidence)
    if speed is None or offset is None:
        return unknown("no fault-free request bounds the server's clock and pace"), [], None
    gone = leavers(evidence, offset)
    return (None if gone else unknown("no client that left has a trace")), gone, speed


def _lag(evidence: Evidence) -> Finding:
    missing, gone, speed = _ready(evidence)
    if missing is not None or speed is None:
        return missing or unknown("the server's own speed was not measured")
    at_turn = evidence.plan.target.queued_leaver == "at_turn"
    timed = [each for each in gone if each.lag_s is not None and not (each.waited and at_turn)]
    if not timed:
        return unknown("no trace of a client that left says when it ended")
    limit = notice_s(evidence, speed)
    wrong = [
        f"{where(one.record)}: retired {one.lag_s:.2f} s after its client left (limit {limit:.1f} s)"
        for one in timed
        if (one.lag_s or 0) > limit
    ]
    figures = []
    for kind, lags in _by_kind(timed).items():
        allowed = _median_s(evidence, speed, kind)
        line = f"{kind}: median {median(lags):.3f} s, longest {max(lags):.3f} s of {len(lags)}"
        figures.append(line)
        if len(lags) >= evidence.limit("retire_samples") and median(lags) > allowed:
            wrong.append(f"{line} (limit of the median {allowed:.2f} s)")
    if wrong:
        return failed(f"the server keeps requests of clients that left: {len(wrong)} signs", *shown(wrong + figures))
    return passed(
        f"{len(timed)} requests of clients that left were retired within {max(0.0, *(one.lag_s or 0.0 for one in timed)):.2f} s", *figures
    )


STREAMED, WHOLE, QUEUED, EARLY = "streaming", "whole answer", "queued", "before its first token"


def _by_kind(timed: list[Leaver]) -> dict[str, list[float]]:
    kinds: dict[str, list[float]] = defaultdict(list)
    for one in timed:
        kinds[_kind(one)].append(one.lag_s or 0.0)
    return dict(kinds)


def _kind(one: Leaver) -> str:
    if one.waited:
        return QUEUED
    if not one.record.stream:
        return WHOLE
    return STREAMED if one.record.first_token_s is not None else EARLY


def _median_s(evidence: Evidence, speed: Tempo, kind: str) -> float:
    """A step or two; where no write fails because nothing is written yet, servers may poll, and a prefill is not broken off."""
    name = "retire_median_s" if kind in (STREAMED, QUEUED) else "retire_silent_median_s"
    prefills = 1 if kind in (STREAMED, QUEUED) else 2
    return evidence.limit(name) + 3 * speed.gap_s + prefills * speed.prefill_s


def _waste(evidence: Evidence) -> Finding:
    missing, gone, speed = _ready(evidence)
    if missing is not None or speed is None:
        return missing or unknown("the server's own speed was not measured")
    for_nobody = [line for one in gone if (line := _prefilled_for_nobody(evidence, one, speed))]
    extras = _extra_tokens(evidence, gone)
    most = evidence.limit("waste_tokens") + notice_s(evidence, speed) / speed.gap_s if speed.gap_s > 0 else float("inf")
    usual = evidence.limit("waste_tokens") + (_median_s(evidence, speed, STREAMED) / speed.gap_s if speed.gap_s > 0 else float("inf"))
    wrong = [
        f"{where(one.record)}: {extra:.0f} tokens more than its client had got when it left (limit {most:.0f})"
        for one, extra in extras
        if extra > most
    ]
    middle = median([extra for _, extra in extras] or [0.0])
    if len(extras) >= evidence.limit("retire_samples") and middle > usual:
        wrong.append(f"in the median of {len(extras)} streams, {middle:.0f} tokens were made after the client had left (limit {usual:.0f})")
    if wrong or for_nobody:
        return failed(f"work was done for clients that had left: {len(wrong) + len(for_nobody)} signs", *shown(for_nobody + wrong))
    if not extras and not any(one.waited for one in gone):
        return unknown("no client that left gives a count of what was done for it")
    total = sum(extra for _, extra in extras)
    queued = sum(one.waited for one in gone)
    return passed(
        f"{total:.0f} tokens in all, {middle:.0f} in the median of {len(extras)} streams; none of {queued} who left the queue was prefilled"
    )


def _prefilled_for_nobody(evidence: Evidence, one: Leaver, speed: Tempo) -> str | None:
    """A client that left the queue well before its turn, and was prefilled all the same."""
    trace = one.trace
    made = trace.prefill_done_unix_s is not None or trace.first_token_unix_s is not None or bool(trace.completion_tokens)
    if not one.waited or not made or trace.scheduled_unix_s is None or one.lag_s is None or trace.terminal_unix_s is None:
        return None
    late = one.lag_s - (trace.terminal_unix_s - trace.scheduled_unix_s)
    limit = evidence.limit("waste_queue_s") + 2 * speed.gap_s + speed.prefill_s
    return f"{where(one.record)}: prefilled {late:.2f} s after its client had left the queue" if late > limit else None


def _extra_tokens(evidence: Evidence, gone: list[Leaver]) -> list[tuple[Leaver, float]]:
    """Tokens that the server made beyond what had reached the client of a stream; how many ride in one event is learnt from whole ones."""
    ratio = _tokens_per_event(evidence.records)
    return [
        (one, max(one.trace.completion_tokens - ratio * one.record.token_events, 0.0))
        for one in gone
        if one.record.stream and one.record.first_token_s is not None and one.trace.completion_tokens is not None
    ]


def _tokens_per_event(records: tuple[RequestRecord, ...]) -> float:
    counted = [
        record.completion_tokens / record.token_events
        for record in records
        if record.stream
        and record.outcome is Outcome.COMPLETED
        and record.role is not Role.BAD
        and record.completion_tokens
        and record.token_events
    ]
    return max(median(counted), 1.0) if counted else 1.0


LAG = Check(id="retire.lag", question="How long after a client left was its request retired?", judge=_lag)
WASTE = Check(id="retire.waste", question="How much work was done for clients that had left?", judge=_waste)
