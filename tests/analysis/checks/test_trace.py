"""trace.coverage and trace.agreement: the server's account of requests against the clients'."""

import dataclasses

import pytest

from analysis import ids
from analysis.checks import trace
from analysis.finding import Finding
from analysis.observation import LoopLag, Pace
from analysis.trace import TraceEvent
from analysis.vocabulary import Ending, ErrorKind, Outcome, Role, Status, TerminalReason
from tests.analysis import build, complete


def coverage(run: build.Run) -> Finding:
    return complete.judge(trace.COVERAGE, run)


def agreement(run: build.Run) -> Finding:
    return complete.judge(trace.AGREEMENT, run)


def untrace(run: build.Run, request_id: str) -> None:
    run.traces = [one for one in run.traces if one.request_id != request_id]


def log(run: build.Run, **changes: object) -> None:
    assert run.log is not None
    run.log = dataclasses.replace(run.log, **changes)  # type: ignore[arg-type]


def stranger(**changes: object) -> TraceEvent:
    record = dataclasses.replace(build.completed("control", 0.0), request_id="somebody")
    return dataclasses.replace(build.trace(record), request_id=None, raw_id="cmpl-1234", line=900, **changes)  # type: ignore[arg-type]


def test_one_trace_a_request_passes() -> None:
    assert coverage(complete.run()).status is Status.PASS
    assert agreement(complete.run()).status is Status.PASS


def test_a_server_without_traces_claims_nothing() -> None:
    run = complete.run()
    run.retarget(trace=None)
    run.traces.clear()
    assert coverage(run).status is agreement(run).status is Status.NOT_APPLICABLE
    assert (run.evidence().requests["place"] == "excused").all()


@pytest.mark.parametrize(("launched", "status"), [(True, Status.FAIL), (False, Status.UNKNOWN)])
def test_no_trace_at_all_is_a_fault_only_where_the_log_is_certainly_the_servers(launched: bool, status: Status) -> None:
    run = complete.run()
    run.retarget(launched=launched)
    run.traces.clear()
    assert coverage(run).status is status and agreement(run).status is Status.UNKNOWN


@pytest.mark.parametrize(
    "stage, role", [("control", Role.CONTROL), ("cancel", Role.BYSTANDER), ("overload", Role.HOLDER), ("drain", Role.FOLLOW_UP)]
)
def test_a_request_that_must_have_a_trace_and_has_none_is_a_fault(stage: str, role: Role) -> None:
    run = complete.run()
    untrace(run, next(one.request_id for one in run.records if (one.stage, one.role) == (stage, role)))
    finding = coverage(run)
    assert finding.status is Status.FAIL and "1 without a trace" in finding.summary


def test_who_stayed_long_enough_in_the_queue_must_have_a_trace() -> None:
    run = complete.run()
    untrace(run, next(one.request_id for one in run.records if one.group == "leavers"))
    assert coverage(run).status is Status.FAIL


def test_who_left_at_once_need_not_have_one() -> None:
    run = complete.run()
    for record in run.records:
        if record.outcome is Outcome.DISCONNECTED and record.stage == "cancel":
            untrace(run, record.request_id)
    assert coverage(run).status is Status.PASS


def test_a_stall_of_our_own_counts_for_no_dwell() -> None:

    run = complete.run()
    record = next(one for one in run.records if one.group == "leavers")
    untrace(run, record.request_id)
    run.observations.append(LoopLag(at_unix_s=record.started_unix_s + 0.6, worker=0, lag_s=0.5))
    assert coverage(run).status is Status.PASS


def test_refusals_and_broken_exchanges_need_none() -> None:
    run = complete.run()
    [record] = run.spoil(lambda one: one.role is Role.BYSTANDER, 1, outcome=Outcome.FAILED, error=ErrorKind.RESET, first_token_s=None)
    untrace(run, record.request_id)
    assert coverage(run).status is Status.PASS


def test_an_orphan_is_a_fault() -> None:
    run = complete.run()
    run.traces.append(stranger())
    finding = coverage(run)
    assert finding.status is Status.FAIL and "1 orphans" in finding.summary and "cmpl-1234" in finding.evidence[0]


