"""The HTTP side on the wire: shapes of good answers, ids, figures, and company that disturbs nobody."""

import json
import socket
import time
from typing import Any

import pytest

from tests.server_launch.reference import standin
from tests.server_launch.reference.asks import CHAT, CHAT_PATH, GOOD, HELLO_IDS, answer, with_field
from tests.server_launch.reference.server import DEADLINE_S, MODEL, Server, events, eventually, texts


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
