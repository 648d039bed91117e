"""evidence.*: what is missing is unknown, never a pass and never the server's fault."""

import dataclasses
from collections.abc import Callable

import pytest

from analysis.checks import evidence
from analysis.evidence import LogSummary
from analysis.observation import HealthReading, MetricsReading, Milestone, Pace, ProcessReading, StageMark, WorkerMark
from analysis.vocabulary import Outcome, Role, Status
from tests.analysis import build, complete

Spoiler = Callable[[build.Run], object]


def unmark(run: build.Run, edge: str) -> None:
    run.observations = [one for one in run.observations if not (isinstance(one, StageMark) and one.edge == edge and one.stage == "drain")]


def test_a_complete_run_passes_all_three() -> None:
    run = complete.run()
    assert [complete.judge(check, run).status for check in (evidence.COMPLETE, evidence.BITE, evidence.WITNESSES)] == [Status.PASS] * 3


@pytest.mark.parametrize(
    "spoil, word",
    [
        (lambda run: setattr(run, "problems", ("worker-000.jsonl: it has no footer",)), "no footer"),
        (lambda run: run.unobserve(WorkerMark), "never said that its records are complete"),
        (lambda run: run.observations.append(WorkerMark(at_unix_s=1.0, worker=1, event="missing", detail="gone")), "worker 1: missing"),
        (lambda run: unmark(run, "begin"), "drain never began"),
        (lambda run: unmark(run, "end"), "drain never ended"),
        (lambda run: run.observations.append(StageMark(at_unix_s=1.0, stage="drain", edge="cut")), "drain was cut"),
        (lambda run: run.observations.append(Milestone(at_unix_s=1.0, stage="drain", name="x:sent", forced=True)), "drain: x:sent"),
        (lambda run: run.unobserve(Pace), "speed was not measured"),
        (lambda run: run.drop(lambda one: one.group == "holders" and one.stage == "drain"), "drain/holders: 0 of at least 1"),
        (lambda run: run.drop(lambda one: one.group == "bystanders"), "cancel/bystanders: 0 of at least 1"),
        (lambda run: run.spoil(lambda one: one.role is Role.CONTROL, 1, outcome=Outcome.HARNESS_STOPPED), "1 requests were stopped"),
    ],
)
def test_what_a_run_lost_makes_it_unknown(spoil: Spoiler, word: str) -> None:
    run = complete.run()
    spoil(run)
    finding = complete.judge(evidence.COMPLETE, run)
    assert finding.status is Status.UNKNOWN
    assert word in " ".join((finding.summary, *finding.evidence))


def test_a_run_of_no_requests_is_not_complete() -> None:
    run = complete.run()
    run.records.clear()
    assert complete.judge(evidence.COMPLETE, run).status is Status.UNKNOWN


def test_items_beyond_the_least_may_be_skipped() -> None:
    run = complete.run()
    items = tuple(build.item() for _ in range(9))
    stages = [
        dataclasses.replace(stage, groups=tuple(dataclasses.replace(group, items=items, min_count=1) for group in stage.groups))
        for stage in run.plan.stages
    ]
    run.plan = dataclasses.replace(run.plan, stages=tuple(stages))
    assert complete.judge(evidence.COMPLETE, run).status is Status.PASS


def test_faults_that_did_not_land_are_unknown() -> None:
    run = complete.run()
    run.spoil(lambda one: one.group == "cancelling", landed=False)
    finding = complete.judge(evidence.BITE, run)
    assert finding.status is Status.UNKNOWN and "cancel/cancelling: 0 of 3 landed" in finding.evidence


def test_one_kind_of_fault_that_never_lands_is_unknown_although_others_do() -> None:
    run = complete.run()
    run.spoil(lambda one: one.group == "cancelling" and one.item % 3 == 0, fault="leave_before", landed=False)
    finding = complete.judge(evidence.BITE, run)
    assert finding.status is Status.UNKNOWN and "leave_before: none of 4 landed" in finding.evidence


def test_a_scenario_without_needs_claims_nothing() -> None:
    assert complete.judge(evidence.BITE, build.good()).status is Status.NOT_APPLICABLE


def without_gauge(run: build.Run, moment: str) -> None:
    run.observations = [
        dataclasses.replace(one, gauges={"running": 0.0}) if isinstance(one, MetricsReading) and one.moment == moment else one
        for one in run.observations
    ]


def unlogged(run: build.Run) -> None:
    run.log, run.traces = None, []


@pytest.mark.parametrize(
    "spoil, word",
    [
        (lambda run: run.unobserve(MetricsReading), "gauges: no reading had both"),
        (lambda run: without_gauge(run, "poked"), "no reading when poked after"),
        (lambda run: run.unobserve(HealthReading), "health: no poll"),
        (lambda run: run.traces.clear(), "none of 80 lines"),
        (unlogged, "there is no server log"),
        (lambda run: setattr(run, "traces", [dataclasses.replace(one, request_id=None) for one in run.traces]), "an id of this run"),
        (lambda run: run.unobserve(ProcessReading), "process: "),
    ],
)
def test_a_promised_witness_that_is_silent_is_unknown(spoil: Spoiler, word: str) -> None:
    run = complete.run()
    spoil(run)
    finding = complete.judge(evidence.WITNESSES, run)
    assert finding.status is Status.UNKNOWN
    assert word in " ".join(finding.evidence)


def test_a_server_that_promised_nothing_owes_nothing() -> None:
    run = complete.run()
    run.retarget(trace=None, gauges="none", health_path=None, launched=False)
    run.unobserve(MetricsReading, HealthReading, ProcessReading)
    run.traces.clear()
    assert complete.judge(evidence.WITNESSES, run).status is Status.NOT_APPLICABLE


def test_optional_gauges_may_be_absent() -> None:
    run = complete.run()
    run.retarget(gauges="optional")
    run.unobserve(MetricsReading)
    assert complete.judge(evidence.WITNESSES, run).status is Status.PASS


def test_a_log_summary_can_be_made_without_a_torn_end() -> None:
    summary = LogSummary(line_count=1, size_bytes=1, trace_count=0, unreadable=(), crashes=(), error_count=0, repeated=())
    assert summary.torn == ""
