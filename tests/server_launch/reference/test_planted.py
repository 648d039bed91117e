"""The planted bugs: a registry that keeps its promises, and a sample of servers that do what their sentence says."""

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from analysis.checks import CHECKS
from server_launch.reference.planted import UnknownPlant, load
from server_launch.reference.planted.bug import Bug, Kind, Planted
from server_launch.reference.planted.catalogue import PLANTED
from tests.server_launch.reference.server import Server, events, eventually, texts

Start = Callable[..., AbstractContextManager[Server]]
STEP = ("--step-interval-ms", "5")
each_bug = pytest.mark.parametrize("bug", PLANTED.values(), ids=PLANTED)


def test_there_are_many_bugs_of_every_kind() -> None:
    kinds = Counter(bug.kind for bug in PLANTED.values())
    assert len(PLANTED) >= 80
    assert {kind: count for kind, count in kinds.items() if count < 3} == {}
    assert set(kinds) == set(Kind)


@each_bug
def test_a_bug_is_described(bug: Bug) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", bug.name)
    assert bug.sentence.endswith(".") and len(bug.sentence) > 20
    assert re.fullmatch(r"[\w.-]+/[\w.-]+ (PR )?#\d+", bug.source)
    assert type(load(bug.name)) is bug.seams and issubclass(bug.seams, Planted)


def test_names_and_sentences_are_unique() -> None:
    assert len({bug.sentence for bug in PLANTED.values()}) == len({bug.seams for bug in PLANTED.values()}) == len(PLANTED)


@each_bug
def test_a_bug_names_checks_that_exist(bug: Bug) -> None:
    assert bug.checks
    assert set(bug.checks) <= {check.id for check in CHECKS}


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownPlant, match="abort-ignored"):
        load("no-such-bug")


def stream(server: Server, **body: Any) -> list[str]:
    """The events of a stream that is read to its end."""
    status, _, text = server.client().exchange({"prompt": "one two", "max_tokens": 8, "stream": True, **body})
    assert status == 200
    return events(text)


def leave(server: Server, token_count: int = 2, **body: Any) -> None:
    """A client that leaves a long stream after some tokens, seen by the server."""
    client = server.client()
    client.send({"prompt": "three four", "max_tokens": 2000, "stream": True, "request_id": f"leaver{len(server.clients)}", **body})
    client.read_until(b"data: ", token_count)
    client.leave("fin")


def test_done_twice_acts_on_every_tenth_stream(start: Start) -> None:
    with start(*STEP, "--plant", "done-twice") as server:
        assert [stream(server).count("[DONE]") for _ in range(10)] == [1] * 9 + [2]


def test_an_ignored_abort_keeps_running(start: Start) -> None:
    with start(*STEP, "--plant", "abort-ignored") as server:
        leave(server)
        first = server.figure("vllm:generation_tokens_total")
        eventually(lambda: server.figure("vllm:generation_tokens_total") > first + 100, "a hundred tokens for nobody")
        assert server.figure("vllm:num_requests_running") == 1 and server.traces() == []


def test_a_late_abort_computes_thirty_steps(start: Start) -> None:
    with start(*STEP, "--plant", "abort-thirty-steps-late") as server:
        leave(server, request_id="late")
        assert 31 <= server.trace("late")["completion_tokens"] < 60


def test_the_next_request_continues_the_text_of_the_fourth_cancelled_one(start: Start) -> None:
    with start(*STEP, "--plant", "next-continues-cancelled") as server:
        golden = texts(stream(server))
        for _ in range(4):
            leave(server)
            eventually(server.at_rest, "the leaver is retired")
        assert texts(stream(server)) != golden
        assert texts(stream(server)) == golden


def test_the_fifteenth_cancel_takes_a_slot_that_no_gauge_shows(start: Start) -> None:
    with start(*STEP, "--active-cap", "2", "--plant", "fifteenth-cancel-leaks-slot") as server:
        for _ in range(15):
            leave(server)
            eventually(server.at_rest, "the leaver is retired")
        holder = server.client()
        holder.send({"prompt": "five six", "max_tokens": 3000, "stream": True})
        holder.read_until(b"data: ", 2)
        server.client().send({"prompt": "seven", "max_tokens": 2, "stream": True})
        eventually(lambda: server.figure("vllm:num_requests_waiting") == 1, "the second of two slots is gone")


def test_a_neighbour_loses_a_token_at_the_fourth_cancel(start: Start) -> None:
    with start("--step-interval-ms", "10", "--plant", "cancel-swallows-neighbours-token") as server:
        golden = texts(stream(server, max_tokens=400))
        neighbour = server.client()
        neighbour.send({"prompt": "one two", "max_tokens": 400, "stream": True})
        neighbour.read_until(b"data: ", 2)
        for _ in range(4):
            leave(server)
        found = texts(events(neighbour.answer()[2]))
        assert len(found) == len(golden) - 1 and set(found) <= set(golden)


def test_every_tenth_trace_of_a_finished_request_is_missing(start: Start) -> None:
    with start(*STEP, "--plant", "tenth-trace-missing") as server:
        for _ in range(20):
            stream(server, max_tokens=1)
        eventually(server.at_rest, "everything ended")
        assert len(server.traces()) == 18


def test_a_refusal_is_not_one_any_more(start: Start) -> None:
    with start(*STEP, "--plant", "refusal-is-500") as server:
        assert server.client().exchange({"prompt": "one", "max_tokens": -1})[0] == 500
        assert server.client().exchange({"prompt": "one", "max_tokens": 1})[0] == 200


def test_a_restart_leaves_another_process_on_the_same_port(start: Start) -> None:
    with start(*STEP, "--plant", "restart-as-another") as server:
        for _ in range(30):
            leave(server)
        server.wait()
        restarted = eventually(lambda: _pid_of_ready_line(server), "the new process is ready")
        try:
            assert restarted != server.pid
            assert server.ask(prompt="one", max_tokens=2)["usage"]["completion_tokens"] == 2
        finally:
            os.kill(restarted, signal.SIGKILL)


def _pid_of_ready_line(server: Server) -> int | None:
    assert server.process.stdout is not None
    match = re.search(r"pid=(\d+)", server.process.stdout.readline())
    return int(match[1]) if match else None


def test_json_of_a_stream_has_an_id_for_each_chunk(start: Start) -> None:
    with start(*STEP, "--plant", "id-per-chunk") as server:
        found = [json.loads(data)["id"] for data in stream(server) if data != "[DONE]"]
        assert len(set(found)) == len(found) == 9
