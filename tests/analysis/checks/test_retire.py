"""retire.lag and retire.waste: how soon a server lets go of clients that left."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from analysis.checks import retire
from analysis.finding import Finding
from analysis.observation import LoopLag, Pace
from analysis.record import RequestRecord
from analysis.vocabulary import Ending, Outcome, Role, Status, TerminalReason
from tests.analysis import build, complete


def lag(run: build.Run) -> Finding:
    return complete.judge(retire.LAG, run)


def waste(run: build.Run) -> Finding:
    return complete.judge(retire.WASTE, run)


def linger(run: build.Run, match: Callable[[RequestRecord], bool], by_s: float, count: int = 1_000, tokens: int = 0) -> None:
    """The server ends requests later than their clients left, and makes more tokens meanwhile."""
    for record in [one for one in run.records if one.outcome in (Outcome.CANCELLED, Outcome.DISCONNECTED) and match(one)][:count]:
        trace = next(one for one in run.traces if one.request_id == record.request_id)
        assert trace.terminal_unix_s is not None
        made = (trace.completion_tokens or 0) + tokens
        complete.retrace(run, record, terminal_unix_s=trace.terminal_unix_s + by_s, completion_tokens=made)


def streamed(one: RequestRecord) -> bool:
    return one.stage == "cancel" and one.token_events > 0


def test_a_server_that_lets_go_at_once_passes_with_its_distribution() -> None:
    finding = lag(complete.run())
    assert finding.status is Status.PASS and any(line.startswith("streaming: median") for line in finding.evidence)
    assert waste(complete.run()).status is Status.PASS


def test_one_request_kept_for_long_is_a_fault() -> None:
    run = complete.run()
    linger(run, streamed, 8.0, count=1)
    finding = lag(run)
    assert finding.status is Status.FAIL and "retired 8.00 s after" in finding.evidence[0]


def test_one_request_kept_for_a_second_is_none() -> None:
    run = complete.run()
    linger(run, streamed, 1.0, count=1)
    assert lag(run).status is Status.PASS


def test_all_kept_for_half_a_second_is_a_fault_of_their_median() -> None:
    run = complete.run()
    linger(run, streamed, 0.5)
    finding = lag(run)
    assert finding.status is Status.FAIL and "limit of the median" in finding.evidence[0]


def test_whole_answers_may_be_polled_for_a_second() -> None:
    run = complete.run()
    run.spoil(streamed, stream=False, first_token_s=None, token_times_s=())
    linger(run, lambda one: one.stage == "cancel" and not one.stream, 1.0)
    assert lag(run).status is Status.PASS


def test_our_own_stall_is_not_the_servers_lag() -> None:
    run = complete.run()
    linger(run, streamed, 8.0, count=1)
    record = next(one for one in run.records if streamed(one))
    run.observations.append(LoopLag(at_unix_s=record.started_unix_s + 8.5, worker=0, lag_s=8.3))
    assert lag(run).status is Status.PASS


def test_a_slow_server_has_as_many_steps_as_a_fast_one() -> None:
    run = complete.run()
    linger(run, streamed, 8.0)
    run.observations = [dataclasses.replace(one, token_gap_s=3.0) if isinstance(one, Pace) else one for one in run.observations]
    assert lag(run).status is Status.PASS


@pytest.mark.parametrize("offset_s", [-5.0, 3600.0])
def test_another_clock_changes_nothing(offset_s: float) -> None:
    names = ("queued_unix_s", "scheduled_unix_s", "prefill_done_unix_s", "first_token_unix_s", "terminal_unix_s")
    for by_s, status in ((0.0, Status.PASS), (8.0, Status.FAIL)):
        run = complete.run()
        linger(run, streamed, by_s)
        for index, one in enumerate(run.traces):
            moved: dict[str, Any] = {name: value + offset_s for name in names if (value := getattr(one, name)) is not None}
            run.traces[index] = dataclasses.replace(one, **moved)
        assert lag(run).status is status


def test_half_closed_clients_are_not_judged() -> None:
    run = complete.run()
    run.spoil(streamed, ending=Ending.HALF_CLOSE)
    linger(run, streamed, 30.0)
    assert lag(run).status is Status.PASS


def queue_leaver(run: build.Run, item: int = 0) -> RequestRecord:
    return next(one for one in run.records if one.group == "leavers" and one.item == item)


def serve_later(run: build.Run, record: RequestRecord, after_s: float, reason: TerminalReason = TerminalReason.DISCONNECTED) -> None:
    """The queue comes to a client that had left, and it is prefilled."""
    turn = record.started_unix_s + (record.cut_s or 0.0) + after_s
    stamps = dict(scheduled_unix_s=turn, prefill_done_unix_s=turn + 0.02, first_token_unix_s=turn + 0.02, terminal_unix_s=turn + 0.03)
    complete.retrace(run, record, **stamps, completion_tokens=1, reason=reason)


def test_prefill_for_a_client_that_had_left_the_queue_is_a_fault_whenever_it_may_be_retired() -> None:
    for when in ("at_once", "at_turn"):
        run = complete.run()
        run.retarget(queued_leaver=when)
        serve_later(run, queue_leaver(run), after_s=2.0)
        finding = waste(run)
        assert finding.status is Status.FAIL and "after its client had left the queue" in finding.evidence[0]


def test_who_left_just_before_its_turn_may_be_prefilled() -> None:
    run = complete.run()
    serve_later(run, queue_leaver(run), after_s=0.2)
    assert waste(run).status is Status.PASS


def test_a_queued_client_may_be_retired_at_its_turn_only_where_the_server_says_so() -> None:
    run = complete.run()
    for item in range(3):
        record = queue_leaver(run, item)
        complete.retrace(run, record, terminal_unix_s=record.started_unix_s + 9.0)
    assert lag(run).status is Status.FAIL
    run.retarget(queued_leaver="at_turn")
    assert lag(run).status is Status.PASS


def test_many_tokens_for_clients_that_had_left_are_waste() -> None:
    run = complete.run()
    linger(run, streamed, 0.0, tokens=60)
    finding = waste(run)
    assert finding.status is Status.FAIL and "in the median" in finding.evidence[-1]
    run = complete.run()
    linger(run, streamed, 0.0, tokens=3000, count=1)
    assert waste(run).status is Status.FAIL


def test_a_few_tokens_on_the_way_are_no_waste() -> None:
    run = complete.run()
    linger(run, streamed, 0.03, tokens=3)
    assert waste(run).status is Status.PASS


def test_tokens_that_ride_together_are_counted_together() -> None:
    run = complete.run()
    run.spoil(lambda one: one.stream and one.completion_tokens is not None, token_events=1)
    linger(run, streamed, 0.0, tokens=4)
    assert waste(run).status is Status.PASS


def test_without_traces_or_leavers_it_cannot_be_said() -> None:
    run = complete.run()
    run.drop(lambda one: one.outcome in (Outcome.CANCELLED, Outcome.DISCONNECTED))
    assert lag(run).status is waste(run).status is Status.UNKNOWN
    run = complete.run()
    run.unobserve(Pace)
    assert lag(run).status is waste(run).status is Status.UNKNOWN
    run = complete.run()
    run.traces.clear()
    assert lag(run).status is waste(run).status is Status.UNKNOWN
    run.retarget(trace=None)
    assert lag(run).status is waste(run).status is Status.NOT_APPLICABLE


def test_a_scenario_without_leavers_claims_nothing() -> None:
    run = complete.run()
    calm = [
        dataclasses.replace(stage, groups=tuple(group for group in stage.groups if group.name in ("control", "reference", "waiters")))
        for stage in run.plan.stages
    ]
    run.plan = dataclasses.replace(run.plan, stages=tuple(calm))
    assert lag(run).status is Status.NOT_APPLICABLE


def test_the_limit_is_for_leavers_of_every_role() -> None:
    run = complete.run()
    linger(run, lambda one: one.role is Role.HOLDER, 30.0, count=1)
    assert lag(run).status is Status.FAIL
