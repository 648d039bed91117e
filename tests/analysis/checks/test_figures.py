"""trace.figures: numbers that cannot be are faults, relations that servers differ in are learnt first."""

import dataclasses
from typing import Any

import pytest

from analysis.checks import figures
from analysis.finding import Finding
from analysis.observation import Pace
from analysis.vocabulary import Role, Status, TerminalReason
from tests.analysis import build, complete


def judge(run: build.Run) -> Finding:
    return complete.judge(figures.FIGURES, run)


def spoilt(stage: str = "control", role: Role = Role.CONTROL, **changes: Any) -> Finding:
    run = complete.run()
    complete.retrace(run, complete.find(run, stage, role), **changes)
    return judge(run)


def shifted(name: str, by_s: float) -> Finding:
    run = complete.run()
    record = complete.find(run, "control", Role.CONTROL)
    now = getattr(next(one for one in run.traces if one.request_id == record.request_id), name)
    complete.retrace(run, record, **{name: now + by_s})
    return judge(run)


def test_possible_figures_pass_and_say_which_relations_hold() -> None:
    finding = judge(complete.run())
    assert finding.status is Status.PASS and "add up" in finding.summary


@pytest.mark.parametrize(
    "changes",
    [
        {"completion_tokens": 7},
        {"completion_tokens": 5},
        {"completion_tokens": -1},
        {"prompt_tokens": 99},
        {"queue_wait_ms": -5.0},
        {"queue_wait_ms": 9_000.0},
        {"scheduled_to_terminal_ms": 1.0},
        {"scheduled_to_first_token_ms": 5_000.0},
        {"decode_total_ms": 60_000.0},
        {"prefill_ms": 5_000.0},
        {"active_at_terminal": 2},
        {"pending_at_terminal": 1},
        {"decode_batch_size_max": 2},
        {"healthy_baseline": False},
        {"finish_reason": "stop"},
        {"decode_step_count": 9},
        {"batch_decode_steps": 3},
        {"scheduled_unix_s": None},
    ],
)
def test_an_impossible_figure_in_one_trace_is_a_fault(changes: dict[str, Any]) -> None:
    finding = spoilt(**changes)
    assert finding.status is Status.FAIL, finding.summary


@pytest.mark.parametrize(
    "name, by_s",
    [
        ("queued_unix_s", 5.0),
        ("queued_unix_s", -5.0),
        ("scheduled_unix_s", 5.0),
        ("prefill_done_unix_s", 5.0),
        ("first_token_unix_s", 5.0),
        ("first_token_unix_s", -5.0),
        ("terminal_unix_s", -5.0),
        ("terminal_unix_s", 20.0),
        ("prefill_done_unix_s", -0.1),
    ],
)
def test_a_stamp_out_of_order_or_out_of_the_requests_time_is_a_fault(name: str, by_s: float) -> None:
    assert shifted(name, by_s).status is Status.FAIL


@pytest.mark.parametrize("name", ["queued_unix_s", "scheduled_unix_s", "prefill_done_unix_s", "first_token_unix_s", "terminal_unix_s"])
@pytest.mark.parametrize("by_s", [0.005, -0.005])
def test_stamps_of_one_moment_may_be_milliseconds_apart(name: str, by_s: float) -> None:
    assert shifted(name, by_s).status is Status.PASS


@pytest.mark.parametrize("offset_s", [-7200.0, 3.0, 86_400.0])
def test_a_server_whose_clock_is_off_is_none_the_worse(offset_s: float) -> None:
    run = complete.run()
    names = ("queued_unix_s", "scheduled_unix_s", "prefill_done_unix_s", "first_token_unix_s", "terminal_unix_s")
    for index, one in enumerate(run.traces):
        run.traces[index] = dataclasses.replace(
            one, **{name: value + offset_s for name in names if (value := getattr(one, name)) is not None}
        )
    assert judge(run).status is Status.PASS


def test_a_rejected_trace_with_tokens_is_a_fault() -> None:
    run = complete.run()
    bad = complete.find(run, "bad_requests", Role.BAD)
    run.traces.append(build.trace(bad, reason=TerminalReason.REJECTED, completion_tokens=0, first_token_unix_s=None))
    assert judge(run).status is Status.PASS
    complete.retrace(run, bad, completion_tokens=3)
    assert judge(run).status is Status.FAIL


