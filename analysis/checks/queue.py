"""Whether the queue is first come, first served, and whether pressure beyond the cap is handled without breaking anything.

Two arrivals that are close together may legally be admitted in either order, and a machine that stands still shuffles
what arrived meanwhile. So only a pair counts that was clearly apart: on the client's clock (the second began after the
first had been sent) and, where the server logs it, on the server's.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from analysis.checks.requests import (
    DROPPED,
    EXPECTED,
    OVERLOAD_STATUS,
    ending,
    most_in_flight,
    refused_for_load,
    sent_unix_s,
    shown,
    traces_by_id,
    where,
)
from analysis.checks.tempo import Tempo, tempo
from analysis.evidence import Evidence
from analysis.finding import Check, Finding, failed, not_applicable, passed, unknown
from analysis.record import RequestRecord
from analysis.vocabulary import Outcome, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """One request that was served: when it arrived and when the server turned to it."""

    record: RequestRecord
    queued_unix_s: float
    served_unix_s: float


def _fair(evidence: Evidence) -> Finding:
    if not _crowded_stages(evidence):
        return not_applicable("no stage of this scenario queues requests behind a full server")
    speed = tempo(evidence)
    if speed is None:
        return unknown("the server's own speed was not measured")
    by_trace = _admissions_by_trace(evidence)
    by_client = _admissions_by_client(evidence)
    traced = sum(map(len, by_trace.values())) * 2 >= sum(map(len, by_client.values())) and bool(by_trace)
    stages, slack = (by_trace, evidence.limit("queue_tie_s")) if traced else (by_client, _first_token_slack_s(evidence, speed))
    pairs = 0
    overtaken: list[str] = []
    for admissions in stages.values():
        count, found = _overtaken(evidence, admissions, slack)
        pairs, overtaken = pairs + count, overtaken + found
    witness = "the server's traces" if traced else "first tokens"
    backwards = [] if traced else _backwards(evidence, by_client)
    if overtaken or backwards:
        return failed(
            f"{len(overtaken)} requests were served before one that had come earlier, by {witness}", *shown(backwards + overtaken)
        )
    if not pairs:
        return unknown("no request clearly arrived behind another that was still waiting")
    return passed(f"in {pairs} pairs that waited together, the one that came first was served first, by {witness}")


def _crowded_stages(evidence: Evidence) -> list[str]:
    return [stage.name for stage in evidence.plan.stages if any(group.waits_for for group in stage.groups)]


def _served(evidence: Evidence) -> Iterable[RequestRecord]:
    """Those who waited for their turn and got it: who left while queued gives its place to others."""
    for record in evidence.records:
        if (
            record.sent_s is not None
            and (record.outcome is Outcome.COMPLETED or record.first_token_s is not None)
            and record.role is not Role.BAD
        ):
            yield record


def _admissions_by_trace(evidence: Evidence) -> dict[str, list[Admission]]:
    traces = traces_by_id(evidence)
    found: dict[str, list[Admission]] = defaultdict(list)
    for record in _served(evidence):
        trace = traces.get(record.request_id)
        if trace is not None and trace.queued_unix_s is not None and trace.scheduled_unix_s is not None:
            found[record.stage].append(Admission(record=record, queued_unix_s=trace.queued_unix_s, served_unix_s=trace.scheduled_unix_s))
    return found


def _admissions_by_client(evidence: Evidence) -> dict[str, list[Admission]]:
    found: dict[str, list[Admission]] = defaultdict(list)
    for record in _served(evidence):
        if record.stream and record.first_token_s is not None:
            served = record.started_unix_s + record.first_token_s
            found[record.stage].append(Admission(record=record, queued_unix_s=sent_unix_s(record), served_unix_s=served))
    return found


def _first_token_slack_s(evidence: Evidence, speed: Tempo) -> float:
    """Prompts that are prefilled together reach their first tokens in any order, the longest last."""
    return evidence.limit("queue_first_token_s") + 2 * speed.prefill_s + 5 * speed.gap_s


def _overtaken(evidence: Evidence, admissions: list[Admission], slack: float) -> tuple[int, list[str]]:
    """How many pairs waited together and clearly apart, and those of them that were served in the wrong order."""
    apart = evidence.limit("queue_apart_s")
    pairs, found = 0, []
    for first, second in combinations(sorted(admissions, key=lambda one: one.queued_unix_s), 2):
        ahead = min(second.queued_unix_s - first.queued_unix_s, second.record.started_unix_s - sent_unix_s(first.record))
        if ahead < apart or first.served_unix_s < second.queued_unix_s:
            continue
        pairs += 1
        late = first.served_unix_s - second.served_unix_s
        if late > slack and late - evidence.ours(second.served_unix_s, first.served_unix_s) > slack:
            found.append(
                f"{where(second.record)} was served {late:.3f} s before {where(first.record)}, which had come {ahead:.3f} s earlier"
            )
    return pairs, found


def _backwards(evidence: Evidence, stages: dict[str, list[Admission]]) -> list[str]:
    """Groups that were clearly spaced and got their first tokens rather in the opposite order."""
    wrong = []
    for stage in evidence.plan.stages:
        for group in stage.groups:
            waited = [one for one in stages.get(stage.name, []) if one.record.group == group.name and one.record.role is Role.NORMAL]
            if not group.waits_for or group.spacing_s <= 0 or len(waited) < evidence.limit("queue_rank_count"):
                continue
            rank = _rank_correlation(waited)
            if rank < evidence.limit("queue_rank"):
                wrong.append(
                    f"{stage.name}/{group.name}: the order of first tokens runs against the order of arrival (rank correlation {rank:.2f})"
                )
    return wrong


def _rank_correlation(admissions: list[Admission]) -> float:
    """Kendall's tau of arrival and service: 1 in order, -1 in reverse order."""
    pairs = list(combinations(sorted(admissions, key=lambda one: one.queued_unix_s), 2))
    return sum(1 if first.served_unix_s <= second.served_unix_s else -1 for first, second in pairs) / len(pairs)


