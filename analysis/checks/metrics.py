"""Whether gauges and counters say what the run knows to be true.

Gauges may be refreshed only now and then, so they are held against moments when nothing had changed for a while: a full
set of holders with others behind it, and rest. A counter that never moves may not be kept by this server; one that moves has
to agree roughly with what was sent and served.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from analysis.checks.baseline import by_gauges
from analysis.checks.capacity import text_span
from analysis.checks.holding import Hold, holds
from analysis.checks.leavers import LEFT
from analysis.checks.requests import end_unix_s, planned, sent_unix_s, shown
from analysis.checks.tempo import Tempo, tempo
from analysis.evidence import Evidence, Place
from analysis.finding import Check, Finding, failed, not_applicable, passed, unknown
from analysis.record import RequestRecord
from analysis.vocabulary import Outcome, Role

GROWING = re.compile(r"_(total|count|sum|bucket)(\{|$)")
GENERATED = re.compile(r"(generation_tokens|tokens_predicted|completion_tokens|output_tokens)(_count)?_total$")
SERVED = re.compile(r"request_success(_total)?\{(length|stop)\}$")
ABORTED = re.compile(r"(abort|cancel)\w*\}?$", re.IGNORECASE)
LAST = 3
"""Samples at the end of a window that have to agree; one of them is enough."""


def _honest(evidence: Evidence) -> Finding:
    target, frame = evidence.plan.target, evidence.metrics
    good = frame[frame["running"].notna()]
    if target.gauges == "none" or (target.gauges == "optional" and good.empty):
        return not_applicable("this server has no gauges of its load")
    speed = tempo(evidence)
    if good.empty or speed is None:
        return unknown("the gauges were never read" if good.empty else "the server's own speed was not measured")
    wrong = [*_fell_silent(evidence, frame), *_backwards(frame), *_stuck(evidence), *_idle_under_load(evidence, good, speed)]
    known = not any(mark.event == "missing" for mark in evidence.workers)  # who was lost may have sent more than we know
    wrong += _counters(evidence) if known else []
    held, found = 0, holds(evidence)
    for hold in found if known else []:
        if hold.fills(target.active_cap):
            count, lies = _held(evidence, hold, good, speed)
            held, wrong = held + count, wrong + lies
    if wrong:
        return failed(f"gauges or counters contradict the run: {len(wrong)} signs", *shown(wrong))
    too_short = bool(found) and all(hold.length_s <= evidence.limit("gauge_window_s") for hold in found)
    if planned(evidence, Role.HOLDER) and target.active_cap is not None and not held and not too_short:
        return unknown("no gauge was read while all slots were certainly taken")
    return passed(f"{len(good)} readings of the gauges agree with the run, {held} of them with all slots taken; no counter ran backwards")


def _fell_silent(evidence: Evidence, frame: pd.DataFrame) -> Iterable[str]:
    """Metrics that could be read and, from some moment to the end, were refused or no metrics, by a server that answered."""
    ordered = frame.sort_values("at_unix_s", kind="stable")
    last_good = ordered["at_unix_s"][ordered["running"].notna()].max()
    errors = ordered["error"][ordered["at_unix_s"] > last_good]
    answered = errors[errors.str.startswith("status ") | (errors == "ValueError")]
    if len(answered) >= evidence.limit("gauge_samples"):
        yield f"metrics could be read until {last_good:.3f}, and in none of {len(answered)} answers after it: {answered.iloc[-1]}"


def _backwards(frame: pd.DataFrame) -> Iterable[str]:
    """Counters that fell."""
    highest: dict[str, float] = {}
    for moment, counters in zip(frame["at_unix_s"], frame["counters"], strict=True):
        for name, value in counters.items():
            if GROWING.search(name) and value < highest.get(name, value):
                yield f"{name} fell from {highest[name]:g} to {value:g} at {moment:.3f}"
            highest[name] = value


def _stuck(evidence: Evidence) -> Iterable[str]:
    """Gauges that are not at 0 when the server had all the time to settle."""
    yield from (f"not 0 at rest: {rest}" for rest in by_gauges(evidence, "settled") if not rest.clean)


def _idle_under_load(evidence: Evidence, good: pd.DataFrame, speed: Tempo) -> Iterable[str]:
    """Samples that say nothing runs while streams certainly do: all of them, or it is only late."""
    margin = evidence.limit("gauge_late_s") + 2 * speed.gap_s
    spans = [text_span(record) for record in evidence.records if len(record.token_times_s) > 1]
    running = [
        (value, sum(begin + margin <= at <= end - margin for begin, end in spans))
        for at, value in zip(good["at_unix_s"], good["running"], strict=True)
    ]
    loaded = [value for value, streams in running if streams]
    if len(loaded) >= evidence.limit("gauge_samples") and not any(loaded):
        yield f"the gauge of running requests was 0 in all {len(loaded)} readings while streams were certainly running"


def _held(evidence: Evidence, hold: Hold, good: pd.DataFrame, speed: Tempo) -> tuple[int, list[str]]:
    """Readings while a full set of holders held: as many run as there are slots, and as many wait as had come and not left."""
    late = evidence.limit("gauge_late_s") + 2 * speed.gap_s
    begin = (hold.begin_unix_s or 0.0) + late
    inside = good[(good["at_unix_s"] >= begin) & (good["at_unix_s"] <= hold.end_unix_s)]
    if len(inside) < evidence.limit("gauge_window_samples"):
        return len(inside), []
    last = inside.tail(LAST)
    cap, lies = len(hold.holders), []
    if not (last["running"] == cap).any():
        lies.append(f"{hold.stage}: {_numbers(last['running'])} running in the last readings, and {cap} clients were being served")
    bounds = [_waiting(evidence, at, late) for at in last["at_unix_s"]]
    said = list(zip(last["waiting"], bounds, strict=True))
    known = [(value, least, most) for value, (least, most) in said if value == value]
    if known and not any(least <= value <= most for value, least, most in known):
        expected = ", ".join(f"{least}" if least == most else f"{least} to {most}" for _, least, most in known)
        lies.append(f"{hold.stage}: {_numbers(last['waiting'])} waiting in the last readings, and {expected} clients were")
    return len(inside), lies


def _waiting(evidence: Evidence, at: float, late: float) -> tuple[int, int]:
    """How many clients waited behind the holders at a moment: certainly, and at most, given that a gauge may be late."""
    at_turn = evidence.plan.target.queued_leaver == "at_turn"
    others = [one for one in evidence.records if one.role is not Role.HOLDER and one.sent_s is not None and sent_unix_s(one) <= at]
    least = sum(sent_unix_s(one) <= at - late and end_unix_s(one) >= at and one.role is not Role.BAD for one in others)
    most = sum(end_unix_s(one) >= at - late for one in others)
    gone = sum(one.outcome in LEFT and one.stage == _stage_at(evidence, at) for one in others) if at_turn else 0
    return least, most + gone


def _stage_at(evidence: Evidence, at: float) -> str:
    """The stage that was under way at a moment; empty before the first."""
    name = ""
    for mark in evidence.stages:
        if mark.edge == "begin" and mark.at_unix_s <= at:
            name = mark.stage
    return name


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How far the counters of one kind rose between the first and the last reading that had them, summed."""

    rise: float
    begin_unix_s: float
    end_unix_s: float


