"""outcomes.*: one record is spoilt in a good run, and the check says so."""

import dataclasses

from analysis.checks import outcomes, stream
from analysis.finding import Finding
from analysis.observation import LoopLag, StageMark
from analysis.record import RequestRecord
from analysis.vocabulary import Contract, Endpoint, ErrorKind, Outcome, Role, Status
from tests.analysis import build


def bystander(record: RequestRecord) -> bool:
    return record.role is Role.BYSTANDER


def bad(record: RequestRecord) -> bool:
    return record.role is Role.BAD


def waiter(record: RequestRecord) -> bool:
    return record.group == "waiters"


def normal(run: build.Run) -> Finding:
    return outcomes.NORMAL.judge(run.evidence())


def rejection(run: build.Run) -> Finding:
    return outcomes.REJECTION.judge(run.evidence())


def accepted(run: build.Run) -> Finding:
    return outcomes.ACCEPTED.judge(run.evidence())


def timeout(run: build.Run) -> Finding:
    return outcomes.TIMEOUT.judge(run.evidence())


def test_a_good_run_passes() -> None:
    run = build.good()
    assert [check(run).status for check in (normal, rejection, accepted, timeout)] == [Status.PASS] * 4


def test_one_cut_bystander_is_a_fault_and_is_named() -> None:
    run = build.good()
    [record] = run.spoil(bystander, 1, outcome=Outcome.FAILED, error=ErrorKind.CUT, detail="closed after 3 tokens")
    finding = normal(run)
    assert finding.status is Status.FAIL
    assert record.request_id in finding.evidence[0] and "closed after 3 tokens" in finding.evidence[0]


def test_a_normal_request_that_we_stopped_is_unknown() -> None:
    run = build.good()
    run.spoil(bystander, 1, outcome=Outcome.HARNESS_STOPPED)
    assert normal(run).status is Status.UNKNOWN


def test_a_deadline_that_passed_while_we_stood_still_is_unknown() -> None:
    run = build.good()
    [record] = run.spoil(bystander, 1, outcome=Outcome.TIMEOUT, error=ErrorKind.DEADLINE, ended_s=10.0)
    run.observations.append(LoopLag(at_unix_s=record.started_unix_s + 9.0, worker=0, lag_s=8.0))
    assert normal(run).status is Status.UNKNOWN
    assert timeout(run).status is Status.UNKNOWN


def test_no_normal_request_at_all_is_unknown() -> None:
    run = build.good()
    run.drop(lambda record: not bad(record))
    assert normal(run).status is Status.UNKNOWN


def test_a_declared_refusal_under_pressure_is_no_broken_request() -> None:
    run = build.good()
    run.retarget(queue="queued_or_refused")
    run.spoil(waiter, 1, outcome=Outcome.REJECTED, status=429)
    assert normal(run).status is Status.PASS
    assert accepted(run).status is Status.PASS


def test_a_bad_request_that_was_served_is_a_fault() -> None:
    run = build.good()
    run.spoil(bad, 1, outcome=Outcome.COMPLETED, status=200)
    finding = rejection(run)
    assert finding.status is Status.FAIL and "served" in finding.evidence[0]


def test_a_5xx_for_a_bad_request_is_a_fault() -> None:
    run = build.good()
    run.spoil(bad, 1, outcome=Outcome.FAILED, error=ErrorKind.SERVER_ERROR, status=500)
    assert rejection(run).status is Status.FAIL


def test_no_answer_to_a_request_that_may_be_refused_or_served_is_a_fault() -> None:
    run = build.good()
    run.spoil(bad, 1, row="top_k_minus_two", outcome=Outcome.TIMEOUT)
    assert rejection(run).status is Status.FAIL


def test_http_has_two_statuses_for_what_a_server_never_does() -> None:
    run = build.good()
    run.spoil(bad, 1, row="top_k_minus_two", outcome=Outcome.FAILED, error=ErrorKind.SERVER_ERROR, status=501)
    assert rejection(run).status is Status.PASS
    run.spoil(lambda record: record.status == 501, 1, row="negative_max_tokens")
    assert rejection(run).status is Status.FAIL


def test_a_row_that_may_be_refused_or_served_may_be_either() -> None:
    run = build.good()
    run.spoil(bad, 1, row="top_k_minus_two", outcome=Outcome.COMPLETED, status=200)
    run.spoil(lambda record: bad(record) and record.item == 3, 1, row="top_k_minus_two")
    assert rejection(run).status is Status.PASS


