"""The end of the process: a drain at SIGTERM, a lost rank, a bug in the scheduler, wrong options."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.server_launch.reference.server import STAND_IN, TALKATIVE, Server, events, eventually

LONG = {"prompt": "endless", "max_tokens": 3000}


def error_of(text: str) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(text)["error"]
    return error


def test_an_idle_server_ends_at_once(start: Any) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with start("--drain-s", "60") as server:
            server.process.send_signal(number)
            assert server.wait() == 0
            assert server.log() == ""


def test_a_drain_lets_requests_finish_and_refuses_new_ones(start: Any) -> None:
    with start("--step-interval-ms", "20", "--active-cap", "1", "--drain-s", "60") as server:
        active, queued, late = server.client(), server.client(), server.client()
        active.send({"prompt": "hello", "max_tokens": 60, "stream": True})
        active.read_until(b"data: ")
        queued.send({"prompt": "hello", "max_tokens": 2})
        eventually(lambda: server.figure("vllm:num_requests_waiting") == 1, "queued")
        server.terminate()
        eventually(lambda: server.get("/health")[0] == 503, "health says so")
        status, _, text = late.exchange({"prompt": "late", "max_tokens": 1})
        assert (status, error_of(text)["type"]) == (503, "server_error")
        found = events(active.answer()[2])
        assert (found[-1], len(found)) == ("[DONE]", 62)
        assert queued.answer()[0] == 200
        assert server.wait() == 0


def test_what_a_drain_cannot_finish_ends_with_an_error(start: Any) -> None:
    with start("--step-interval-ms", "20", "--active-cap", "2", "--drain-s", "0.2") as server:
        stream, whole, queued = server.client(), server.client(), server.client()
        for client, body in ((stream, {"stream": True}), (whole, {}), (queued, {"stream": True})):
            client.send({**LONG, **body})
            client.read_until(b"\r\n\r\n") if body else None
        eventually(lambda: server.figure("vllm:num_requests_waiting") == 1, "one queued, two active")
        server.terminate()
        found = events(stream.answer()[2])
        assert "shutting down" in error_of(found[-1])["message"]
        assert whole.answer()[0] == 503
        assert "shutting down" in error_of(events(queued.answer()[2])[-1])["message"]
        assert server.wait() == 0
        assert [line["terminal_reason"] for line in server.traces()] == ["error"] * 3
        assert "Traceback" not in server.log()


def test_a_second_signal_ends_the_drain(start: Any) -> None:
    with start("--step-interval-ms", "20", "--drain-s", "600") as server:
        client = server.client()
        client.send({**LONG, "stream": True})
        client.read_until(b"data: ")
        server.terminate()
        eventually(lambda: server.get("/health")[0] == 503, "draining")
        server.terminate()
        assert server.wait() == 0


def test_a_step_that_never_ends_cannot_hold_the_drain(start: Any) -> None:
    with start("--step-interval-ms", "86400000", "--drain-s", "0") as server:
        client = server.client()
        client.send({**LONG, "stream": True})
        client.read_until(b"data: ")
        server.terminate()
        assert server.wait() == 0


def test_an_engine_call_that_never_returns_cannot_hold_the_process(start: Any) -> None:
    with start("--drain-s", "0", "--rank-timeout-s", "0.1") as server:
        client = server.client()
        client.send({"prompt": "stuck", "max_tokens": 3})
        eventually(lambda: server.figure("vllm:num_requests_running") == 1, "prefill")
        server.terminate()
        assert client.answer()[0] == 503
        assert server.wait() == 1


def test_a_reader_that_does_not_read_cannot_hold_the_process(start: Any) -> None:
    with start("--drain-s", "0", *TALKATIVE) as server:
        server.unread("x")
        server.terminate()
        assert server.wait() == 0
        assert "Traceback" not in server.log()


@pytest.mark.parametrize(("prompt", "said"), [("die-in-decode", "rank"), ("lose-rank", "rank"), ("explode", "ZeroDivisionError")])
def test_a_failure_ends_every_request_and_the_process_can_still_be_stopped(start: Any, prompt: str, said: str) -> None:
    with start("--step-interval-ms", "20", "--active-cap", "3") as server:
        stream, whole, trigger = server.client(), server.client(), server.client()
        stream.send({**LONG, "stream": True})
        whole.send(LONG)
        eventually(lambda: server.figure("vllm:num_requests_running") == 2, "both active")
        trigger.send({"prompt": prompt, "max_tokens": 100})
        found = events(stream.answer()[2])
        assert said in error_of(found[-1])["message"]
        assert "[DONE]" not in found
        assert whole.answer()[0] == 503
        assert trigger.answer()[0] == 503
        assert server.get("/health")[0] == 503
        status, _, text = server.client().exchange({"prompt": "after", "max_tokens": 1})
        assert (status, error_of(text)["type"]) == (503, "server_error")
        assert server.at_rest()
        assert {line["terminal_reason"] for line in server.traces()} == {"error"}
        assert all(said in line["error"] for line in server.traces())
        server.terminate()
        assert server.wait() == 0


def command(*options: str) -> subprocess.CompletedProcess[str]:
    """What the server says to options that it cannot start with."""
    line = [sys.executable, "-m", "server_launch.reference", "--engine", STAND_IN, *options]
    return subprocess.run(line, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize(
    "options",
    [
        ("--port", "http"),
        ("--port", "70000"),
        ("--port", "-1"),
        ("--active-cap", "0"),
        ("--active-cap", "2.5"),
        ("--context-length", "1"),
        ("--rank-timeout-s", "0"),
        ("--drain-s", "-1"),
        ("--drain-s", "nan"),
        ("--step-interval-ms", "soon"),
        ("--ep-backend", "mpi"),
        ("--model-path", "/nowhere"),
        ("--served-model-name", ""),
        ("--plant", "no-such-bug"),
        ("--prot", "1"),
        ("--por", "1"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(options: tuple[str, ...]) -> None:
    done = command(*options)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert options[0].split("=")[0] in done.stderr


def test_a_port_that_is_taken_is_one_line_and_exit_code_1(server: Server) -> None:
    done = command("--port", str(server.port))
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "--port" in done.stderr


def test_an_engine_that_is_not_there_is_one_line_and_exit_code_1() -> None:
    done = command("--engine", "no.such:thing", "--port", "0")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)


def test_a_broken_checkpoint_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    done = command("--model-path", str(tmp_path), "--engine", "server_launch.reference.build:build", "--port", "0")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
