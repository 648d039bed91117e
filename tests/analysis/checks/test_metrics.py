"""metrics.honest: gauges and counters that lie, and those that are only late, coarse or absent."""

import dataclasses
from collections.abc import Callable

import pytest

from analysis.checks import metrics
from analysis.finding import Finding
from analysis.observation import MetricsReading, Pace, WorkerMark
from analysis.vocabulary import Role, Status
from tests.analysis import build, complete


def judge(run: build.Run) -> Finding:
    return complete.judge(metrics.HONEST, run)


def change(run: build.Run, new: Callable[[MetricsReading], MetricsReading]) -> build.Run:
    run.observations = [new(one) if isinstance(one, MetricsReading) else one for one in run.observations]
    return run


def gauges(one: MetricsReading, **values: float) -> MetricsReading:
    return dataclasses.replace(one, gauges={**one.gauges, **values})


def silenced(one: MetricsReading, error: str) -> MetricsReading:
    return dataclasses.replace(one, gauges={}, counters={}, error=error)


def counting(run: build.Run, name: str, to: float) -> build.Run:
    """A counter that rises evenly over the run, from 0."""
    readings = sorted((one for one in run.observations if isinstance(one, MetricsReading)), key=lambda one: one.at_unix_s)
    first, last = readings[0].at_unix_s, readings[-1].at_unix_s
    return change(run, lambda one: dataclasses.replace(one, counters={**one.counters, name: to * (one.at_unix_s - first) / (last - first)}))


def test_honest_gauges_pass() -> None:
    finding = judge(complete.run())
    assert finding.status is Status.PASS and "20 of them with all slots taken" in finding.summary


@pytest.mark.parametrize("running", [0.0, 1.0, 3.0])
def test_a_gauge_of_running_that_is_wrong_while_holders_hold_is_a_fault(running: float) -> None:
    run = change(complete.run(), lambda one: gauges(one, running=running) if one.gauges["running"] == 2 else one)
    assert judge(run).status is Status.FAIL


@pytest.mark.parametrize("waiting", [0.0, 40.0])
def test_a_gauge_of_waiting_that_is_wrong_while_holders_hold_is_a_fault(waiting: float) -> None:
    run = change(complete.run(), lambda one: gauges(one, waiting=waiting) if one.gauges["running"] == 2 else one)
    assert judge(run).status is Status.FAIL


def test_gauges_that_are_refreshed_now_and_then_only_are_honest() -> None:
    run = change(complete.run(), lambda one: gauges(one, running=1.0) if one.gauges["running"] == 2 and one.at_unix_s % 10 < 2.0 else one)
    assert judge(run).status is Status.PASS


@pytest.mark.parametrize(("error", "status"), [("status 500", Status.FAIL), ("ValueError", Status.FAIL), ("ConnectionError", Status.PASS)])
def test_metrics_that_answer_and_cannot_be_read_any_more_are_a_fault(error: str, status: Status) -> None:
    last = build.BEGIN_UNIX_S + build.STAGES.index("drain") * build.STAGE_S + 4
    run = change(complete.run(), lambda one: silenced(one, error) if one.at_unix_s > last else one)
    assert judge(run).status is status


def test_a_few_readings_that_failed_in_between_are_no_fault() -> None:
    run = change(complete.run(), lambda one: silenced(one, "status 503") if 1020 < one.at_unix_s < 1021 else one)
    assert judge(run).status is Status.PASS


def test_a_gauge_that_is_stuck_at_rest_is_a_fault() -> None:
    run = change(complete.run(), lambda one: gauges(one, running=7.0) if one.moment == "settled" and one.stage == "cancel" else one)
    finding = judge(run)
    assert finding.status is Status.FAIL and "not 0 at rest" in finding.evidence[0]


def test_a_gauge_that_is_always_0_is_a_fault_even_without_holders() -> None:
    run = change(complete.run(), lambda one: gauges(one, running=0.0, waiting=0.0))
    run.retarget(active_cap=None)
    for index in range(4):
        times = tuple(0.1 * step for step in range(1, 40))
        run.add(build.completed("cancel", index, first_token_s=0.1, token_times_s=times, last_token_s=3.9, ended_s=4.0))
    finding = judge(run)
    assert finding.status is Status.FAIL and "was 0 in all" in finding.evidence[0]


def test_a_counter_that_falls_is_a_fault_and_a_gauge_may() -> None:
    def falling(name: str) -> build.Run:
        return change(complete.run(), lambda one: dataclasses.replace(one, counters={name: 3.0 if one.stage == "drain" else 5.0}))

    assert judge(falling("http_requests_total")).status is Status.FAIL
    assert judge(falling("request_success_total{stop}")).status is Status.FAIL
    assert judge(falling("cache_usage")).status is Status.PASS


def tokens(run: build.Run) -> int:
    return sum(one.completion_tokens or 0 for one in run.traces)


