"""Bad requests on the wire: a 4xx in OpenAI's form for each of them, and a connection that stays good."""

import json
from typing import Any

import pytest

from tests.server_launch.reference import standin
from tests.server_launch.reference.asks import CHAT, CHAT_PATH, COMPLETIONS, GOOD, answer, with_field
from tests.server_launch.reference.server import MODEL, Server


def chat_with(**fields: Any) -> bytes:
    return json.dumps({"model": MODEL, **CHAT, **fields}).encode()


def raw(text: str) -> bytes:
    """A completion with this text in the place of the value of max_tokens."""
    return json.dumps({"model": MODEL, "prompt": "hello", "max_tokens": 987}).replace("987", text).encode()


REFUSED: list[tuple[str, bytes, int, str | None]] = [
    ("empty body", b"", 400, None),
    ("not JSON", b"{:", 400, None),
    ("cut JSON", with_field()[:-3], 400, None),
    ("trailing bytes", with_field() + b"}", 400, None),
    ("an array", b"[]", 400, None),
    ("a string", b'"hello"', 400, None),
    ("null", b"null", 400, None),
    ("invalid UTF-8", with_field().replace(b"hello", b"\xff\xfe"), 400, None),
    ("UTF-16", with_field().decode().encode("utf-16"), 400, None),
    ("byte order mark", b"\xef\xbb\xbf" + with_field(), 400, None),
    ("lone surrogate", with_field().replace(b"hello", b"\\ud800"), 400, None),
    ("lone surrogate in a key", with_field().replace(b'"prompt"', b'"\\ud800": 1, "prompt"'), 400, None),
    ("deep nesting", b"[" * 200_000, 400, None),
    ("deep nesting in a field", with_field().replace(b'"hello world"', b"[" * 50_000 + b"]" * 50_000), 400, None),
    ("a key twice", with_field().replace(b'"max_tokens"', b'"prompt": "x", "max_tokens"'), 400, None),
    ("NaN", raw("NaN"), 400, None),
    ("Infinity", raw("-Infinity"), 400, None),
    ("too large a float", with_field().replace(b'"max_tokens": 4', b'"temperature": 1e400'), 400, None),
    ("too many digits", raw("9" * 10_000), 400, None),
    ("unknown field", with_field(tempratur=0), 400, "tempratur"),
    ("no model", json.dumps(GOOD).encode(), 400, "model"),
    ("model of a wrong type", with_field(model=3), 400, "model"),
    ("unknown model", with_field(model="other"), 404, "model"),
    ("empty model", with_field(model=""), 404, "model"),
    ("no prompt", json.dumps({"model": MODEL, "max_tokens": 4}).encode(), 400, "prompt"),
    ("prompt null", with_field(prompt=None), 400, "prompt"),
    ("prompt a number", with_field(prompt=5), 400, "prompt"),
    ("prompt an object", with_field(prompt={}), 400, "prompt"),
    ("two prompts", with_field(prompt=["a", "b"]), 400, "prompt"),
    ("mixed prompt", with_field(prompt=["a", 1]), 400, "prompt"),
    ("float token ids", with_field(prompt=[1.0]), 400, "prompt"),
    ("bool token ids", with_field(prompt=[True]), 400, "prompt"),
    ("negative token id", with_field(prompt=[-1]), 400, "prompt"),
    ("token id beyond the vocabulary", with_field(prompt=[standin.VOCAB_SIZE]), 400, "prompt"),
    ("huge token id", with_field(prompt=[2**70]), 400, "prompt"),
    ("empty prompt", with_field(prompt=""), 400, "prompt"),
    ("empty list of tokens", with_field(prompt=[]), 400, "prompt"),
    ("list with an empty prompt", with_field(prompt=[""]), 400, "prompt"),
    ("max_tokens negative", with_field(max_tokens=-1), 400, "max_tokens"),
    ("max_tokens a string", with_field(max_tokens="4"), 400, "max_tokens"),
    ("max_tokens a float", with_field(max_tokens=4.0), 400, "max_tokens"),
    ("max_tokens a bool", with_field(max_tokens=True), 400, "max_tokens"),
    ("max_tokens a list", with_field(max_tokens=[4]), 400, "max_tokens"),
    ("max_tokens over the context", with_field(max_tokens=4096), 400, "max_tokens"),
    ("max_tokens of 64 bits", with_field(max_tokens=2**63), 400, "max_tokens"),
    ("prompt over the context", with_field(prompt="word " * 5000), 400, "max_tokens"),
    ("temperature above zero", with_field(temperature=0.7), 400, "temperature"),
    ("temperature negative", with_field(temperature=-1), 400, "temperature"),
    ("temperature above two", with_field(temperature=2.5), 400, "temperature"),
    ("temperature a string", with_field(temperature="hot"), 400, "temperature"),
    ("top_p zero", with_field(top_p=0), 400, "top_p"),
    ("top_p above one", with_field(top_p=1.5), 400, "top_p"),
    ("top_k below minus one", with_field(top_k=-5), 400, "top_k"),
    ("min_p", with_field(min_p=0.1), 400, "min_p"),
    ("n of two", with_field(n=2), 400, "n"),
    ("n of zero", with_field(n=0), 400, "n"),
    ("best_of", with_field(best_of=3), 400, "best_of"),
    ("echo", with_field(echo=True), 400, "echo"),
    ("suffix", with_field(suffix="end"), 400, "suffix"),
    ("logprobs", with_field(logprobs=1), 400, "logprobs"),
    ("logprobs negative", with_field(logprobs=-1), 400, "logprobs"),
    ("logprobs a bool", with_field(logprobs=True), 400, "logprobs"),
    ("logprobs beyond any limit", with_field(logprobs=1_000_000), 400, "logprobs"),
    ("logit_bias", with_field(logit_bias={"5": 1}), 400, "logit_bias"),
    ("presence_penalty", with_field(presence_penalty=1), 400, "presence_penalty"),
    ("frequency_penalty out of range", with_field(frequency_penalty=9), 400, "frequency_penalty"),
    ("repetition_penalty", with_field(repetition_penalty=1.1), 400, "repetition_penalty"),
    ("response_format", with_field(response_format={"type": "json_object"}), 400, "response_format"),
    ("response_format a string", with_field(response_format="json"), 400, "response_format"),
    ("LoRA adapter", with_field(lora_adapter="mine"), 400, "lora_adapter"),
    ("LoRA request", with_field(lora_request={}), 400, "lora_adapter"),
    ("stop a number", with_field(stop=5), 400, "stop"),
    ("stop with a number", with_field(stop=["a", 5]), 400, "stop"),
    ("stop empty", with_field(stop=""), 400, "stop"),
    ("too many stops", with_field(stop=["x"] * 17), 400, "stop"),
    ("stream a string", with_field(stream="true"), 400, "stream"),
    ("stream a number", with_field(stream=1), 400, "stream"),
    ("stream_options without stream", with_field(stream_options={"include_usage": True}), 400, "stream_options"),
    ("unknown stream option", with_field(stream=True, stream_options={"usage": True}), 400, "stream_options.usage"),
    ("stream option of a wrong type", with_field(stream=True, stream_options={"include_usage": 1}), 400, "stream_options.include_usage"),
    ("seed a float", with_field(seed=1.5), 400, "seed"),
    ("seed over 64 bits", with_field(seed=2**63), 400, "seed"),
    ("user a number", with_field(user=1), 400, "user"),
    ("ignore_eos a string", with_field(ignore_eos="yes"), 400, "ignore_eos"),
    ("request_id a number", with_field(request_id=1), 400, "request_id"),
    ("request_id empty", with_field(request_id=""), 400, "request_id"),
    ("request_id too long", with_field(request_id="x" * 5000), 400, "request_id"),
    ("messages in a completion", with_field(messages=[]), 400, "messages"),
]
REFUSED_CHAT: list[tuple[str, bytes, int, str | None]] = [
    ("no messages", json.dumps({"model": MODEL}).encode(), 400, "messages"),
    ("empty messages", chat_with(messages=[]), 400, "messages"),
    ("messages a string", chat_with(messages="hello"), 400, "messages"),
    ("unknown role", chat_with(messages=[{"role": "robot", "content": "x"}]), 400, "messages.0.role"),
    ("no content", chat_with(messages=[{"role": "user"}]), 400, "messages.0.content"),
    ("content a number", chat_with(messages=[{"role": "user", "content": 5}]), 400, None),
    ("an image", chat_with(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]), 400, None),
    ("what the template refuses", chat_with(messages=[{"role": "assistant", "content": "x"}]), 400, "messages"),
    ("tools", chat_with(tools=[{"type": "function"}]), 400, "tools"),
    ("tool_choice", chat_with(tool_choice="auto"), 400, "tool_choice"),
    ("chat logprobs", chat_with(logprobs=True), 400, "logprobs"),
    ("top_logprobs alone", chat_with(top_logprobs=3), 400, "top_logprobs"),
    ("two different limits", chat_with(max_completion_tokens=5), 400, "max_completion_tokens"),
    ("prompt in a chat", chat_with(prompt="x"), 400, "prompt"),
    ("temperature in a chat", chat_with(temperature=1), 400, "temperature"),
    ("unknown model in a chat", chat_with(model="other"), 404, "model"),
]
ROWS = [(COMPLETIONS, *row) for row in REFUSED] + [(CHAT_PATH, *row) for row in REFUSED_CHAT]


