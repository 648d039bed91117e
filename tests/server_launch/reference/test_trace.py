"""The trace line of a request: every field, and that its figures agree with what the client saw."""

import time
from typing import Any

import pytest

from tests.server_launch.reference.server import Server, events, eventually

FIELDS = {
    "request_id",
    "queued_at_unix_s",
    "scheduled_at_unix_s",
    "prefill_done_unix_s",
    "first_token_emit_unix_s",
    "terminal_unix_s",
    "queue_wait_ms",
    "scheduled_to_first_token_ms",
    "scheduled_to_terminal_ms",
    "prefill_ms",
    "first_decode_ms",
    "decode_total_ms",
    "decode_mean_ms",
    "decode_step_count",
    "batch_decode_steps",
    "singleton_decode_steps",
    "decode_batch_size_max",
    "prompt_tokens",
    "completion_tokens",
    "finish_reason",
    "terminal_reason",
    "active_set_size",
    "active_set_size_max",
    "pending_queue_size_max",
    "active_set_size_at_terminal",
    "pending_queue_size_at_terminal",
    "healthy_baseline_after_terminal",
    "error",
}
STAMPS = ("queued_at_unix_s", "scheduled_at_unix_s", "prefill_done_unix_s", "first_token_emit_unix_s", "terminal_unix_s")
DURATIONS = {
    "queue_wait_ms": ("queued_at_unix_s", "scheduled_at_unix_s"),
    "prefill_ms": ("scheduled_at_unix_s", "prefill_done_unix_s"),
    "scheduled_to_first_token_ms": ("scheduled_at_unix_s", "first_token_emit_unix_s"),
    "scheduled_to_terminal_ms": ("scheduled_at_unix_s", "terminal_unix_s"),
}


def assert_possible(line: dict[str, Any]) -> None:
    """What holds for every trace."""
    assert line.keys() == FIELDS
    stamps = [line[name] for name in STAMPS if line[name] is not None]
    assert stamps == sorted(stamps)
    for name, (begin, end) in DURATIONS.items():
        if line[begin] is None or line[end] is None:
            assert line[name] is None
        else:
            assert line[name] == pytest.approx((line[end] - line[begin]) * 1e3, abs=1e-3)
    assert line["decode_step_count"] == line["batch_decode_steps"] + line["singleton_decode_steps"] == max(0, line["completion_tokens"] - 1)
    assert line["active_set_size"] == line["active_set_size_max"] >= line["active_set_size_at_terminal"]
    assert line["pending_queue_size_max"] >= line["pending_queue_size_at_terminal"]
    rest = line["active_set_size_at_terminal"] == line["pending_queue_size_at_terminal"] == 0
    assert line["healthy_baseline_after_terminal"] == rest


def test_a_request_alone(server: Server) -> None:
    began_unix_s = time.time()
    server.ask(prompt="hello big world", max_tokens=6, request_id="alone")
    line = server.trace("alone")
    assert_possible(line)
    assert line["request_id"] == "cmpl-alone"
    assert (line["finish_reason"], line["terminal_reason"], line["error"]) == ("length", "completed_length", None)
    assert (line["prompt_tokens"], line["completion_tokens"]) == (3, 6)
    assert (line["singleton_decode_steps"], line["batch_decode_steps"], line["decode_batch_size_max"]) == (5, 0, 1)
    assert (line["active_set_size_max"], line["pending_queue_size_max"]) == (1, 1)
    assert line["healthy_baseline_after_terminal"] is True
    assert began_unix_s - 0.1 <= line["queued_at_unix_s"] <= line["terminal_unix_s"] <= time.time() + 0.1
    assert line["first_decode_ms"] >= 10
    assert line["decode_mean_ms"] == pytest.approx(line["decode_total_ms"] / 5)
    assert line["decode_total_ms"] <= line["scheduled_to_terminal_ms"]