@pytest.mark.parametrize(
    "share, status", [(1.0, Status.PASS), (0.97, Status.PASS), (0.5, Status.FAIL), (6.0, Status.FAIL), (0.0, Status.FAIL)]
)
def test_generated_tokens_agree_with_what_was_served(share: float, status: Status) -> None:
    run = complete.run()
    assert judge(counting(run, "vllm:generation_tokens_total", share * tokens(run))).status is status


def test_generated_tokens_beyond_the_traces_cannot_be_judged_without_them() -> None:
    run = complete.run()
    many = 6.0 * tokens(run)
    run.retarget(trace=None)
    run.traces.clear()
    assert judge(counting(run, "vllm:generation_tokens_total", many)).status is Status.PASS


@pytest.mark.parametrize("rise, status", [(88, Status.PASS), (0, Status.FAIL), (400, Status.FAIL)])
def test_finished_requests_agree_with_whole_answers(rise: float, status: Status) -> None:
    assert judge(counting(complete.run(), "vllm:request_success_total{length}", rise)).status is status


@pytest.mark.parametrize("rise, status", [(0, Status.PASS), (20, Status.PASS), (400, Status.FAIL)])
def test_aborts_may_not_be_counted_but_not_be_invented(rise: float, status: Status) -> None:
    assert judge(counting(complete.run(), "vllm:request_success_total{abort}", rise)).status is status


def test_aborts_that_are_counted_have_to_move_with_those_who_leave() -> None:
    run = complete.run()
    for index in range(80):
        run.add(build.left("cancel", 1.0 + 0.05 * index, tokens=2, item=100 + index))
    assert judge(counting(run, "vllm:request_success_total{abort}", 80)).status is Status.PASS
    assert judge(counting(run, "vllm:request_success_total{abort}", 3)).status is Status.FAIL


def test_gauges_that_are_missing_are_unknown_where_promised_and_nothing_elsewhere() -> None:
    run = complete.run()
    run.unobserve(MetricsReading)
    assert judge(run).status is Status.UNKNOWN
    for word in ("optional", "none"):
        run.retarget(gauges=word)
        assert judge(run).status is Status.NOT_APPLICABLE
    run = complete.run()
    run.unobserve(Pace)
    assert judge(run).status is Status.UNKNOWN


def test_gauges_that_were_not_read_while_slots_were_taken_show_nothing() -> None:
    run = complete.run()
    run.observations = [
        one
        for one in run.observations
        if not (isinstance(one, MetricsReading) and one.moment == "sample" and one.stage in ("overload", "drain"))
    ]
    assert judge(run).status is Status.UNKNOWN


def test_a_queue_that_still_counts_who_left_is_legal_where_they_are_retired_at_their_turn() -> None:
    run = change(complete.run(), lambda one: gauges(one, waiting=7.0) if one.stage == "overload" and one.gauges["running"] == 2 else one)
    assert judge(run).status is Status.FAIL
    run.retarget(queued_leaver="at_turn")
    assert judge(run).status is Status.PASS


def test_with_a_worker_lost_nobody_knows_how_many_there_were() -> None:
    run = change(complete.run(), lambda one: gauges(one, waiting=40.0) if one.gauges["running"] == 2 else one)
    run.observations.append(WorkerMark(at_unix_s=1.0, worker=1, event="missing"))
    assert judge(run).status is Status.UNKNOWN


def test_a_promised_counter_of_aborts_has_to_be_there_and_to_move() -> None:
    run = complete.run()
    for index in range(80):
        run.add(build.left("cancel", 1.0 + 0.05 * index, tokens=2, item=100 + index))
    run.retarget(counts_aborts=True)
    assert "is not there" in judge(run).evidence[0]
    assert "aborted requests rose by 0" in judge(counting(run, "vllm:request_success_total{abort}", 0)).evidence[0]
    assert judge(counting(run, "vllm:request_success_total{abort}", 80)).status is Status.PASS


def test_tokens_made_for_those_who_left_are_not_hidden_behind_bad_requests() -> None:
    run = complete.run()
    for index in range(60):
        run.add(build.refused("bad_requests", 0.05 * index, item=100 + index))
    assert judge(counting(run, "vllm:generation_tokens_total", tokens(run))).status is Status.PASS
    leavers = sum(one.cut_s is not None for one in run.records)
    wasted = tokens(run) * 1.05 + 40 * leavers + 100
    assert judge(counting(run, "vllm:generation_tokens_total", wasted)).status is Status.FAIL


def test_a_time_too_short_to_be_sampled_need_not_show_in_the_gauges() -> None:
    run = complete.run()
    run.spoil(lambda one: one.role is Role.HOLDER, cut_s=0.5, ended_s=0.5)
    run.observations = [one for one in run.observations if not (isinstance(one, MetricsReading) and one.gauges["running"] == 2)]
    finding = judge(run)
    assert finding.status is Status.PASS and "0 of them with all slots taken" in finding.summary
