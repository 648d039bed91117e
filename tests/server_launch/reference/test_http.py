"""The HTTP side on the wire: shapes of good answers, and a 4xx in OpenAI's form for every bad request."""

import json
import socket
import time
from typing import Any

import pytest

from tests.server_launch.reference import standin
from tests.server_launch.reference.server import DEADLINE_S, MODEL, Server, events, eventually, texts

GOOD: dict[str, Any] = {"prompt": "hello world", "max_tokens": 4}
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
HELLO_IDS = standin.StandInTokenizer().encode("hello world")
COMPLETIONS, CHAT_PATH = "/v1/completions", "/v1/chat/completions"


def answer(prompt: str, count: int) -> list[str]:
    """The pieces of text that the stand-in gives for a prompt."""
    return [standin.text_of(token) for token in standin.answer(standin.StandInTokenizer().encode(prompt), count)]


def test_a_stream_has_one_event_a_token_then_the_reason_then_done(server: Server) -> None:
    status, headers, text = server.client().exchange({**GOOD, "stream": True, "request_id": "shape"})
    found = events(text)
    assert status == 200
    assert headers["content-type"].startswith("text/event-stream")
    assert found[-1] == "[DONE]"
    chunks = [json.loads(data) for data in found[:-1]]
    assert {chunk["id"] for chunk in chunks} == {"cmpl-shape"}
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    assert {chunk["model"] for chunk in chunks} == {MODEL}
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 4 + ["length"]
    assert [chunk["choices"][0]["text"] for chunk in chunks] == [*answer("hello world", 4), ""]
    assert not any("usage" in chunk for chunk in chunks)


@pytest.mark.parametrize(("options", "wanted"), [({}, 0), ({"include_usage": False}, 0), ({"include_usage": True}, 1)])
def test_a_stream_carries_usage_only_when_asked(server: Server, options: dict[str, bool], wanted: int) -> None:
    found = events(server.client().exchange({**GOOD, "stream": True, "stream_options": options})[2])
    with_usage = [json.loads(data) for data in found[:-1] if "usage" in data]
    assert len(with_usage) == wanted
    for chunk in with_usage:
        assert chunk["choices"] == []
        assert chunk["usage"] == {"prompt_tokens": 2, "completion_tokens": 4, "total_tokens": 6}


def test_a_chat_stream_names_the_role_first_and_has_the_same_text_as_the_whole_answer(server: Server) -> None:
    streamed = events(server.client().exchange({**CHAT, "stream": True}, path=CHAT_PATH)[2])
    whole = json.loads(server.client().exchange(CHAT, path=CHAT_PATH)[2])
    first = json.loads(streamed[0])
    assert first["object"] == "chat.completion.chunk"
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert first["id"].startswith("chatcmpl-")
    assert whole["object"] == "chat.completion"
    assert whole["choices"][0]["message"] == {"role": "assistant", "content": "".join(texts(streamed))}
    assert whole["choices"][0]["finish_reason"] == "length"
    assert len(texts(streamed)) == whole["usage"]["completion_tokens"] == 4


def test_a_whole_completion(server: Server) -> None:
    whole = server.ask(**GOOD)
    assert whole["choices"] == [{"index": 0, "text": "".join(answer("hello world", 4)), "logprobs": None, "finish_reason": "length"}]
    assert whole["usage"] == {"prompt_tokens": 2, "completion_tokens": 4, "total_tokens": 6}


def test_tokens_are_sent_as_they_come(server: Server) -> None:
    client = server.client()
    client.send({"prompt": "endless", "max_tokens": 2000, "stream": True})
    client.read_until(b"data: ", count=3)
    assert server.figure("vllm:num_requests_running") == 1
    client.leave("fin")
    eventually(server.at_rest, "rest")


