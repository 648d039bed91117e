"""Whether there was enough to judge: the run is whole, its faults landed, and the witnesses that were promised spoke.

These checks never blame the server: what they miss is unknown.
"""

from collections import Counter
from collections.abc import Iterable

from analysis.checks.requests import ending, shown
from analysis.evidence import Evidence, Place
from analysis.finding import Check, Finding, not_applicable, passed, unknown
from analysis.plan import Group, Stage
from analysis.vocabulary import Outcome, Role


def _complete(evidence: Evidence) -> Finding:
    lost = [*evidence.problems, *_workers(evidence), *_stages(evidence), *_groups(evidence)]
    if evidence.pace is None:
        lost.append("the server's own speed was not measured")
    stopped = [ending(record) for record in evidence.records if record.outcome is Outcome.HARNESS_STOPPED]
    if lost or stopped:
        return unknown(
            f"{len(lost)} pieces of evidence are missing, {len(stopped)} requests were stopped from our side", *shown(lost + stopped)
        )
    if not evidence.records:
        return unknown("no request was recorded")
    return passed(f"all {len(evidence.records)} requests are accounted for, in {len(evidence.plan.stages)} stages")


def _workers(evidence: Evidence) -> Iterable[str]:
    """Workers that were lost, ran other code, or never closed their shard."""
    closed = {mark.worker for mark in evidence.workers if mark.event == "closed"}
    for mark in evidence.workers:
        if mark.event in ("missing", "other_revision"):
            yield f"worker {mark.worker}: {mark.event.replace('_', ' ')} {mark.detail}".rstrip()
    seen = {mark.worker for mark in evidence.workers} | {record.worker for record in evidence.records}
    yield from (f"worker {worker} never said that its records are complete" for worker in sorted(seen - closed))


def _stages(evidence: Evidence) -> Iterable[str]:
    """Stages that did not run to their end."""
    edges = {(mark.stage, mark.edge) for mark in evidence.stages}
    for stage in evidence.plan.stages:
        if (stage.name, "begin") not in edges:
            yield f"stage {stage.name} never began"
        elif (stage.name, "cut") in edges:
            yield f"stage {stage.name} was cut by its time limit"
        elif (stage.name, "end") not in edges:
            yield f"stage {stage.name} never ended"
    forced = [f"{mark.stage}: {mark.name}" for mark in evidence.milestones if mark.forced]
    if forced:
        yield f"milestones that were not reached in time: {', '.join(forced)}"


def _groups(evidence: Evidence) -> Iterable[str]:
    """Groups of which fewer items were sent than they must send."""
    sent: Counter[tuple[str, str]] = Counter()
    for name, of, _ in {(record.stage, record.group, record.item) for record in evidence.records}:
        sent[name, of] += 1
    for stage, group in groups(evidence):
        least = 1 if group.loop else min(group.min_count or len(group.items), len(group.items))
        if group.items and sent[stage.name, group.name] < least:
            yield f"{stage.name}/{group.name}: {sent[stage.name, group.name]} of at least {least} requests were sent"


def groups(evidence: Evidence) -> list[tuple[Stage, Group]]:
    """All groups of the plan with their stages."""
    return [(stage, group) for stage in evidence.plan.stages for group in stage.groups]


def _bite(evidence: Evidence) -> Finding:
    needy = [(stage, group) for stage, group in groups(evidence) if group.needs]
    if not needy:
        return not_applicable("this scenario asks for no fault to land")
    landed = Counter((record.stage, record.group) for record in evidence.records if record.landed)
    toothless = [
        f"{stage.name}/{group.name}: {landed[stage.name, group.name]} of {group.needs} landed"
        for stage, group in needy
        if landed[stage.name, group.name] < group.needs
    ]
    toothless += _never_landed(evidence)
    if toothless:
        return unknown(f"{len(toothless)} planned faults did not land often enough", *shown(toothless))
    lines = [f"{stage.name}/{group.name}: {landed[stage.name, group.name]} landed, {group.needs} needed" for stage, group in needy]
    return passed(f"the faults of {len(needy)} groups landed, {sum(landed.values())} in all", *shown([*lines, *_cells(evidence)]))