def test_cancelled_with_no_token_is_a_fault() -> None:
    changes = dict(
        reason=TerminalReason.CANCELLED, completion_tokens=0, first_token_unix_s=None, decode_step_count=0, singleton_decode_steps=0
    )
    assert spoilt("cancel", Role.FAULTY, **changes).status is Status.FAIL


def test_a_client_with_more_pieces_than_tokens_is_a_fault() -> None:
    assert spoilt("overload", Role.HOLDER, completion_tokens=2).status is Status.FAIL


@pytest.mark.parametrize("changes", [{"active_at_terminal": 0}, {"pending_at_terminal": 0, "pending_max": 0}])
def test_fewer_at_its_end_than_certainly_were_is_a_fault(changes: dict[str, Any]) -> None:
    finding = spoilt("overload", Role.FAULTY, healthy_baseline=False, **changes)
    assert finding.status is Status.FAIL and "certainly were" in finding.evidence[0]


@pytest.mark.parametrize(
    "name", ["decode_step_count", "batch_decode_steps", "completion_tokens", "active_max", "prefill_ms", "healthy_baseline"]
)
def test_what_a_server_never_says_is_not_held_against_it(name: str) -> None:
    run = complete.run()
    run.traces = [dataclasses.replace(one, **{name: None}) for one in run.traces]
    assert judge(run).status is Status.PASS


def test_a_relation_that_no_fault_free_trace_keeps_is_not_enforced() -> None:
    run = complete.run()
    run.traces = [
        dataclasses.replace(one, decode_step_count=(one.completion_tokens or 0) + 7, singleton_decode_steps=3) for one in run.traces
    ]
    assert judge(run).status is Status.PASS


def test_prefill_stamped_after_the_first_token_by_all_is_legal() -> None:
    run = complete.run()
    run.traces = [
        dataclasses.replace(one, prefill_done_unix_s=None if one.first_token_unix_s is None else one.first_token_unix_s + 0.004)
        for one in run.traces
    ]
    assert judge(run).status is Status.PASS


def test_a_stop_may_or_may_not_count_the_end_of_sequence() -> None:
    run = complete.run()
    [record] = run.spoil(lambda one: one.role is Role.CONTROL and one.stream, 1, finish_reason="stop", completion_tokens=5, max_tokens=9)
    complete.retrace(run, record, reason=TerminalReason.COMPLETED_STOP, finish_reason="stop", completion_tokens=6)
    assert judge(run).status is Status.PASS


def test_without_traces_or_pace_it_is_unknown_and_without_a_promise_not_applicable() -> None:
    run = complete.run()
    run.unobserve(Pace)
    assert judge(run).status is Status.UNKNOWN
    run.traces.clear()
    assert judge(run).status is Status.UNKNOWN
    run.retarget(trace=None)
    assert judge(run).status is Status.NOT_APPLICABLE


def test_a_refused_request_need_not_have_counted_its_company() -> None:
    run = complete.run()
    record = run.add(build.refused("bad_requests", 3.0, item=50))
    never = dict(decode_batch_size_max=0, scheduled_unix_s=None, prefill_done_unix_s=None, first_token_unix_s=None, active_max=0)
    complete.retrace(run, record, reason=TerminalReason.REJECTED, active_at_terminal=1, healthy_baseline=False, **never)
    assert judge(run).status is Status.PASS
    neighbour = next(one for one in run.records if one.role is Role.BYSTANDER)
    complete.retrace(run, neighbour, decode_batch_size_max=0, active_max=0, active_at_terminal=1, healthy_baseline=False)
    assert judge(run).status is Status.FAIL


@pytest.mark.parametrize("role, status", [(Role.BAD, Status.PASS), (Role.NORMAL, Status.FAIL)])
def test_steps_of_a_row_with_a_stop_string_need_not_fit_its_tokens(role: Role, status: Status) -> None:
    run = complete.run()
    record = run.add(build.completed("bad_requests", 3.0, role=role, row="stop" if role is Role.BAD else None))
    trace = complete.retrace(run, record)
    steps = (trace.decode_step_count or 0) + 1
    complete.retrace(run, record, decode_step_count=steps, singleton_decode_steps=steps)
    assert judge(run).status is status