def test_an_orphan_with_an_id_of_this_run_is_a_fault_unless_records_were_lost() -> None:
    run = complete.run()
    lost = run.records.pop()
    assert coverage(run).status is Status.FAIL
    run.problems = ("worker-000.jsonl: it has no footer",)
    finding = coverage(run)
    assert finding.status is Status.UNKNOWN and lost.request_id in finding.evidence[0]


def test_who_was_served_before_us_and_other_runs_are_no_orphans() -> None:
    run = complete.run()
    run.traces.insert(0, stranger())
    run.traces.append(dataclasses.replace(stranger(), raw_id=f"cmpl-{ids.make('f' * 16, 0, 1)}"))
    assert coverage(run).status is Status.PASS


def test_a_trace_written_twice_and_one_that_ended_twice_are_faults() -> None:
    run = complete.run()
    run.traces.append(run.traces[5])
    assert "1 written twice" in coverage(run).summary and coverage(run).status is Status.FAIL
    run.traces[-1] = dataclasses.replace(run.traces[5], reason=TerminalReason.CANCELLED, raw_reason="cancelled")
    assert "1 ended twice" in coverage(run).summary and coverage(run).status is Status.FAIL


def test_children_of_a_row_that_asks_for_several_answers_are_legal_and_of_others_are_not() -> None:
    run = complete.run()
    [bad] = run.spoil(lambda one: one.role is Role.BAD, 1, outcome=Outcome.COMPLETED, row="temperature_zero")
    run.traces += [build.trace(bad, child="-0", raw_reason="x"), build.trace(bad, child="-1")]
    assert coverage(run).status is Status.PASS
    run.traces.append(dataclasses.replace(run.traces[5], child="-1"))
    assert coverage(run).status is Status.FAIL


def test_an_unreadable_trace_is_a_fault() -> None:
    run = complete.run()
    log(run, unreadable=("line 7: not an object: '[1]'",))
    assert coverage(run).status is Status.FAIL


def test_traces_that_may_be_in_the_torn_end_of_the_log_are_unknown() -> None:
    run = complete.run()
    last = max(run.records, key=lambda one: one.started_unix_s + one.ended_s)
    untrace(run, last.request_id)
    assert coverage(run).status is Status.FAIL
    log(run, torn='INFO pegainfer_http_trace {"request_id"')
    assert coverage(run).status is Status.UNKNOWN


def test_a_missing_threshold_is_unknown() -> None:
    run = complete.run()
    run.plan = dataclasses.replace(
        run.plan, thresholds={name: each for name, each in run.plan.thresholds.items() if name != "trace_dwell_s"}
    )
    assert coverage(run).status is Status.UNKNOWN


def say(run: build.Run, stage: str, role: Role, reason: TerminalReason, item: int = 0, **changes: object) -> None:
    complete.retrace(run, complete.find(run, stage, role, item), reason=reason, raw_reason=str(reason), **changes)


@pytest.mark.parametrize(
    "stage, role, item, reason",
    [
        ("control", Role.CONTROL, 0, TerminalReason.CANCELLED),
        ("control", Role.CONTROL, 0, TerminalReason.COMPLETED_STOP),
        ("control", Role.CONTROL, 0, TerminalReason.UNRECOGNISED),
        ("cancel", Role.FAULTY, 0, TerminalReason.ERROR),
        ("cancel", Role.FAULTY, 0, TerminalReason.REJECTED),
        ("cancel", Role.FAULTY, 0, TerminalReason.COMPLETED_STOP),
        ("cancel", Role.FAULTY, 0, TerminalReason.COMPLETED_LENGTH),
        ("overload", Role.HOLDER, 0, TerminalReason.DISCONNECTED),
        ("overload", Role.FAULTY, 0, TerminalReason.CANCELLED),
    ],
)
def test_reasons_that_contradict_the_client_are_faults(stage: str, role: Role, item: int, reason: TerminalReason) -> None:
    run = complete.run()
    say(run, stage, role, reason, item)
    assert agreement(run).status is Status.FAIL


