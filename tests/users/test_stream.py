"""The reader, fed with bytes: however they are cut it sees the same, and it forgives nothing."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.vocabulary import Endpoint
from tests.fakes.raw import LAST_CHUNK, STREAM_HEAD, event
from tests.users.build import GOOD, token, usage
from users.stream import Answer, HTTPParseError, Reader

WHOLE = STREAM_HEAD + b"".join(map(event, GOOD)) + LAST_CHUNK


def read(*parts: bytes, endpoint: Endpoint = Endpoint.COMPLETIONS) -> Answer:
    answer = Answer(endpoint=endpoint)
    reader = Reader(answer, "POST")
    for place, part in enumerate(parts):
        reader.feed(part, float(place))
    return answer


def stream(*data: str, endpoint: Endpoint = Endpoint.COMPLETIONS) -> Answer:
    return read(STREAM_HEAD + b"".join(map(event, data)) + LAST_CHUNK, endpoint=endpoint)


def rules(answer: Answer) -> list[str]:
    return [problem.partition(":")[0] for problem in answer.problems]


@settings(deadline=None, max_examples=60)
@given(st.sets(st.integers(1, len(WHOLE) - 1), max_size=20))
def test_it_does_not_matter_where_the_bytes_are_cut(cuts: set[int]) -> None:
    places = [0, *sorted(cuts), len(WHOLE)]
    answer = read(*(WHOLE[begin:end] for begin, end in itertools.pairwise(places)))
    assert (answer.text, answer.finish_reason, answer.done_count, answer.problems) == (" one two", "length", 1, [])


def test_each_token_has_the_time_of_the_bytes_that_ended_it() -> None:
    one, two = event(token(" one")), event(token(" two", "stop"))
    assert read(STREAM_HEAD, one[:9], one[9:], two).token_times_s == [2.0, 3.0]


@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\r\r"])
def test_every_end_of_line_and_comments_are_read(end: str) -> None:
    body = f": hello{end}" + "".join(f"data: {data}{end}" for data in GOOD)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\n\r\n"
    answer = read(head, body.encode(), b"")
    assert (answer.text, answer.done_count, answer.problems) == (" one two", 1, [])


def test_separators_inside_json_are_no_ends_of_lines() -> None:
    answer = stream(
        json.dumps({"id": "x", "choices": [{"index": 0, "text": " a\u2028b\x85c", "finish_reason": "stop"}]}, ensure_ascii=False)
    )
    assert answer.text == " a\u2028b\x85c" and not answer.problems


def test_a_chat_delta_may_be_without_text() -> None:
    def delta(content: dict[str, object], finish: str | None = None) -> str:
        return json.dumps({"id": "x", "choices": [{"index": 0, "delta": content, "finish_reason": finish}]})

    answer = stream(
        delta({"role": "assistant", "content": ""}), delta({"content": " hi"}), delta({}, "stop"), "[DONE]", endpoint=Endpoint.CHAT
    )
    assert (answer.text, answer.finish_reason, answer.problems, len(answer.token_times_s)) == (" hi", "stop", [], 1)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (("{not json", "[DONE]"), "event_json"),
        (("[1]", "[DONE]"), "event_object"),
        ((token(" a", "stop"), "[DONE]", "[DONE]"), "done_last"),
        ((token(" a", "stop"), "[DONE]", token(" b")), "done_last"),
        ((token(" a", "stop"), token("", "stop"), "[DONE]"), "finish_once"),
        ((token(" a", "stop"), token(" b"), "[DONE]"), "finish_last"),
        ((token(" a", "because"), "[DONE]"), "finish_reason"),
        ((token(" a", "stop"), usage(1, 1), usage(1, 1), "[DONE]"), "usage_once"),
        ((token(" a", "stop"), usage(1, -1), "[DONE]"), "usage"),
        ((token(" a\ufffd", "stop"), "[DONE]"), "characters"),
        ((token(" a"), json.dumps({"id": "other", "choices": [{"index": 0, "text": "b", "finish_reason": "stop"}]})), "one_id"),
        ((json.dumps({"id": "x", "choices": [{"index": 0, "text": 5, "finish_reason": None}]}),), "text"),
        ((json.dumps({"id": "x", "choices": []}),), "choices"),
        ((json.dumps({"id": "x", "choices": "none"}),), "choices"),
    ],
)
def test_what_breaks_a_rule_is_named(data: tuple[str, ...], rule: str) -> None:
    assert rule in rules(stream(*data))


def test_bytes_that_are_not_utf8_are_named() -> None:
    assert "utf8" in rules(read(STREAM_HEAD + b'11\r\ndata: {"a":"\xff"}\n\n\r\n' + LAST_CHUNK))


def test_an_event_without_its_empty_line_is_named() -> None:
    body = b"data: [DONE]\n"
    assert "event_end" in rules(read(STREAM_HEAD + f"{len(body):x}\r\n".encode() + body + b"\r\n" + LAST_CHUNK))


@pytest.mark.parametrize("sent", [b"HTTP/9 what\r\n\r\n", WHOLE + b"junk", STREAM_HEAD + b"zz\r\n"])
def test_what_is_not_http_is_refused(sent: bytes) -> None:
    with pytest.raises(HTTPParseError):
        read(sent)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"message": "no", "type": "invalid_request_error"}}, "invalid_request_error"),
        ({"error": {"message": "no", "code": 400}}, "400"),
        ({"object": "error", "message": "no", "type": "BadRequestError"}, "BadRequestError"),
        ({"error": "no"}, None),
        ({"detail": "no"}, None),
    ],
)
def test_the_kind_of_a_refusal_is_read_from_the_shapes_in_use(body: dict[str, object], kind: str | None) -> None:
    data = json.dumps(body).encode()
    answer = read(f"HTTP/1.1 400 Bad Request\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)
    assert (answer.status, answer.error_type, answer.error_text) == (400, kind, data.decode())


@pytest.mark.parametrize("data", ['{"detail":"no such thing"}', '{"detail":[{"msg":"no"}]}', '{"message":"no","code":400}'])
def test_an_error_may_have_the_flat_shape_of_a_framework(data: str) -> None:
    answer = stream(data, "[DONE]")
    assert (answer.error_event, answer.error_text, answer.problems) == (True, data, [])


def test_an_event_with_choices_is_no_error_whatever_else_it_says() -> None:
    answer = stream(token(" one", "stop", message="hello", detail="none"), "[DONE]")
    assert (answer.error_event, answer.text) == (False, " one")