def _never_landed(evidence: Evidence) -> list[str]:
    """Faults that were tried several times in the run and never landed. Where else they landed, single stages may have had bad luck."""
    tried = Counter(record.fault for record in evidence.records if record.role is Role.FAULTY)
    landed = Counter(record.fault for record in evidence.records if record.role is Role.FAULTY and record.landed)
    least = evidence.limit("bite_tries")
    return [f"{fault}: none of {count} landed" for fault, count in sorted(tried.items()) if count >= least and not landed[fault]]


def _cells(evidence: Evidence) -> list[str]:
    """For each kind of fault, endpoint and mode: how many were tried and landed."""
    tried: Counter[str] = Counter()
    landed: Counter[str] = Counter()
    for record in evidence.records:
        if record.role is Role.FAULTY:
            cell = f"{record.fault} on {record.endpoint}, {'streamed' if record.stream else 'whole'}"
            tried[cell] += 1
            landed[cell] += record.landed
    return [f"{cell}: {landed[cell]} of {count} landed" for cell, count in sorted(tried.items())]


def _witnesses(evidence: Evidence) -> Finding:
    silent = [*_gauges(evidence), *_health(evidence), *_traces(evidence), *_process(evidence)]
    if silent:
        return unknown(f"{len(silent)} promised witnesses were silent", *shown(silent))
    target = evidence.plan.target
    present = [f"trace log: {len(evidence.traces)} traces"] if target.trace else []
    present += [f"gauges: {len(evidence.metrics)} readings"] if len(evidence.metrics) and target.gauges != "none" else []
    present += [f"health: {len(evidence.health)} polls"] if target.health_path else []
    present += [f"process: {len(evidence.process)} readings"] if len(evidence.process) else []
    if not present:
        return not_applicable("this server has no witness of its own state; only its answers are judged")
    return passed(f"{len(present)} witnesses of the server's state spoke", *present)


def _gauges(evidence: Evidence) -> Iterable[str]:
    """Readings at rest that are missing although the gauges are promised. A gauge that is not there is missing, never 0."""
    if evidence.plan.target.gauges != "promised":
        return
    good = evidence.metrics[evidence.metrics["running"].notna() & evidence.metrics["waiting"].notna()]
    read = set(zip(good["stage"], good["moment"], strict=True))
    if good.empty:
        yield "gauges: no reading had both gauges"
        return
    for stage in evidence.plan.stages:
        moments = ("settled", "poked") if stage.follow_ups else ()
        yield from (f"gauges: no reading when {moment} after {stage.name}" for moment in moments if (stage.name, moment) not in read)


def _health(evidence: Evidence) -> Iterable[str]:
    if evidence.plan.target.health_path is not None and evidence.health.empty:
        yield "health: no poll at all"


def _traces(evidence: Evidence) -> Iterable[str]:
    if evidence.plan.target.trace is None:
        return
    if evidence.log is None:
        yield "trace log: there is no server log"
    elif not evidence.traces:
        yield f"trace log: none of {evidence.log.line_count} lines of the server's log is a trace that can be read"
    elif not (evidence.trace_frame["place"] == Place.MATCHED).any():
        yield f"trace log: none of {len(evidence.traces)} traces carries an id of this run"


def _process(evidence: Evidence) -> Iterable[str]:
    if evidence.plan.target.launched and not evidence.process["pid"].notna().any():
        yield "process: the server that we started was never read"


COMPLETE = Check(id="evidence.complete", question="Is every request accounted for?", judge=_complete)
BITE = Check(id="evidence.bite", question="Did each planned fault really land?", judge=_bite)
WITNESSES = Check(id="evidence.witnesses", question="Were the promised witnesses there?", judge=_witnesses)