@pytest.mark.parametrize("item", range(6))
@pytest.mark.parametrize("reason", [TerminalReason.CANCELLED, TerminalReason.DISCONNECTED])
def test_either_word_is_legal_for_a_client_that_left_about_its_first_token(item: int, reason: TerminalReason) -> None:
    run = complete.run()
    say(run, "cancel", Role.FAULTY, reason, item)
    assert agreement(run).status is Status.PASS


def test_an_answer_that_was_finished_when_its_client_left_is_legal_and_one_long_after_is_not() -> None:
    run = complete.run()
    [record] = run.spoil(lambda one: one.role is Role.FAULTY and one.token_events == 2, 1, max_tokens=3)
    done = dict(reason=TerminalReason.COMPLETED_LENGTH, raw_reason="completed_length", completion_tokens=3)
    cut = record.started_unix_s + (record.cut_s or 0.0)
    complete.retrace(run, record, **done, terminal_unix_s=cut - 0.001)
    assert agreement(run).status is Status.PASS
    complete.retrace(run, record, **done, terminal_unix_s=cut + 30.0)
    finding = agreement(run)
    assert finding.status is Status.FAIL and "after its client had left" in finding.evidence[0]


def test_a_half_closed_client_may_be_served_to_the_end() -> None:
    run = complete.run()
    [record] = run.spoil(lambda one: one.role is Role.FAULTY and one.token_events == 2, 1, max_tokens=3, ending=Ending.HALF_CLOSE)
    complete.retrace(run, record, reason=TerminalReason.COMPLETED_LENGTH, completion_tokens=3, terminal_unix_s=record.started_unix_s + 30.0)
    assert agreement(run).status is Status.PASS


def test_a_refused_request_with_a_trace_must_be_called_rejected() -> None:
    run = complete.run()
    bad = complete.find(run, "bad_requests", Role.BAD)
    run.traces.append(build.trace(bad, completion_tokens=0))
    assert agreement(run).status is Status.PASS
    complete.retrace(run, bad, reason=TerminalReason.COMPLETED_LENGTH, raw_reason="completed_length")
    assert agreement(run).status is Status.FAIL


def test_a_server_that_may_refuse_under_pressure_may_have_refused_one_that_left() -> None:
    run = complete.run()
    say(run, "cancel", Role.FAULTY, TerminalReason.REJECTED)
    run.retarget(queue="queued_or_refused")
    assert agreement(run).status is Status.PASS


def test_without_a_cap_nobody_was_certainly_queued() -> None:
    run = complete.run()
    say(run, "overload", Role.FAULTY, TerminalReason.CANCELLED)
    run.retarget(active_cap=None)
    assert agreement(run).status is Status.PASS


def test_agreement_without_a_measured_pace_is_unknown() -> None:

    run = complete.run()
    run.unobserve(Pace)
    assert agreement(run).status is Status.UNKNOWN


def test_most_of_those_who_left_the_queue_early_have_a_trace_though_any_one_may_have_none() -> None:
    def left_early(without: int) -> build.Run:
        run = complete.run()
        begin = build.BEGIN_UNIX_S + build.STAGES.index("overload") * build.STAGE_S
        for index in range(6):
            gone = build.left("overload", 1.0 + 0.1 * index, tokens=0, group="leavers", item=index, cut_s=0.25, ended_s=0.25)
            run.add(gone, traced=index >= without)
        assert all(one.started_unix_s > begin for one in run.records[-6:])
        return run

    assert coverage(left_early(without=1)).status is Status.PASS
    finding = coverage(left_early(without=6))
    assert finding.status is Status.FAIL and "6 of 9 clients that stayed a while" in finding.evidence[0]


@pytest.mark.parametrize("role, status", [(Role.BAD, Status.PASS), (Role.NORMAL, Status.FAIL)])
def test_a_frontend_that_finds_the_stop_string_may_end_the_engine_as_if_the_client_had_left(role: Role, status: Status) -> None:
    run = complete.run()
    record = run.add(build.completed("bad_requests", 3.0, role=role, row="stop" if role is Role.BAD else None, finish_reason="stop"))
    complete.retrace(run, record, reason=TerminalReason.CANCELLED, raw_reason="cancelled")
    assert agreement(run).status is status
