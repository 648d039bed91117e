"""Whether the clients beside a fault noticed it: bystanders complete, get their exact text, and wait no longer for a token.

A single long gap may be this machine; what a fault does to its neighbours shows at every one of its kind. So each fault's
moment is paired with the longest gap that any bystander's stream had across it, and the median over all faults of one
kind is held against what a normal request meets at its worst under fault-free load. Prefill of others is no harm.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from statistics import median

from analysis.checks.golden import differences, exactness
from analysis.checks.pauses import Gap, gaps, length_s, starts, unexplained_s, usual_worst_s
from analysis.checks.requests import end_unix_s, ending, mostly_ours, sent_unix_s, shown, where
from analysis.checks.tempo import Tempo, tempo
from analysis.evidence import Evidence
from analysis.finding import Check, Finding, failed, not_applicable, passed, unknown
from analysis.record import RequestRecord
from analysis.vocabulary import Outcome, Role

Window = tuple[float, float]


def _unharmed(evidence: Evidence) -> Finding:
    planned = [stage.name for stage in evidence.plan.stages if stage.faulty and _has_bystanders(evidence, stage.name)]
    if not planned:
        return not_applicable("no stage of this scenario puts bystanders beside faults")
    neighbours = [record for record in evidence.records if record.stage in planned and record.role is Role.BYSTANDER]
    wrong = [ending(record) for record in neighbours if _broken(evidence, record)]
    if exactness(evidence).exact:
        wrong += [f"{where(record)}, prompt {record.prompt!r}: {how}" for record, how in differences(evidence, neighbours)[0]]
    speed = tempo(evidence)
    moments = {stage: _moments(evidence, stage) for stage in planned}
    alone = evidence.plan.target.active_cap == 1  # the only slot is the fault's: a bystander beside it waits for its turn
    beside = _waiting if alone else _streaming
    covered = {stage: _covered([beside(one) for one in neighbours if one.stage == stage], moments[stage]) for stage in planned}
    if speed is not None:
        wrong += _slowed(evidence, speed, neighbours, covered)
    if wrong:
        return failed(f"{len(wrong)} signs that faults reached the requests beside them", *shown(wrong))
    bare = [
        stage
        for stage in planned
        if len(covered[stage]) < min(evidence.limit("neighbour_faults"), len(moments[stage])) or not covered[stage]
    ]
    if bare:
        return unknown(f"too few faults had a bystander streaming beside them in: {', '.join(bare)}")
    if speed is None:
        return unknown("the server's own speed was not measured, so gaps cannot be judged")
    count = sum(map(len, covered.values()))
    return passed(f"{len(neighbours)} bystanders completed unharmed beside {count} faults that landed while one was streaming")


def _has_bystanders(evidence: Evidence, stage_name: str) -> bool:
    stages = (stage for stage in evidence.plan.stages if stage.name == stage_name)
    return any(item.role is Role.BYSTANDER for stage in stages for group in stage.groups for item in group.items)


def _broken(evidence: Evidence, record: RequestRecord) -> bool:
    return record.outcome in (Outcome.FAILED, Outcome.TIMEOUT, Outcome.REJECTED) and not mostly_ours(evidence, record)


def _moments(evidence: Evidence, stage: str) -> list[tuple[str, float]]:
    """Name and wall clock of each fault of a stage: when the client left, or when the bad request had been sent."""
    found = []
    for record in evidence.records:
        if record.stage == stage and record.role is Role.FAULTY and record.cut_s is not None:
            found.append((record.fault, record.started_unix_s + record.cut_s))
        elif record.stage == stage and record.role is Role.BAD:
            found.append((f"a bad request answered by {record.status}", sent_unix_s(record)))
    return found


def _streaming(record: RequestRecord) -> Window:
    """From the first token of a bystander to its last; empty where it had none."""
    if record.first_token_s is None or record.last_token_s is None:
        return (record.started_unix_s, record.started_unix_s)
    return (record.started_unix_s + record.first_token_s, record.started_unix_s + record.last_token_s)


def _waiting(record: RequestRecord) -> Window:
    return (sent_unix_s(record), end_unix_s(record))


def _covered(windows: list[Window], moments: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Faults that fell into the window of a bystander."""
    return [(name, at) for name, at in moments if any(begin <= at <= end for begin, end in windows)]


def _slowed(evidence: Evidence, speed: Tempo, neighbours: list[RequestRecord], covered: dict[str, list[tuple[str, float]]]) -> list[str]:
    """Kinds of faults across which bystanders paused too long. Faults within one and the same gap are one sample, not many."""
    more = evidence.limit("neighbour_prefill_factor")
    limit = evidence.limit("neighbour_factor") * max(usual_worst_s(evidence, speed, more), speed.gap_s) + evidence.limit(
        "neighbour_floor_s"
    )
    reach = evidence.limit("neighbour_reach_s") + 2 * speed.gap_s
    found = []
    for stage, faults in covered.items():
        begun = starts((record for record in evidence.records if record.stage == stage), speed)
        beside = sorted(gap for record in neighbours if record.stage == stage for gap in gaps(record))
        for kind, across in _longest_across(beside, faults, reach).items():
            waits = [unexplained_s(evidence, gap, begun, more) for gap in across]
            if len(waits) >= evidence.limit("neighbour_samples") and median(waits) > limit:
                found.append(
                    f"{kind} in {stage}: bystanders paused {median(waits):.3f} s across it for no reason of their own, "
                    f"in the median of {len(waits)} (limit {limit:.3f} s)"
                )
    return found


def _longest_across(beside: list[Gap], faults: list[tuple[str, float]], reach: float) -> dict[str, set[Gap]]:
    """The longest gap of any bystander that touches the window after each fault, by kind of fault and for all kinds.

    Gaps are sorted by begin; one that began longer ago than the longest of all cannot touch the window.
    """
    longest = max(map(length_s, beside), default=0.0)
    found: dict[str, set[Gap]] = defaultdict(set)
    for name, at in faults:
        low, high = bisect_left(beside, (at - longest, 0.0)), bisect_right(beside, (at + reach, float("inf")))
        touching = [gap for gap in beside[low:high] if gap[1] >= at]
        if touching:
            across = max(touching, key=length_s)
            found[name].add(across)
            found["all faults"].add(across)
    return found


UNHARMED = Check(id="neighbours.unharmed", question="Did any fault touch a bystander?", judge=_unharmed)