def _overload(evidence: Evidence) -> Finding:
    stages = _crowded_stages(evidence)
    if not stages:
        return not_applicable("no stage of this scenario goes beyond the cap")
    records = [record for record in evidence.records if record.stage in stages and record.role is not Role.BAD]
    waiting = [record for record in records if record.role in EXPECTED and record.role is not Role.FOLLOW_UP]
    wrong = [ending(one) for one in waiting if one.outcome in (Outcome.FAILED, Outcome.TIMEOUT) or _refused(evidence, one)]
    wrong += [ending(one) for one in records if one not in waiting and (one.error in DROPPED or _refused(evidence, one))]
    if wrong:
        return failed(f"{len(wrong)} requests were dropped or refused under pressure", *shown(wrong))
    ours = [ending(one) for one in waiting if one.outcome is not Outcome.COMPLETED and not refused_for_load(evidence, one)]
    if ours or not waiting:
        return unknown(f"{len(ours)} of {len(waiting)} requests beyond the cap were stopped from our side", *shown(ours))
    cap = evidence.plan.target.active_cap
    most = max(most_in_flight(record for record in records if record.stage == stage) for stage in stages)
    if cap is not None and most <= cap:
        return unknown(f"only {most} requests were open at once, and the cap is {cap}")
    turned = sum(one.status in OVERLOAD_STATUS for one in waiting)
    beyond = f"beyond the cap of {cap}" if cap is not None else "at once; nobody said what the cap is"
    last_s = max(one.ended_s for one in waiting)
    return passed(
        f"up to {most} requests {beyond}: {len(waiting) - turned} served, {turned} refused as declared; the longest took {last_s:.1f} s"
    )


def _refused(evidence: Evidence, record: RequestRecord) -> bool:
    return record.outcome is Outcome.REJECTED and not refused_for_load(evidence, record)


FAIR = Check(id="queue.fair", question="Is the queue first come, first served?", judge=_fair)
OVERLOAD = Check(id="queue.overload", question="Is pressure beyond the cap queued or refused cleanly?", judge=_overload)