def test_a_chat_is_decorated_as_one(server: Server) -> None:
    body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 2, "request_id": "talk"}
    assert server.client().exchange(body, path="/v1/chat/completions")[0] == 200
    assert server.trace("talk")["request_id"] == "chatcmpl-talk"


def test_requests_side_by_side_count_their_batch_steps(server: Server) -> None:
    clients = [server.client() for _ in range(3)]
    for number, client in enumerate(clients):
        client.send({"prompt": "hello", "max_tokens": 20, "request_id": f"side-{number}"})
    for client in clients:
        assert client.answer()[0] == 200
    lines = [server.trace(f"side-{number}") for number in range(3)]
    for line in lines:
        assert_possible(line)
        assert line["batch_decode_steps"] > 0
        assert line["decode_batch_size_max"] == 3
        assert line["active_set_size_max"] == 3


def test_a_stop_a_token_alone_and_no_token(server: Server) -> None:
    server.ask(prompt="end-soon", max_tokens=30, request_id="stops")
    server.ask(prompt="hello", max_tokens=1, request_id="one")
    server.ask(prompt="hello", max_tokens=0, request_id="none")
    stops, one, none = server.trace("stops"), server.trace("one"), server.trace("none")
    for line in (stops, one, none):
        assert_possible(line)
    assert (stops["finish_reason"], stops["terminal_reason"]) == ("stop", "completed_stop")
    assert (one["completion_tokens"], one["first_decode_ms"], one["decode_total_ms"], one["decode_mean_ms"]) == (1, None, None, None)
    assert (none["finish_reason"], none["terminal_reason"], none["completion_tokens"]) == ("length", "completed_length", 0)
    assert none["scheduled_at_unix_s"] is None


def test_a_client_that_left(server: Server) -> None:
    client = server.client()
    client.send({"prompt": "endless", "max_tokens": 3000, "stream": True, "request_id": "left"})
    client.read_until(b"data: ", count=5)
    client.leave("fin")
    line = server.trace("left")
    assert_possible(line)
    assert (line["finish_reason"], line["terminal_reason"], line["error"]) == (None, "cancelled", None)
    assert line["completion_tokens"] >= 5


def test_a_refusal_by_the_scheduler(server: Server) -> None:
    assert server.client().exchange({"prompt": "hello world", "temperature": 1, "request_id": "refused"})[0] == 400
    line = server.trace("refused")
    assert_possible(line)
    assert (line["finish_reason"], line["terminal_reason"]) == ("error", "rejected")
    assert "temperature" in line["error"]
    assert (line["prompt_tokens"], line["completion_tokens"], line["scheduled_at_unix_s"]) == (2, 0, None)
    assert line["queued_at_unix_s"] <= line["terminal_unix_s"]


def test_what_http_refuses_has_no_trace_and_all_else_exactly_one(server: Server) -> None:
    before = len(server.traces())
    for body in ({"prompt": 5}, {"prompt": "x", "n": 2}, {"prompt": "x", "model": "other"}, {"prompt": "x", "tempratur": 0}):
        assert server.client().exchange(body)[0] in (400, 404)
    for number in range(5):
        server.ask(prompt="hello", max_tokens=number)
    assert len(server.traces()) == before + 5


def test_the_line_is_in_the_log_before_the_client_has_the_end(server: Server) -> None:
    for number in range(20):
        found = events(server.client().exchange({"prompt": "hello", "max_tokens": 1, "stream": True, "request_id": f"end-{number}"})[2])
        assert found[-1] == "[DONE]"
        assert f'"cmpl-end-{number}"' in server.log()


def test_gauges_are_back_before_the_client_has_the_end(server: Server) -> None:
    eventually(server.at_rest, "rest")
    for _ in range(20):
        server.ask(prompt="hello", max_tokens=1)
        assert server.at_rest()


def test_an_id_with_any_characters_stays_one_line(server: Server) -> None:
    odd = 'quote" newline\n tab\t é✓ \\'
    server.ask(prompt="hello", max_tokens=1, request_id=odd)
    assert server.trace(odd)["terminal_reason"] == "completed_length"
