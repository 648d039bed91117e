"""Clients that leave, in each phase, with FIN and RST, streaming or not: noticed without a write, retired for the right reason."""

import json
import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from tests.server_launch.reference.server import TALKATIVE, Client, Server, eventually, serving

HOW = ("fin", "rst", "half")
WAYS = list(product(HOW, (True, False)))
ENDLESS = {"prompt": "endless", "max_tokens": 3000}


@pytest.fixture(scope="module")
def slow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A step takes a minute, so nothing here can be noticed by waiting for a token."""
    with serving(tmp_path_factory.mktemp("slow"), "--step-interval-ms", "60000", "--active-cap", "1") as running:
        yield running


def hold(server: Server, count: int) -> list[Client]:
    """Take slots with streams that have had their first token."""
    holders = [server.client() for _ in range(count)]
    for holder in holders:
        holder.send({**ENDLESS, "stream": True})
        holder.read_until(b"data: ")
    return holders


def release(server: Server, holders: list[Client]) -> None:
    for holder in holders:
        holder.leave("fin")
    eventually(server.at_rest, "rest")


@pytest.mark.parametrize(("how", "stream"), WAYS)
def test_in_decode_it_is_a_cancel(slow_server: Server, how: str, stream: bool) -> None:
    request_id = f"decode-{how}-{stream}"
    generated = slow_server.figure("vllm:generation_tokens_total")
    client = slow_server.client()
    client.send({**ENDLESS, "stream": stream, "request_id": request_id})
    eventually(lambda: slow_server.figure("vllm:generation_tokens_total") == generated + 1, "the first token")
    client.leave(how)
    line = slow_server.trace(request_id)
    assert (line["terminal_reason"], line["finish_reason"]) == ("cancelled", None)
    assert (line["completion_tokens"], line["decode_step_count"]) == (1, 0)
    assert slow_server.at_rest()


@pytest.mark.parametrize(("how", "stream"), WAYS)
def test_in_the_queue_it_is_a_disconnect_and_the_request_is_never_scheduled(slow_server: Server, how: str, stream: bool) -> None:
    request_id = f"queue-{how}-{stream}"
    holders = hold(slow_server, 1)
    client = slow_server.client()
    client.send({**ENDLESS, "stream": stream, "request_id": request_id})
    eventually(lambda: slow_server.figure("vllm:num_requests_waiting") == 1, "queued")
    prompts = slow_server.figure("vllm:prompt_tokens_total")
    client.leave(how)
    line = slow_server.trace(request_id)
    assert line["terminal_reason"] == "disconnected"
    assert line["scheduled_at_unix_s"] is None
    assert line["active_set_size_at_terminal"] == 1
    release(slow_server, holders)
    assert slow_server.figure("vllm:prompt_tokens_total") == prompts


@pytest.mark.parametrize(("how", "stream"), WAYS)
def test_in_prefill_it_is_a_disconnect_after_which_no_step_is_run(server: Server, how: str, stream: bool) -> None:
    request_id = f"prefill-{how}-{stream}"
    client = server.client()
    client.send({"prompt": "slow", "max_tokens": 3000, "stream": stream, "request_id": request_id})
    eventually(lambda: server.figure("vllm:num_requests_running") == 1, "prefill")
    client.leave(how)
    line = server.trace(request_id)
    assert line["terminal_reason"] == "disconnected"
    assert line["scheduled_at_unix_s"] is not None
    assert (line["first_token_emit_unix_s"], line["completion_tokens"], line["decode_step_count"]) == (None, 0, 0)
    assert server.at_rest()


def test_only_the_one_that_left_is_retired(server: Server) -> None:
    alone = server.ask(prompt="neighbour", max_tokens=30)["choices"][0]["text"]
    neighbours = [server.client() for _ in range(2)]
    for neighbour in neighbours:
        neighbour.send({"prompt": "neighbour", "max_tokens": 30})
    for how in HOW:
        [leaver] = hold(server, 1)
        leaver.leave(how)
    for neighbour in neighbours:
        assert json.loads(neighbour.answer()[2])["choices"][0]["text"] == alone
    eventually(server.at_rest, "rest")


def test_leaving_before_the_body_is_whole_is_no_request_at_all(server: Server) -> None:
    before = len(server.traces())
    client = server.client()
    client.socket.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
    client.leave("fin")
    server.ask(prompt="after", max_tokens=1)
    assert len(server.traces()) == before + 1


@pytest.mark.parametrize(("how", "stream"), WAYS)
def test_with_a_second_request_pipelined_the_first_is_retired_and_no_other_starts(slow_server: Server, how: str, stream: bool) -> None:
    first, second = f"first-{how}-{stream}", f"second-{how}-{stream}"
    generated = slow_server.figure("vllm:generation_tokens_total")
    client = slow_server.client()
    client.send({**ENDLESS, "stream": stream, "request_id": first})
    eventually(lambda: slow_server.figure("vllm:generation_tokens_total") == generated + 1, "the first token")
    client.send({**ENDLESS, "stream": stream, "request_id": second})
    slow_server.get("/health")
    client.leave(how)
    assert slow_server.trace(first)["terminal_reason"] == "cancelled"
    assert slow_server.at_rest()
    assert second not in slow_server.log()


@pytest.mark.parametrize("how", HOW)
def test_behind_an_answer_that_nobody_reads_it_is_noticed_too(tmp_path: Path, how: str) -> None:
    with serving(tmp_path, *TALKATIVE) as server:
        server.unread("x").leave(how)
        assert server.trace("x")["terminal_reason"] == "cancelled"
        assert len(server.log().splitlines()) == 1


@pytest.mark.slow
def test_hundreds_of_aborts_leave_no_descriptor_thread_or_log_line_behind(tmp_path: Path) -> None:
    def figures(server: Server) -> tuple[int, int]:
        return len(os.listdir(f"/proc/{server.pid}/fd")), len(os.listdir(f"/proc/{server.pid}/task"))

    with serving(tmp_path, "--step-interval-ms", "1") as server:
        storm(server, 20)
        before, resident = figures(server), resident_bytes(server)
        storm(server, 400)
        eventually(lambda: all(now <= then for now, then in zip(figures(server), before, strict=True)), f"back at {before} (fds, threads)")
        assert resident_bytes(server) - resident < 16 * 2**20
        lines = server.log().splitlines()
        assert len(lines) == len(server.traces())
        assert sum(line["terminal_reason"] in ("cancelled", "disconnected") for line in server.traces()) >= 390


def storm(server: Server, count: int) -> None:
    """This many clients that leave, each in another way and at another moment."""
    for number in range(count):
        client = Client(server.port)
        client.send({**ENDLESS, "stream": number % 3 != 0})
        if number % 3 == 1:
            client.read_until(b"data: ", count=1 + number % 5)
        client.leave(HOW[number % 2])
    eventually(server.at_rest, "rest")


def resident_bytes(server: Server) -> int:
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