def _growth(frame: pd.DataFrame, kind: re.Pattern[str]) -> Growth | None:
    """None where there are none. A series that comes later (a label seen for the first time) rose from 0."""
    sums = [
        (at, sum(value for name, value in counters.items() if kind.search(name)), any(kind.search(name) for name in counters))
        for at, counters, error in zip(frame["at_unix_s"], frame["counters"], frame["error"], strict=True)
        if not error
    ]
    if not any(present for _, _, present in sums):
        return None
    return Growth(rise=sums[-1][1] - sums[0][1], begin_unix_s=sums[0][0], end_unix_s=sums[-1][0])


def _counters(evidence: Evidence) -> Iterable[str]:
    frame = evidence.metrics.sort_values("at_unix_s", kind="stable")
    generated, served, aborted = (_growth(frame, kind) for kind in (GENERATED, SERVED, ABORTED))
    if generated is not None:
        yield from _generated(evidence, generated)
    if served is not None:
        yield from _served(evidence, served)
    if aborted is not None and (aborted.rise > 0 or evidence.plan.target.counts_aborts):
        yield from _aborted(evidence, aborted)
    elif evidence.plan.target.counts_aborts and any(one.outcome is Outcome.CANCELLED for one in evidence.records):
        yield "the promised counter of aborts is not there, though clients left"