def assert_openai_error(headers: dict[str, str], text: str) -> dict[str, Any]:
    """The one error body; returns what is inside."""
    assert headers["content-type"] == "application/json"
    body = json.loads(text)
    assert body.keys() == {"error"}
    error: dict[str, Any] = body["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"]
    assert error["type"] == "invalid_request_error"
    return error


@pytest.mark.parametrize(("path", "what", "body", "status", "param"), ROWS, ids=[f"{row[0].split('/')[-2]}-{row[1]}" for row in ROWS])
def test_a_bad_request_is_refused_and_the_connection_stays_good(
    server: Server, path: str, what: str, body: bytes, status: int, param: str | None
) -> None:
    client = server.client()
    got, headers, text = client.exchange(body, path=path)
    assert got == status, text
    error = assert_openai_error(headers, text)
    if param is not None:
        assert error["param"] == param
    after, _, good = client.exchange(GOOD)
    assert (after, json.loads(good)["choices"][0]["text"]) == (200, "".join(answer("hello world", 4)))


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_words_that_are_not_json_numbers_are_refused_as_bad_json(server: Server, word: str) -> None:
    error = assert_openai_error(*server.client().exchange(raw(word))[1:])
    assert "not valid JSON" in error["message"]
    assert error["param"] is None


@pytest.mark.parametrize("fields", [{"temperature": 0.7}, {"prompt": ""}, {"max_tokens": 5000}, {"n": 2}, {"tempratur": 1}], ids=json.dumps)
def test_a_bad_request_for_a_stream_gets_the_same_status_before_any_event(server: Server, fields: dict[str, Any]) -> None:
    status, headers, text = server.client().exchange(with_field(stream=True, **fields))
    assert status == 400
    assert_openai_error(headers, text)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", COMPLETIONS, 405),
        ("PUT", COMPLETIONS, 405),
        ("DELETE", CHAT_PATH, 405),
        ("POST", "/health", 405),
        ("POST", "/v1/completion", 404),
        ("POST", "/v1/completions/", 404),
        ("GET", "/", 404),
        ("GET", "/v1/models/", 404),
        ("POST", "/v1/embeddings", 404),
    ],
)
def test_a_wrong_path_or_method_is_refused(server: Server, method: str, path: str, status: int) -> None:
    got, headers, text = server.client().exchange(with_field(), path=path, method=method)
    assert got == status
    assert_openai_error(headers, text)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/json; charset=latin-1", "multipart/form-data"]
)
def test_a_wrong_content_type_is_refused(server: Server, kind: str) -> None:
    got, headers, text = server.client().exchange(with_field(), content_type=kind)
    assert got == 415
    assert_openai_error(headers, text)


def test_a_content_type_may_name_utf8(server: Server) -> None:
    assert server.client().exchange(with_field(), content_type="application/json; charset=UTF-8")[0] == 200


def test_too_large_a_body_is_refused_and_the_connection_closed(server: Server) -> None:
    client = server.client()
    status, headers, text = client.exchange(with_field(prompt="x" * 5 * 2**20))
    assert status == 413
    assert headers["connection"] == "close"
    assert_openai_error(headers, text)


def test_too_long_an_id_in_the_header_is_refused(server: Server) -> None:
    assert server.client().exchange(GOOD, x_request_id="x" * 1000)[0] == 400


@pytest.mark.parametrize(
    "wire",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"hello\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: minus\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        "GET /höhle HTTP/1.1\r\nhost: x\r\n\r\n".encode(),
    ],
)
def test_bytes_that_are_not_http_get_an_openai_error_and_the_connection_is_closed(server: Server, wire: bytes) -> None:
    client = server.client()
    client.socket.sendall(wire)
    status, headers, text = client.answer()
    assert 400 <= status < 500
    assert_openai_error(headers, text)
    assert client.socket.recv(1) == b""