def test_the_head_of_a_stream_comes_before_its_first_token(server: Server) -> None:
    holders = [server.client() for _ in range(4)]
    for holder in holders:
        holder.send({"prompt": "holder", "max_tokens": 2000, "stream": True})
        holder.read_until(b"data: ")
    waiter = server.client()
    waiter.send({**GOOD, "stream": True})
    assert waiter.read_until(b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    assert b"data: " not in waiter.buffer
    assert server.figure("vllm:num_requests_waiting") == 1
    for holder in holders:
        holder.leave("fin")
    waiter.read_until(b"data: [DONE]")
    eventually(server.at_rest, "rest")


def test_ids_come_from_the_body_then_the_header_then_the_server(server: Server) -> None:
    def id_of(body: dict[str, Any], **headers: str) -> str:
        return str(json.loads(server.client().exchange({**GOOD, **body}, **headers)[2])["id"])

    assert id_of({"request_id": "from-body"}, x_request_id="from-header") == "cmpl-from-body"
    assert id_of({}, x_request_id="from-header") == "cmpl-from-header"
    assert id_of({}) != id_of({})


def test_stop_strings_cut_the_text_streamed_and_whole(server: Server) -> None:
    pieces = answer("hello world", 6)
    stop = pieces[2][1:] + pieces[3][:2]
    expected = "".join(pieces[:2]) + pieces[2][:1]
    whole = server.ask(prompt="hello world", max_tokens=6, stop=["never", stop])
    streamed = events(server.client().exchange({"prompt": "hello world", "max_tokens": 6, "stop": stop, "stream": True})[2])
    assert whole["choices"][0]["text"] == expected
    assert whole["choices"][0]["finish_reason"] == "stop"
    assert "".join(texts(streamed)) == expected
    assert json.loads(streamed[-2])["choices"][0]["finish_reason"] == "stop"


def test_the_end_of_sequence_stops_unless_it_is_ignored(server: Server) -> None:
    stopped = server.ask(prompt="end-soon", max_tokens=9)
    ignored = server.ask(prompt="end-soon", max_tokens=9, ignore_eos=True)
    assert stopped["choices"][0]["finish_reason"] == "stop"
    assert ignored["choices"][0]["finish_reason"] == "length"
    assert ignored["usage"]["completion_tokens"] == 9
    assert ignored["choices"][0]["text"].startswith(stopped["choices"][0]["text"])


@pytest.mark.parametrize("prompt", ["hello world", ["hello world"], HELLO_IDS, [HELLO_IDS]])
def test_a_prompt_is_text_or_token_ids_alone_or_in_a_list(server: Server, prompt: object) -> None:
    assert server.ask(prompt=prompt, max_tokens=4)["choices"][0]["text"] == "".join(answer("hello world", 4))


@pytest.mark.parametrize(
    "extra",
    [
        {"temperature": 0},
        {"temperature": 0.0, "top_p": 1, "top_k": -1},
        {"top_p": 0.5, "top_k": 1},
        {"seed": 7, "user": "someone"},
        {"n": 1, "best_of": 1, "echo": False, "suffix": None},
        {"logprobs": None},
        {"logprobs": 0},
        {"stop": None},
        {"stop": []},
        {"stop": [f"never{number}" for number in range(16)]},
        {"logit_bias": {}, "response_format": {"type": "text"}},
        {"presence_penalty": 0, "frequency_penalty": 0.0, "repetition_penalty": 1, "min_p": 0},
        {"stream": None, "stream_options": None},
        {"max_tokens": 0},
    ],
    ids=json.dumps,
)
def test_neutral_values_are_served(server: Server, extra: dict[str, Any]) -> None:
    wanted = extra.get("max_tokens", 4)
    assert server.ask(**{**GOOD, **extra})["choices"][0]["text"] == "".join(answer("hello world", wanted))


def test_defaults_are_sixteen_tokens_for_completions_and_the_rest_of_the_context_for_chat(server: Server) -> None:
    assert server.ask(prompt="hello")["usage"]["completion_tokens"] == 16
    endless = server.client()
    endless.send({"messages": CHAT["messages"], "stream": True, "request_id": "open-end"}, path=CHAT_PATH)
    endless.read_until(b"data: ", count=20)
    endless.leave("fin")
    assert server.trace("open-end")["terminal_reason"] == "cancelled"


def with_field(**fields: Any) -> bytes:
    return json.dumps({"model": MODEL, **GOOD, **fields}).encode()


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


def test_a_body_in_chunks_is_served(server: Server) -> None:
    client = server.client()
    body = with_field()
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    client.socket.sendall(head)
    for part in (body[:7], body[7:]):
        client.socket.sendall(b"%x\r\n%b\r\n" % (len(part), part))
    client.socket.sendall(b"0\r\n\r\n")
    assert client.answer()[0] == 200


def test_health_models_and_unknown_paths(server: Server) -> None:
    assert server.get("/health")[0] == 200
    status, text = server.get("/v1/models")
    [model] = json.loads(text)["data"]
    assert (status, model["id"], model["max_model_len"]) == (200, MODEL, 4096)


def test_counters_follow_what_happened(server: Server) -> None:
    names = ["vllm:generation_tokens_total", "vllm:prompt_tokens_total", 'vllm:request_success_total{finished_reason="length"']
    before = [server.figure(name) for name in names]
    server.ask(**GOOD)
    assert [server.figure(name) - then for name, then in zip(names, before, strict=True)] == [4, 2, 1]
    aborted = server.figure('vllm:request_success_total{finished_reason="abort"')
    client = server.client()
    client.send({"prompt": "endless", "max_tokens": 2000, "stream": True})
    client.read_until(b"data: ")
    client.leave("rst")
    eventually(lambda: server.figure('vllm:request_success_total{finished_reason="abort"') == aborted + 1, "an abort counted")


def test_health_is_quick_while_a_long_prompt_is_in_prefill(server: Server) -> None:
    client = server.client()
    client.send({"prompt": "slow", "max_tokens": 1})
    eventually(lambda: server.figure("vllm:num_requests_running") == 1, "prefill")
    began_s = time.monotonic()
    assert server.get("/health")[0] == 200
    assert time.monotonic() - began_s < standin.SLOW_S
    assert client.answer()[0] == 200


def test_a_slow_reader_holds_up_nobody_and_is_noticed_when_it_leaves(server: Server) -> None:
    reader = server.client(receive_buffer_bytes=2048)
    reader.send({"prompt": "endless", "max_tokens": 4000, "stream": True, "request_id": "slow-reader"})
    assert server.ask(**GOOD)["usage"]["completion_tokens"] == 4
    reader.leave("rst")
    assert server.trace("slow-reader")["terminal_reason"] in ("cancelled", "disconnected")


def test_pipelined_requests_are_answered_in_their_order(server: Server) -> None:
    client = server.client()
    for number in range(5):
        client.send({**GOOD, "request_id": f"pipe-{number}"})
    assert [json.loads(client.answer()[2])["id"] for _ in range(5)] == [f"cmpl-pipe-{number}" for number in range(5)]


def test_options_without_metrics_gauges_or_traces(start: Any) -> None:
    with start("--no-metrics", "--no-trace") as bare:
        bare.ask(**GOOD)
        assert bare.get("/metrics")[0] == 404
        assert bare.traces() == []
    with start("--no-gauges") as without_gauges:
        text = without_gauges.get("/metrics")[1]
        assert "vllm:num_requests" not in text
        assert "vllm:generation_tokens_total" in text


def test_a_context_length_of_ones_own(start: Any) -> None:
    with start("--context-length", "8") as small:
        assert small.client().exchange({"prompt": "a b c d", "max_tokens": 4})[0] == 200
        assert small.client().exchange({"prompt": "a b c d", "max_tokens": 5})[0] == 400
        assert json.loads(small.get("/v1/models")[1])["data"][0]["max_model_len"] == 8


def test_a_connection_that_sends_nothing_or_half_a_request_disturbs_nobody(server: Server) -> None:
    silent, half = server.client(), server.client()
    half.socket.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
    assert server.ask(**GOOD)["usage"]["completion_tokens"] == 4
    for client in (silent, half):
        client.leave("fin")
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S):
        assert server.get("/health")[0] == 200