def test_a_refusal_inside_a_stream_depends_on_the_profile() -> None:
    run = build.good()
    run.spoil(lambda record: bad(record) and record.stream, status=200, error=ErrorKind.ERROR_EVENT)
    assert rejection(run).status is Status.PASS
    run.retarget(stream_refusal="status")
    assert rejection(run).status is Status.FAIL


def test_a_refusal_without_a_word_is_a_fault() -> None:
    run = build.good()
    run.spoil(bad, 1, error_body="", error_type=None)
    assert rejection(run).status is Status.FAIL


def test_an_error_body_of_a_page_is_a_fault() -> None:
    run = build.good()
    run.spoil(bad, 1, error_body="<html>Bad Request</html>", error_type=None, content_type="text/html")
    assert rejection(run).status is Status.FAIL


def test_the_http_layer_may_answer_in_its_own_form() -> None:
    run = build.good()
    plain = dict(error_body="not JSON: line 1", error_type=None, content_type="text/plain; charset=utf-8")
    run.spoil(lambda record: bad(record) and record.item == 0, row="top_k_minus_two", **plain)
    run.spoil(lambda record: bad(record) and record.item == 2, endpoint=Endpoint.OTHER, status=405, error_body="", error_type=None)
    run.spoil(lambda record: bad(record) and record.item == 4, endpoint=Endpoint.OTHER, status=404, error_body="", error_type=None)
    run.spoil(
        lambda record: bad(record) and record.item == 6, error_body='{"detail":[{"msg":"not a number"}]}', error_type=None, status=422
    )
    assert rejection(run).status is Status.PASS


def test_plain_text_where_the_same_row_is_answered_in_json_is_a_fault() -> None:
    run = build.good()
    run.spoil(lambda record: bad(record) and record.stream, error_body="Bad Request", error_type=None, content_type="text/plain")
    finding = rejection(run)
    assert finding.status is Status.FAIL and "cannot be read: 'Bad Request'" in finding.evidence[0]


def test_plain_text_from_a_server_that_answers_in_json_as_a_rule_is_a_fault() -> None:
    run = build.good()
    row = run.plan.rows["negative_max_tokens"]
    run.plan = dataclasses.replace(run.plan, rows={f"row{index}": row for index in range(12)})
    for index in range(12):
        run.spoil(lambda record, index=index: bad(record) and record.item == index, row=f"row{index}")  # type: ignore[misc]
    run.spoil(bad, 2, error_body="Bad Request", error_type=None, content_type="text/plain")
    assert rejection(run).status is Status.FAIL
    run.spoil(bad, 4, error_body="Bad Request", error_type=None, content_type="text/plain")
    assert rejection(run).status is Status.PASS, "a third of the rows never reaches a handler of this server"
    run.spoil(bad, error_body="Bad Request", error_type=None, content_type="text/plain")
    assert rejection(run).status is Status.FAIL, "no error of this server can be read"


def test_connections_that_break_right_after_an_answer_are_a_fault_unless_it_was_once() -> None:
    run = build.good()
    run.spoil(bystander, 2, problems=("kept_connection: closed 3 ms after an answer that did not say so",))
    assert rejection(run).status is Status.PASS
    assert stream.PROTOCOL.judge(run.evidence()).status is Status.PASS
    run.spoil(bystander, 3, problems=("kept_connection: closed 3 ms after an answer that did not say so",))
    assert rejection(run).status is Status.FAIL
    assert stream.PROTOCOL.judge(run.evidence()).status is Status.FAIL


def test_a_late_refusal_is_a_fault() -> None:
    run = build.good()
    run.spoil(bad, 1, ended_s=9.0)
    finding = rejection(run)
    assert finding.status is Status.FAIL and "refused after 9.0 s" in finding.evidence[0]


def test_another_status_when_streamed_is_a_fault_unless_both_mean_the_same() -> None:
    run = build.good()
    run.spoil(lambda record: bad(record) and record.stream, status=422)
    assert rejection(run).status is Status.PASS
    run.spoil(lambda record: bad(record) and record.stream, status=404)
    assert rejection(run).status is Status.FAIL


