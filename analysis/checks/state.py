"""Whether the cap on active requests was respected, and whether it was really reached, by traces, by gauges and by what clients saw."""

from analysis.checks.capacity import text_span
from analysis.checks.clock import pairs
from analysis.checks.figures import active_intervals
from analysis.checks.overlap import certain_overlap
from analysis.checks.requests import end_unix_s, shown, where
from analysis.checks.tempo import tempo
from analysis.evidence import Evidence
from analysis.finding import Check, Finding, failed, not_applicable, passed, unknown
from analysis.record import RequestRecord


def _cap(evidence: Evidence) -> Finding:
    cap = evidence.plan.target.active_cap
    if cap is None:
        return not_applicable("nobody said how many requests may be active at once")
    speed = tempo(evidence)
    if speed is None:
        return unknown("the server's own speed was not measured")
    margin = evidence.limit("slot_overlap_s") + 2 * speed.gap_s
    traced = [
        f"{where(record)}: up to {trace.active_max} active by its trace"
        for record, trace in pairs(evidence)
        if (trace.active_max or 0) > cap
    ]
    running = evidence.metrics["running"].dropna()
    gauged = [f"{int(value)} running by the gauge" for value in running if value > cap]
    overlap = certain_overlap(active_intervals(evidence), margin)
    seen = certain_overlap(_streams(evidence), margin)
    traced += [f"{overlap} requests certainly active at once by their traces' stamps"] if overlap > cap else []
    streamed = [f"{seen} streams certainly running at once, as their clients saw them"] if seen > cap else []
    wrong = [*traced, *gauged, *streamed]
    if wrong:
        return failed(f"more than {cap} requests were active at once", *shown(wrong))
    most = _reached(evidence)
    if max(most.values(), default=0) < cap:
        return unknown(f"the cap of {cap} was never reached, so nothing shows that it holds: {_said(most)}")
    return passed(f"never more than {cap} active at once, and that many were: {_said(most)}")


def _said(most: dict[str, int]) -> str:
    return ", ".join(f"up to {count} by {who}" for who, count in most.items()) or "no witness"


def _reached(evidence: Evidence) -> dict[str, int]:
    """The most that each witness saw."""
    maxima = [trace.active_max for _, trace in pairs(evidence) if trace.active_max is not None]
    running = evidence.metrics["running"].dropna()
    most = {"traces": max(maxima)} if maxima else {}
    most |= {"gauges": int(running.max())} if len(running) else {}
    return {**most, "clients": _at_once(tuple(record for record in evidence.records if len(record.token_times_s) > 1))}


def _at_once(records: tuple[RequestRecord, ...]) -> int:
    """The most streams that were between their first token and their end at one moment."""
    steps = [(one.started_unix_s + one.first_token_s, 1) for one in records if one.first_token_s is not None]
    steps += [(end_unix_s(one), -1) for one in records if one.first_token_s is not None]
    count = most = 0
    for _, step in sorted(steps):
        count += step
        most = max(most, count)
    return most


def _streams(evidence: Evidence) -> list[tuple[float, float]]:
    """From the first to the last piece of text that reached the client: in between, the request was active."""
    return [text_span(record) for record in evidence.records if len(record.token_times_s) > 1]


CAP = Check(id="state.cap", question="Was the cap respected, and reached?", judge=_cap)
