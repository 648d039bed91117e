"""The whole server on the real two-rank engine: the same text in any company, and nothing hangs or stays when a rank is lost."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from tests.server_launch.reference.server import Client, Server, events, eventually, serving, texts

RANK_TIMEOUT_S = 1.0
OPTIONS = ("--rank-timeout-s", str(RANK_TIMEOUT_S))
PROMPTS = ["Hello", "The capital of France is", "def quicksort", "One two three", "Please say why", "A short story", "The moon", "Water"]
LONG = {"prompt": "Hello", "max_tokens": 3000, "ignore_eos": True}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("real"), *OPTIONS, engine=None) as running:
        yield running


@pytest.fixture
def own(start: Any) -> Callable[[], Any]:
    return lambda: start(*OPTIONS, "--drain-s", "0", engine=None)


def rank_of(server: Server) -> psutil.Process:
    [rank] = psutil.Process(server.pid).children()
    return rank


def stream_all(server: Server, count: int) -> list[Client]:
    """Streams that have all had their first token."""
    clients = [server.client() for _ in range(count)]
    for client in clients:
        client.send({**LONG, "stream": True})
    for client in clients:
        client.read_until(b"data: ")
    return clients


def test_eight_streams_together_give_the_text_that_each_gives_alone(real: Server) -> None:
    alone = [real.ask(prompt=prompt, max_tokens=24, ignore_eos=True)["choices"][0]["text"] for prompt in PROMPTS]
    clients = [real.client() for _ in PROMPTS]
    for client, prompt in zip(clients, PROMPTS, strict=True):
        client.send({"prompt": prompt, "max_tokens": 24, "ignore_eos": True, "stream": True})
    found = [texts(events(client.answer()[2])) for client in clients]
    assert ["".join(pieces) for pieces in found] == alone
    assert [len(pieces) for pieces in found] == [24] * len(PROMPTS)


def test_a_chat_and_a_long_prompt(real: Server) -> None:
    body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
    assert json.loads(real.client().exchange(body, path="/v1/chat/completions")[2])["usage"]["completion_tokens"] <= 8
    assert real.ask(prompt="word " * 1500, max_tokens=4, ignore_eos=True)["usage"]["completion_tokens"] == 4


def test_a_client_that_leaves_a_long_prefill_is_retired_without_a_token(real: Server) -> None:
    client = real.client()
    client.send({"prompt": "word " * 3000, "max_tokens": 500, "request_id": "in-prefill"})
    eventually(lambda: real.figure("vllm:num_requests_running") == 1, "prefill")
    client.leave("fin")
    line = real.trace("in-prefill")
    assert (line["terminal_reason"], line["decode_step_count"]) in (("disconnected", 0), ("cancelled", line["decode_step_count"]))
    assert line["completion_tokens"] < 500
    assert real.at_rest()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_rank_ends_everything_within_its_bound(own: Callable[[], Any], number: signal.Signals) -> None:
    with own() as server:
        rank = rank_of(server)
        clients = stream_all(server, 8)
        whole, queued = server.client(), server.client()
        whole.send(LONG)
        queued.send({**LONG, "stream": True})
        queued.read_until(b"\r\n\r\n")
        rank.send_signal(number)
        began_s = time.monotonic()
        for client in (*clients, queued):
            last = events(client.answer()[2])[-1]
            assert "rank" in json.loads(last)["error"]["message"]
        assert whole.answer()[0] == 503
        assert time.monotonic() - began_s < RANK_TIMEOUT_S + 4
        assert server.get("/health")[0] == 503
        assert server.client().exchange({"prompt": "Hello", "max_tokens": 1})[0] == 503
        assert {line["terminal_reason"] for line in server.traces()} == {"error"}
        server.terminate()
        assert server.wait() == 0
        assert not rank.is_running()


def test_a_rank_lost_while_idle_shows_in_health(own: Callable[[], Any]) -> None:
    with own() as server:
        rank_of(server).kill()
        eventually(lambda: server.get("/health")[0] == 503, "health says so", RANK_TIMEOUT_S + 4)
        assert server.client().exchange({"prompt": "Hello", "max_tokens": 1})[0] == 503


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_rank_outlives_the_server(own: Callable[[], Any], number: signal.Signals) -> None:
    with own() as server:
        rank = rank_of(server)
        stream_all(server, 1)
        server.process.send_signal(number)
        assert server.wait() == (0 if number is signal.SIGTERM else -signal.SIGKILL)
        eventually(lambda: not rank.is_running(), "rank 1 gone too")


def test_no_rank_outlives_a_start_that_is_broken_off() -> None:
    starting = subprocess.Popen([sys.executable, "-m", "server_launch.reference", "--port", "0"], stderr=subprocess.PIPE)
    [rank] = eventually(lambda: psutil.Process(starting.pid).children(), "rank 1 started")
    starting.terminate()
    _, said = starting.communicate(timeout=20)
    assert starting.returncode == 0
    assert b"Traceback" not in said
    eventually(lambda: not rank.is_running(), "rank 1 gone too")
