"""queue.*: who is served first, and what happens beyond the cap."""

import dataclasses

from analysis.checks import queue
from analysis.finding import Finding
from analysis.observation import Pace
from analysis.record import RequestRecord
from analysis.vocabulary import ErrorKind, Outcome, Role, Status
from tests.analysis import build


def waiter(record: RequestRecord) -> bool:
    return record.group == "waiters"


def fair(run: build.Run) -> Finding:
    return queue.FAIR.judge(run.evidence())


def overload(run: build.Run) -> Finding:
    return queue.OVERLOAD.judge(run.evidence())


def serve(run: build.Run, first_tokens_s: list[float]) -> None:
    """Serve the waiters, in order of arrival, at these seconds of the stage, on both sides."""
    begin = build.BEGIN_UNIX_S + build.STAGES.index("overload") * build.STAGE_S
    for index, at in enumerate(first_tokens_s):
        [record] = run.spoil(lambda one, index=index: waiter(one) and one.item == index)  # type: ignore[misc]
        first = begin + at - record.started_unix_s
        times = tuple(first + build.GAP_S * step for step in range(build.TOKENS))
        run.spoil(
            lambda one, record=record: one is record,  # type: ignore[misc]
            token_times_s=times,
            first_token_s=times[0],
            last_token_s=times[-1],
            ended_s=times[-1] + 0.001,
        )
        run.traces = [
            dataclasses.replace(one, scheduled_unix_s=begin + at - 0.01) if one.request_id == record.request_id else one
            for one in run.traces
        ]


def untraced(run: build.Run) -> build.Run:
    run.traces = []
    return run


def test_a_good_run_passes_with_and_without_traces() -> None:
    assert fair(build.good()).status is Status.PASS
    assert "first tokens" in fair(untraced(build.good())).summary
    assert fair(untraced(build.good())).status is Status.PASS
    assert overload(build.good()).status is Status.PASS


def test_last_come_first_served_is_a_fault_by_traces() -> None:
    run = build.good()
    serve(run, [3.3, 3.2, 3.1, 3.05])
    finding = fair(run)
    assert finding.status is Status.FAIL and "by the server's traces" in finding.summary


def test_one_that_is_passed_over_is_a_fault_by_traces() -> None:
    run = build.good()
    serve(run, [3.4, 3.05, 3.1, 3.2])
    assert fair(run).status is Status.FAIL


def test_last_come_first_served_is_a_fault_by_first_tokens() -> None:
    run = build.good()
    serve(run, [4.9, 4.3, 3.7, 3.1])
    finding = fair(untraced(run))
    assert finding.status is Status.FAIL and "by first tokens" in finding.summary


def test_first_tokens_of_one_round_may_come_in_any_order() -> None:
    run = build.good()
    serve(run, [3.10, 3.05, 3.25, 3.20])
    assert fair(untraced(run)).status is Status.PASS


def test_many_waiters_whose_first_tokens_run_backwards_are_a_fault_even_when_close() -> None:
    run = build.good()
    for index in range(4, 8):
        begin = 0.3 + 0.3 * index
        run.add(build.completed("overload", begin, group="waiters", item=index))
    serve(run, [3.7 - 0.05 * index for index in range(8)])
    run.plan = build.plan(stages=run.plan.stages)
    finding = fair(untraced(run))
    assert finding.status is Status.FAIL and "rank correlation -1.00" in finding.evidence[0]


def test_close_arrivals_may_be_served_in_any_order() -> None:
    run = build.good()
    records = [one for one in run.records if waiter(one)]
    for record in records:
        run.spoil(lambda one, record=record: one is record, started_unix_s=build.BEGIN_UNIX_S + 40.3 + 0.01 * record.item)  # type: ignore[misc]
    serve(run, [3.3, 3.2, 3.1, 3.05])
    assert fair(run).status is Status.UNKNOWN


def test_one_that_left_the_queue_overtakes_nobody() -> None:
    run = build.good()
    serve(run, [3.4, 3.05, 3.1, 3.2])
    run.spoil(lambda record: waiter(record) and record.item == 0, outcome=Outcome.DISCONNECTED, first_token_s=None, token_times_s=())
    assert fair(run).status is Status.PASS


def test_a_scenario_without_a_queue_claims_nothing() -> None:
    run = build.good()
    run.plan = dataclasses.replace(run.plan, stages=run.plan.stages[:3])
    assert fair(run).status is Status.NOT_APPLICABLE
    assert overload(run).status is Status.NOT_APPLICABLE


def test_nobody_who_waited_is_unknown() -> None:
    run = build.good()
    run.drop(waiter)
    assert fair(run).status is Status.UNKNOWN
    assert overload(run).status is Status.UNKNOWN


def test_without_the_servers_own_speed_it_is_unknown() -> None:
    run = build.good()
    run.unobserve(Pace)
    assert fair(run).status is Status.UNKNOWN


def test_a_dropped_connection_under_pressure_is_a_fault() -> None:
    run = build.good()
    run.spoil(waiter, 1, outcome=Outcome.FAILED, error=ErrorKind.RESET)
    assert overload(run).status is Status.FAIL


def test_a_holder_that_the_server_drops_is_a_fault() -> None:
    run = build.good()
    run.spoil(lambda record: record.role is Role.HOLDER, 1, outcome=Outcome.FAILED, error=ErrorKind.CUT)
    assert overload(run).status is Status.FAIL


def test_429_is_a_fault_only_where_it_was_not_declared() -> None:
    run = build.good()
    run.spoil(waiter, 1, outcome=Outcome.REJECTED, status=429)
    assert overload(run).status is Status.FAIL
    run.retarget(queue="queued_or_refused")
    assert overload(run).status is Status.PASS


def test_pressure_that_never_came_is_unknown() -> None:
    run = build.good()
    run.retarget(active_cap=100)
    assert overload(run).status is Status.UNKNOWN


def test_a_waiter_that_we_stopped_is_unknown() -> None:
    run = build.good()
    run.spoil(waiter, 1, outcome=Outcome.HARNESS_STOPPED)
    assert overload(run).status is Status.UNKNOWN