def _within(records: Iterable[RequestRecord], growth: Growth) -> list[RequestRecord]:
    return [one for one in records if one.started_unix_s >= growth.begin_unix_s and one.started_unix_s + one.ended_s <= growth.end_unix_s]


def _unsure(evidence: Evidence) -> list[RequestRecord]:
    """Requests of which a client cannot know all that was done for them."""
    return [one for one in evidence.records if one.outcome is not Outcome.COMPLETED or one.role is Role.BAD]


def _generated(evidence: Evidence, growth: Growth) -> Iterable[str]:
    share, slack = evidence.limit("counter_share"), evidence.limit("counter_slack")
    known = sum(one.completion_tokens or one.token_events for one in _within(evidence.records, growth) if one.outcome is Outcome.COMPLETED)
    if growth.rise < known * (1 - share) - slack:
        yield f"the counter of generated tokens rose by {growth.rise:g}, and clients were served {known}"
    places = evidence.requests["place"]
    if evidence.plan.target.trace is None or evidence.ledger.empty or (places == Place.CLIENT_ONLY).any():
        return
    counted = [trace.completion_tokens for trace in evidence.traces]
    if None in counted:
        return
    most = sum(count or 0 for count in counted)
    untraced = sum(one.outcome is not Outcome.COMPLETED and one.role is not Role.BAD for one in evidence.records)
    unsure = evidence.limit("counter_unsure_tokens") * untraced
    if growth.rise > most * (1 + share) + slack + unsure:
        yield f"the counter of generated tokens rose by {growth.rise:g}, and all traces together count {most}"


def _served(evidence: Evidence, growth: Growth) -> Iterable[str]:
    slack = evidence.limit("counter_slack")
    least = sum(one.outcome is Outcome.COMPLETED and one.role is not Role.BAD for one in _within(evidence.records, growth))
    done = sum(one.outcome is Outcome.COMPLETED for one in evidence.records)
    most = done + 2 * len(_unsure(evidence)) + slack
    if not least * (1 - evidence.limit("counter_share")) - slack <= growth.rise <= most:
        yield f"the counter of finished requests rose by {growth.rise:g}, and {done} clients had a whole answer"


def _aborted(evidence: Evidence, growth: Growth) -> Iterable[str]:
    """A counter that moves at all has to move with the clients that leave."""
    slack, unsure = evidence.limit("counter_slack"), _unsure(evidence)
    streamed = [one for one in _within(unsure, growth) if one.outcome is Outcome.CANCELLED and one.stream and one.role is not Role.BAD]
    if growth.rise > 2 * len(unsure) + slack:
        yield f"the counter of aborted requests rose by {growth.rise:g}, and only {len(unsure)} requests did not complete"
    if growth.rise < evidence.limit("counter_abort_share") * len(streamed) - slack:
        yield f"the counter of aborted requests rose by {growth.rise:g}, and {len(streamed)} clients left a stream"


HONEST = Check(id="metrics.honest", question="Do gauges and counters agree with the ledger?", judge=_honest)
