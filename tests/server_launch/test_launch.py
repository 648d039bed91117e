"""A server that we start is there, or one line says why not; and nothing of it is ever left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import requests

from server_launch.launch import MARGIN_S, ROOT, Asked, LaunchError, Server, launch
from server_launch.profile import Profile
from tests.server_launch.processes import alive, until

STUB = ("{python}", "-m", "tests.server_launch.stub", "--port", "{port}", "--model", "{model}")


def profile(*more: str, **words: object) -> Profile:
    facts: dict[str, object] = {"name": "stub", "about": "a stub", "launch": (*STUB, *more), "ready_line": "^ready (.+)", "ready_s": 30.0}
    return Profile(**facts | {"stop_s": 5.0} | words)  # type: ignore[arg-type]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Server]]:
    servers: list[Server] = []
    yield servers
    for server in servers:
        server.stop()


def start(servers: list[Server], folder: Path, which: Profile, **asked: object) -> Server:
    server = launch(which, Asked(model="tiny", log=folder / "server.log", **asked), time.sleep)  # type: ignore[arg-type]
    servers.append(server)
    return server


def served(server: Server) -> str:
    return str(requests.get(server.url + "/v1/models", timeout=10).json()["data"][0]["id"])


def test_a_started_server_serves_and_its_pid_is_its_own(started: list[Server], tmp_path: Path) -> None:
    server = start(started, tmp_path, profile())
    assert served(server) == "tiny"
    assert "tests.server_launch.stub" in psutil.Process(server.pid).cmdline()
    assert server.exit_code() is None


def test_a_server_without_a_word_is_ready_once_its_path_answers(started: list[Server], tmp_path: Path) -> None:
    server = start(started, tmp_path, profile(ready_line="", ready_path="/health"))
    assert served(server) == "tiny"


def test_environment_port_options_and_extra_words_reach_the_server(started: list[Server], tmp_path: Path) -> None:
    which = profile(env={"STUB_WORD": "hello"}, launch_options={"active_cap": ["--key", "k{value}"]})
    server = start(started, tmp_path, which, options={"active_cap": 3, "context_length": None}, extra=("--ignore-term",), port=0)
    assert requests.get(server.url, timeout=10).status_code == 401
    assert requests.get(server.url, timeout=10, headers={"Authorization": "Bearer k3"}).status_code == 200
    assert "env hello" in server.log.read_text()


def test_stop_ends_it_politely_and_may_be_called_twice(started: list[Server], tmp_path: Path) -> None:
    server = start(started, tmp_path, profile())
    server.stop()
    server.stop()
    assert server.exit_code() == -signal.SIGTERM
    assert not alive(server.pid)


def test_a_server_that_does_not_listen_is_killed(started: list[Server], tmp_path: Path) -> None:
    server = start(started, tmp_path, profile("--ignore-term", stop_s=0.3))
    began_s = time.monotonic()
    server.stop()
    assert server.exit_code() == -signal.SIGKILL
    assert 0.3 <= time.monotonic() - began_s < MARGIN_S, "the keeper did it, and not we after having lost our patience with the keeper"
    assert not alive(server.pid)


def test_a_rank_in_a_session_of_its_own_does_not_survive_the_stop(started: list[Server], tmp_path: Path) -> None:
    server = start(started, tmp_path, profile("--orphan", str(tmp_path / "pid")))
    rank = int((tmp_path / "pid").read_text())
    assert alive(rank)
    server.stop()
    assert not alive(rank)


def test_a_stopped_process_is_ended_too(started: list[Server], tmp_path: Path) -> None:
    server = start(started, tmp_path, profile("--orphan", str(tmp_path / "pid"), stop_s=0.3))
    rank = int((tmp_path / "pid").read_text())
    os.kill(rank, signal.SIGSTOP)
    os.kill(server.pid, signal.SIGSTOP)
    server.stop()
    assert not alive(rank)
    assert not alive(server.pid)


def test_when_the_server_dies_its_ranks_go_and_its_signal_is_told(started: list[Server], tmp_path: Path) -> None:
    server = start(started, tmp_path, profile("--orphan", str(tmp_path / "pid")))
    os.kill(server.pid, signal.SIGSEGV)
    until(lambda: server.exit_code() is not None, "the end of the keeper")
    assert server.exit_code() == -signal.SIGSEGV
    assert not alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_when_whoever_started_it_is_killed(tmp_path: Path, how: signal.Signals) -> None:
    toml = tmp_path / "stub.toml"
    line = list((*STUB, "--orphan", str(tmp_path / "pid")))
    toml.write_text(f'about = "a stub"\nready_line = "^ready (.+)"\nstop_s = 5\nlaunch = {line!r}\n')
    command = [sys.executable, "-m", "server_launch", str(toml), "--log", str(tmp_path / "server.log")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as ours:
        assert ours.stdout is not None
        said = ours.stdout.readline()
        assert said.startswith("ready http://127.0.0.1:"), said
        server, rank = int(said.split("pid=")[1].split()[0]), int((tmp_path / "pid").read_text())
        ours.send_signal(how)
    assert ours.returncode == (0 if how == signal.SIGTERM else -how)
    until(lambda: not alive(server) and not alive(rank), "the end of server and rank")


def refusal(folder: Path, which: Profile, **asked: object) -> str:
    with pytest.raises(LaunchError) as caught:
        launch(which, Asked(model="tiny", log=folder / "server.log", **asked), time.sleep)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_early_end_is_one_line_with_the_code_and_the_end_of_the_log(tmp_path: Path) -> None:
    began_s = time.monotonic()
    said = refusal(tmp_path, profile("--exit", "7"))
    assert "ended with code 7 before it was ready" in said
    assert "RuntimeError: no weights in the folder" in said
    assert time.monotonic() - began_s < 25, "it must not wait for the deadline"


def test_an_early_end_by_a_signal_names_it(tmp_path: Path) -> None:
    assert "signal SIGABRT" in refusal(tmp_path, profile("--die-by", str(int(signal.SIGABRT))))


def test_a_server_that_is_never_ready_is_stopped_at_the_deadline(tmp_path: Path) -> None:
    said = refusal(tmp_path, profile("--silent", "--orphan", str(tmp_path / "pid"), ready_s=2.0))
    assert "not ready after 2 s: loading" in said
    assert not alive(int((tmp_path / "pid").read_text()))


def test_a_program_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    assert "no-such-server: No such file" in refusal(tmp_path, profile(launch=("no-such-server",)))


def test_a_profile_without_a_command_cannot_be_started(tmp_path: Path) -> None:
    assert "cannot be started from here" in refusal(tmp_path, profile(launch=()))


def test_a_missing_checkpoint_and_an_unknown_option_are_said_so(tmp_path: Path) -> None:
    assert "--model-path" in refusal(tmp_path, profile("{model_path}"))
    assert "does not say how to set active_cap" in refusal(tmp_path, profile(), options={"active_cap": 2})


def test_a_memory_limit_holds(tmp_path: Path) -> None:
    assert "MemoryError" in refusal(tmp_path, profile("--allocate-mib", "2000", memory_limit_gib=0.5))


def test_without_the_limit_the_same_server_starts(started: list[Server], tmp_path: Path) -> None:
    assert served(start(started, tmp_path, profile("--allocate-mib", "64", memory_limit_gib=None))) == "tiny"