def test_a_bad_request_that_we_left_is_unknown() -> None:
    run = build.good()
    run.spoil(bad, 1, outcome=Outcome.DISCONNECTED)
    assert rejection(run).status is Status.UNKNOWN


def test_no_bad_request_at_all_is_unknown() -> None:
    run = build.good()
    run.drop(bad)
    assert rejection(run).status is Status.UNKNOWN


def test_a_legal_corner_case_that_was_refused_is_a_fault() -> None:
    run = build.good()
    run.spoil(bad, 1, row="temperature_zero")
    assert run.plan.rows["temperature_zero"].contract is Contract.MUST_SERVE
    assert accepted(run).status is Status.FAIL


def test_a_parameter_that_was_taken_and_ignored_is_a_fault() -> None:
    run = build.good()
    run.spoil(bad, 1, row="top_k_minus_two", outcome=Outcome.COMPLETED, status=200, proof="stop string not honoured")
    finding = accepted(run)
    assert finding.status is Status.FAIL and "stop string not honoured" in finding.evidence[0]


def test_a_text_that_differs_proves_nothing_where_batches_change_texts() -> None:
    run = build.good()
    run.spoil(bad, 1, row="temperature_zero", outcome=Outcome.COMPLETED, status=200, proof="the text differs from the reference: ' pie'")
    assert accepted(run).status is Status.FAIL
    run.retarget(batch_invariant=False)
    run.drop(lambda record: record.role is Role.CONTROL)
    assert accepted(run).status is Status.PASS


def test_a_proved_parameter_passes_and_is_counted() -> None:
    run = build.good()
    run.spoil(bad, 1, row="temperature_zero", outcome=Outcome.COMPLETED, status=200, proof="ok")
    finding = accepted(run)
    assert finding.status is Status.PASS and "1 parameters were proved" in finding.summary


def test_a_legal_corner_case_that_we_stopped_is_unknown() -> None:
    run = build.good()
    run.spoil(bad, 1, row="temperature_zero", outcome=Outcome.HARNESS_STOPPED)
    assert accepted(run).status is Status.UNKNOWN


def test_503_where_the_server_promises_to_queue_is_a_fault() -> None:
    run = build.good()
    run.spoil(waiter, 1, outcome=Outcome.FAILED, error=ErrorKind.SERVER_ERROR, status=503)
    finding = accepted(run)
    assert finding.status is Status.FAIL and "promises to queue" in finding.evidence[0]


def test_429_with_slots_free_is_a_fault_even_where_429_is_declared() -> None:
    run = build.good()
    run.retarget(queue="queued_or_refused")
    run.spoil(lambda record: record.role is Role.FOLLOW_UP, 1, outcome=Outcome.REJECTED, status=429)
    finding = accepted(run)
    assert finding.status is Status.FAIL and "0 of 2 slots" in finding.evidence[0]


def test_a_deadline_that_passed_is_a_fault() -> None:
    run = build.good()
    run.spoil(bystander, 1, outcome=Outcome.TIMEOUT, error=ErrorKind.DEADLINE, ended_s=30.0)
    assert timeout(run).status is Status.FAIL


def test_a_stage_that_was_cut_is_unknown() -> None:
    run = build.good()
    run.observations.append(StageMark(at_unix_s=1_028.0, stage="cancel", edge="cut"))
    assert timeout(run).status is Status.UNKNOWN


def test_what_was_answered_is_judged_however_our_own_side_did() -> None:
    run = build.good()
    [refused] = run.spoil(bad, 1, ended_s=0.2)
    run.observations.append(LoopLag(at_unix_s=refused.started_unix_s + 0.2, worker=0, lag_s=0.19))
    assert rejection(run).status is Status.PASS
    run.spoil(lambda one: one.request_id == refused.request_id, status=500, outcome=Outcome.FAILED, error=ErrorKind.SERVER_ERROR)
    assert rejection(run).status is Status.FAIL


def test_a_scenario_without_bad_requests_claims_nothing_about_refusals() -> None:
    run = build.good()
    run.drop(bad)
    assert rejection(run).status is Status.UNKNOWN
    stages = tuple(
        dataclasses.replace(one, groups=tuple(group for group in one.groups if all(item.role is not Role.BAD for item in group.items)))
        for one in run.plan.stages
    )
    run.plan = dataclasses.replace(run.plan, stages=stages)
    assert rejection(run).status is Status.NOT_APPLICABLE
