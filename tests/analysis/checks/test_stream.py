"""stream.*: the protocol, and the arithmetic between tokens, usage, text and trace."""

import dataclasses
from typing import Any

import pytest

from analysis.checks import stream
from analysis.finding import Finding
from analysis.record import RequestRecord
from analysis.vocabulary import ErrorKind, Outcome, Role, Status, TerminalReason
from tests.analysis import build


def bystander(record: RequestRecord) -> bool:
    return record.role is Role.BYSTANDER


def reference(record: RequestRecord) -> bool:
    return record.role is Role.REFERENCE


def protocol(run: build.Run) -> Finding:
    return stream.PROTOCOL.judge(run.evidence())


def content(run: build.Run) -> Finding:
    return stream.CONTENT.judge(run.evidence())


def retrace(run: build.Run, request_id: str, **changes: Any) -> None:
    run.traces = [dataclasses.replace(one, **changes) if one.request_id == request_id else one for one in run.traces]


def test_a_good_run_passes() -> None:
    assert protocol(build.good()).status is Status.PASS
    assert content(build.good()).status is Status.PASS


def test_a_broken_rule_is_a_fault_and_is_counted() -> None:
    run = build.good()
    run.spoil(bystander, 2, problems=("done_missing: the stream ended without [DONE]",))
    finding = protocol(run)
    assert finding.status is Status.FAIL and "done_missing (2)" in finding.summary


def test_bytes_that_are_not_the_protocol_are_a_fault() -> None:
    run = build.good()
    run.spoil(bystander, 1, outcome=Outcome.FAILED, error=ErrorKind.PROTOCOL, detail="not JSON")
    assert protocol(run).status is Status.FAIL


def test_one_response_id_for_two_requests_is_a_fault() -> None:
    run = build.good()
    for index, record in enumerate(run.records):
        run.records[index] = dataclasses.replace(record, response_id=f"cmpl-{index // 2}")
    assert protocol(run).status is Status.FAIL


def test_a_server_with_one_constant_response_id_tells_nothing_apart() -> None:
    run = build.good()
    run.spoil(lambda record: True, response_id="cmpl-0")
    assert protocol(run).status is Status.PASS


def test_an_answer_under_the_id_of_another_request_is_a_fault() -> None:
    run = build.good()
    own, other = run.records[5].request_id, run.records[6].request_id
    run.spoil(lambda record: record.request_id == own, response_id=f"cmpl-{own}")
    assert protocol(run).status is Status.PASS
    run.spoil(lambda record: record.request_id == own, response_id=f"cmpl-{other}")
    finding = protocol(run)
    assert finding.status is Status.FAIL and other in finding.evidence[0]


def test_a_replacement_character_is_a_fault_unless_the_whole_answer_has_it_too() -> None:
    run = build.good()
    run.spoil(bystander, 1, problems=("characters: U+FFFD in 'caf\ufffd'",))
    assert protocol(run).status is Status.FAIL
    run.spoil(lambda record: reference(record) and not record.stream, text="caf\ufffd")
    assert protocol(run).status is Status.PASS


def test_no_whole_stream_is_unknown() -> None:
    run = build.good()
    run.drop(lambda record: record.stream and record.outcome is Outcome.COMPLETED)
    assert protocol(run).status is Status.UNKNOWN
    assert content(run).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"finish_reason": "abort"}, "not one of OpenAI's"),
        ({"finish_reason": ""}, "not one of OpenAI's"),
        ({"finish_reason": "stop"}, "was to be ignored"),
        ({"completion_tokens": 5}, "after 5 of 6 tokens"),
        ({"completion_tokens": 7}, "7 tokens, and 6 were asked for"),
        ({"completion_tokens": None}, "usage missing"),
        ({"token_events": 7}, "1 more events"),
        ({"prompt_tokens": 1}, "has 4 tokens"),
    ],
)
def test_a_stream_that_contradicts_itself_is_a_fault(changes: dict[str, Any], says: str) -> None:
    run = build.good()
    run.spoil(bystander, 1, **changes)
    finding = content(run)
    assert finding.status is Status.FAIL
    assert any(says in line for line in finding.evidence), finding.evidence


def test_usage_against_the_servers_trace_is_a_fault() -> None:
    run = build.good()
    [record] = run.spoil(bystander, 1)
    retrace(run, record.request_id, completion_tokens=5)
    finding = content(run)
    assert finding.status is Status.FAIL and "trace 5" in finding.evidence[0]


def test_whether_the_end_of_sequence_counts_as_a_token_is_the_servers_choice() -> None:
    run = build.good()
    run.retarget(ignore_eos=False)
    [record] = run.spoil(bystander, 1, finish_reason="stop")
    retrace(run, record.request_id, completion_tokens=5, reason=TerminalReason.COMPLETED_STOP)
    assert content(run).status is Status.PASS


def test_a_client_that_left_may_not_be_made_more_than_it_asked_for() -> None:
    run = build.good()
    [record] = run.spoil(lambda record: record.outcome is Outcome.CANCELLED, 1, max_tokens=4)
    retrace(run, record.request_id, completion_tokens=5)
    assert content(run).status is Status.FAIL


def test_several_tokens_in_one_event_are_legal() -> None:
    run = build.good()
    run.spoil(bystander, token_events=2)
    assert content(run).status is Status.PASS


def test_a_server_whose_references_end_with_an_event_more_may_go_on_so() -> None:
    run = build.good()
    run.spoil(lambda record: record.stream and record.outcome is Outcome.COMPLETED, token_events=7)
    assert content(run).status is Status.PASS


def test_usage_may_be_absent_if_it_was_absent_from_the_start() -> None:
    run = build.good()
    run.spoil(lambda record: True, completion_tokens=None, prompt_tokens=None)
    assert content(run).status is Status.PASS


def test_a_streamed_reference_that_lost_a_token_is_a_fault_without_any_load() -> None:
    run = build.good()
    run.spoil(lambda record: reference(record) and record.stream, 1, text=" cherry tomato brick rust wine")
    assert content(run).status is Status.FAIL


def test_a_whole_answer_may_be_trimmed() -> None:
    run = build.good()
    run.spoil(lambda record: reference(record) and not record.stream, 1, text="cherry tomato ruby brick rust wine")
    assert content(run).status is Status.PASS


def test_a_replacement_character_is_judged_where_the_whole_answer_is_known() -> None:
    run = build.good()
    run.add(build.completed("reference", 3.0, role=Role.REFERENCE, stream=False, item=90))
    run.spoil(bystander, 1, problems=("characters: U+FFFD in ' \ufffd'",))
    assert protocol(run).status is Status.FAIL
    run = build.good()
    run.add(build.completed("reference", 3.0, role=Role.REFERENCE, stream=False, item=90))
    run.add(build.completed("bad_requests", 3.0, role=Role.BAD, row="legal_unicode", problems=("characters: U+FFFD in ' \ufffd'",)))
    assert protocol(run).status is Status.PASS
