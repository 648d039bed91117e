"""state.cap and state.capacity: never more than the cap, that many indeed, and that many still."""

import dataclasses

import pytest

from analysis.checks import capacity, state
from analysis.finding import Finding
from analysis.observation import MetricsReading, Pace
from analysis.record import RequestRecord
from analysis.vocabulary import Outcome, Role, Status
from tests.analysis import build, complete


def cap(run: build.Run) -> Finding:
    return complete.judge(state.CAP, run)


def refill(run: build.Run) -> Finding:
    return complete.judge(capacity.CAPACITY, run)


def holder(one: RequestRecord) -> bool:
    return one.role is Role.HOLDER and one.stage == "drain"


def unheld(run: build.Run) -> None:
    run.drop(lambda one: one.stage != "reference")
    run.unobserve(MetricsReading)
    run.traces = [dataclasses.replace(one, active_max=1) for one in run.traces]


def test_a_cap_that_was_reached_and_kept_passes() -> None:
    assert cap(complete.run()).status is Status.PASS
    assert refill(complete.run()).status is Status.PASS


def test_more_active_by_a_trace_is_a_fault() -> None:
    run = complete.run()
    complete.retrace(run, run.records[20], active_max=3)
    assert cap(run).status is Status.FAIL


def test_more_running_by_the_gauge_is_a_fault() -> None:
    run = complete.run()
    run.observations.append(complete.reading("cancel", "sample", 1021.0, running=3))
    assert cap(run).status is Status.FAIL


def third_stream(run: build.Run, begin: float, end: float) -> None:
    times = tuple(begin + 0.05 * step for step in range(int((end - begin) / 0.05)))
    run.add(
        build.completed("drain", 0.0, first_token_s=times[0], token_times_s=times, last_token_s=times[-1], ended_s=times[-1]),
        traced=False,
    )


def test_more_streams_than_the_cap_for_long_are_a_fault_and_in_passing_are_not() -> None:
    run = complete.run()
    run.traces.clear()
    run.spoil(holder, token_times_s=(0.02, 2.9))
    third_stream(run, 2.8, 3.6)
    assert cap(run).status is Status.PASS
    third_stream(run, 0.5, 2.5)
    assert cap(run).status is Status.FAIL


def test_stamps_of_more_than_the_cap_at_once_are_a_fault() -> None:
    run = complete.run()
    record = next(one for one in run.records if one.group == "extra")
    complete.retrace(run, record, scheduled_unix_s=record.started_unix_s + 0.1)
    assert cap(run).status is Status.FAIL


def test_a_cap_that_was_never_reached_is_unknown() -> None:
    run = complete.run()
    unheld(run)
    assert cap(run).status is Status.UNKNOWN


def test_a_cap_that_nobody_stated_is_not_claimed() -> None:
    run = complete.run()
    run.retarget(active_cap=None)
    assert cap(run).status is Status.NOT_APPLICABLE


@pytest.mark.parametrize("count", [1, 2])
def test_holders_without_a_slot_name_the_lost_slots(count: int) -> None:
    run = complete.run()
    lost = run.spoil(holder, count, first_token_s=None, token_times_s=(), token_events=0, outcome=Outcome.TIMEOUT)
    finding = refill(run)
    assert finding.status is Status.FAIL and f"{count} slots are lost" in finding.evidence[0]
    assert all(any(one.request_id in line for line in finding.evidence) for one in lost)


def test_a_holder_that_got_its_slot_only_when_another_left_was_without_one() -> None:
    run = complete.run()
    run.spoil(lambda one: holder(one) and one.item == 1, 1, first_token_s=3.1, token_times_s=(3.1, 3.2), cut_s=4.0, ended_s=4.0)
    assert refill(run).status is Status.FAIL


def test_one_more_that_did_not_have_to_wait_is_a_fault() -> None:
    run = complete.run()
    run.spoil(lambda one: one.group == "extra", first_token_s=0.1, token_times_s=(0.1, 0.2))
    finding = refill(run)
    assert finding.status is Status.FAIL and "before any of 2 holders left" in finding.evidence[0]


def test_one_more_that_is_let_in_as_a_holder_leaves_is_legal() -> None:
    run = complete.run()
    run.spoil(lambda one: one.group == "extra", first_token_s=2.65, token_times_s=(2.65, 2.7))
    assert refill(run).status is Status.PASS


def test_holders_stopped_from_our_side_make_it_unknown() -> None:
    run = complete.run()
    run.spoil(holder, 1, first_token_s=None, token_times_s=(), outcome=Outcome.HARNESS_STOPPED)
    assert refill(run).status is Status.UNKNOWN


def test_fewer_holders_than_the_cap_show_nothing() -> None:
    run = complete.run()
    run.drop(lambda one: holder(one) and one.item == 1)
    assert refill(run).status is Status.UNKNOWN
    run.drop(lambda one: one.role is Role.HOLDER)
    assert refill(run).status is Status.UNKNOWN


def test_a_scenario_without_holders_claims_nothing() -> None:
    run = complete.run()
    calm = [
        dataclasses.replace(stage, groups=tuple(group for group in stage.groups if group.name != "holders")) for stage in run.plan.stages
    ]
    run.plan = dataclasses.replace(run.plan, stages=tuple(calm))
    assert refill(run).status is Status.NOT_APPLICABLE


def test_without_a_stated_cap_as_many_as_before_any_fault_have_to_fit() -> None:
    run = complete.run()
    run.retarget(active_cap=None)
    assert refill(run).status is Status.PASS
    run.spoil(lambda one: one.role is Role.CONTROL and one.stream, 2, started_unix_s=1010.0, token_times_s=(0.1, 0.5, 0.9))
    run.spoil(holder, 1, first_token_s=None, token_times_s=(), token_events=0)
    assert refill(run).status is Status.FAIL


def test_without_a_measured_pace_nothing_is_said() -> None:
    run = complete.run()
    run.unobserve(Pace)
    assert cap(run).status is refill(run).status is Status.UNKNOWN


def test_a_server_that_may_refuse_may_refuse_a_holder() -> None:
    run = complete.run()
    run.spoil(holder, 1, first_token_s=None, token_times_s=(), outcome=Outcome.REJECTED, status=429)
    assert refill(run).status is Status.FAIL
    run.retarget(queue="queued_or_refused")
    assert refill(run).status is Status.UNKNOWN


def test_a_holder_that_ended_by_itself_does_not_hide_a_lost_slot() -> None:
    run = complete.run()
    run.spoil(lambda one: holder(one) and one.item == 0, token_times_s=(0.02, 1.0, 2.0), outcome=Outcome.COMPLETED, cut_s=None, ended_s=2.0)
    run.spoil(lambda one: holder(one) and one.item == 1, first_token_s=1.98, token_times_s=(1.98, 2.1, 2.9))
    finding = refill(run)
    assert finding.status is Status.FAIL and "1 slots are lost" in finding.evidence[0]


def test_a_server_so_fast_that_its_holders_end_while_they_are_read_frees_their_slots_rightly() -> None:
    run = complete.run()
    run.spoil(lambda one: one.group == "extra", first_token_s=0.5, token_times_s=(0.5, 0.6))
    assert refill(run).status is Status.FAIL
    pace = next(one for one in run.observations if isinstance(one, Pace))
    run.observations[run.observations.index(pace)] = dataclasses.replace(pace, token_gap_s=0.0002)
    assert refill(run).status is not Status.FAIL
