"""recovery.follow_up: a clean request after each stage."""

import dataclasses

from analysis.checks import recovery
from analysis.finding import Finding
from analysis.observation import Pace
from analysis.record import RequestRecord
from analysis.vocabulary import ErrorKind, Outcome, Role, Status
from tests.analysis import build


def follow_up(record: RequestRecord) -> bool:
    return record.role is Role.FOLLOW_UP


def recovered(run: build.Run) -> Finding:
    return recovery.FOLLOW_UP.judge(run.evidence())


def delay(run: build.Run, wait_s: float, count: int) -> None:
    for record in [one for one in run.records if follow_up(one)][:count]:
        times = tuple(each + wait_s for each in record.token_times_s)
        changes = dict(token_times_s=times, first_token_s=times[0], last_token_s=times[-1], ended_s=record.ended_s + wait_s)
        run.records[run.records.index(record)] = dataclasses.replace(record, **changes)  # type: ignore[arg-type]


def test_a_good_run_passes() -> None:
    assert recovered(build.good()).status is Status.PASS


def test_a_follow_up_that_failed_is_a_fault() -> None:
    run = build.good()
    run.spoil(follow_up, 1, outcome=Outcome.FAILED, error=ErrorKind.SERVER_ERROR, status=500)
    assert recovered(run).status is Status.FAIL


def test_a_follow_up_with_another_text_is_a_fault() -> None:
    run = build.good()
    run.spoil(follow_up, 1, text=" cherry")
    assert recovered(run).status is Status.FAIL


def test_a_follow_up_with_status_200_and_no_text_is_a_fault_on_any_server() -> None:
    run = build.good()
    run.retarget(batch_invariant=False)
    run.drop(lambda record: record.role is Role.CONTROL)
    run.spoil(follow_up, 1, text="", token_events=0)
    finding = recovered(run)
    assert finding.status is Status.FAIL and "no text at all" in finding.evidence[0]


def test_one_follow_up_that_waited_long_is_a_fault() -> None:
    run = build.good()
    delay(run, 4.0, count=1)
    assert recovered(run).status is Status.FAIL


def test_one_follow_up_that_waited_a_second_is_this_machine() -> None:
    run = build.good()
    delay(run, 1.0, count=1)
    assert recovered(run).status is Status.PASS


def test_all_follow_ups_that_waited_half_a_second_are_a_fault() -> None:
    run = build.good()
    delay(run, 0.5, count=5)
    finding = recovered(run)
    assert finding.status is Status.FAIL and "in the median" in finding.evidence[0]


def test_tokens_that_come_slowly_after_one_stage_are_a_fault() -> None:
    run = build.good()
    for index in range(2):
        run.add(build.completed("overload", 9.2 + index * 0.1, role=Role.FOLLOW_UP, group="follow_up"))
    slow = tuple(0.02 + 0.1 * step for step in range(6))
    run.spoil(lambda record: follow_up(record) and record.stage == "overload", token_times_s=slow, last_token_s=slow[-1], ended_s=0.6)
    finding = recovered(run)
    assert finding.status is Status.FAIL and finding.evidence == ("after overload a token came every 0.100 s, and every 0.010 s before",)


def test_a_missing_follow_up_is_unknown() -> None:
    run = build.good()
    run.drop(lambda record: follow_up(record) and record.stage == "overload")
    finding = recovered(run)
    assert finding.status is Status.UNKNOWN and "overload" in finding.summary


def test_without_the_servers_own_speed_it_is_unknown() -> None:
    run = build.good()
    run.unobserve(Pace)
    assert recovered(run).status is Status.UNKNOWN


def test_a_scenario_without_follow_ups_claims_nothing() -> None:
    run = build.good()
    run.plan = dataclasses.replace(run.plan, stages=tuple(dataclasses.replace(stage, follow_ups=0) for stage in run.plan.stages))
    assert recovered(run).status is Status.NOT_APPLICABLE
