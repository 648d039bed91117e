"""A server of somebody else: reached or not, the right model or not, and which process it is. Each refusal is one line."""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from server_launch.attach import AttachError, NotReachable, check_model, find_pid
from server_launch.launch import Asked, Server, launch
from server_launch.profile import Profile
from server_launch.target import Wanted, open_target
from tests.server_launch.test_launch import profile


def stub(folder: Path, *more: str, model: str = "tiny", **words: object) -> Server:
    return launch(profile(*more, **words), Asked(model=model, log=folder / "server.log"), time.sleep)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = stub(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def many(tmp_path: Path) -> Iterator[Server]:
    server = stub(tmp_path, "--key", "secret", model="one,two", ready_line="^ready (.+)")
    yield server
    server.stop()


KEY = {"Authorization": "Bearer secret"}


def test_the_only_model_is_taken_and_the_named_one_is_checked(server: Server) -> None:
    assert check_model(server.url, None, {}) == "tiny"
    assert check_model(server.url + "/", "tiny", {}) == "tiny"
    with pytest.raises(AttachError, match=r"model 'other' is not served at .*: use --model tiny"):
        check_model(server.url, "other", {})


def test_of_several_models_one_has_to_be_named(many: Server) -> None:
    assert check_model(many.url, "two", KEY) == "two"
    with pytest.raises(AttachError, match=r"say which model with --model: .* serves one, two"):
        check_model(many.url, None, KEY)


def test_a_wrong_key_is_said_so(many: Server) -> None:
    with pytest.raises(AttachError, match="--api-key"):
        check_model(many.url, "one", {})


def test_nobody_there_is_not_reachable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, and not listening
        with pytest.raises(NotReachable, match="start it, or correct --host") as caught:
            check_model(f"http://127.0.0.1:{unused.getsockname()[1]}", "tiny", {})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("address", ["127.0.0.1:8000", "ftp://127.0.0.1", "http://", "nonsense"])
def test_what_is_no_address_is_said_so(address: str) -> None:
    with pytest.raises(AttachError, match="--host"):
        check_model(address, "tiny", {})


def test_the_process_is_found_by_its_port(server: Server) -> None:
    assert find_pid(server.url) == server.pid
    assert find_pid(server.url.replace("127.0.0.1", "localhost")) == server.pid


def test_a_process_elsewhere_or_nowhere_is_not_found() -> None:
    assert find_pid("http://192.0.2.1:80") is None
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert find_pid(f"http://127.0.0.1:{unused.getsockname()[1]}") is None


def test_our_own_socket_is_found() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        assert find_pid(f"http://127.0.0.1:{listening.getsockname()[1]}") == os.getpid()


def test_a_socket_that_only_has_the_number_is_not_taken_for_a_server(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as ours:
        assert find_pid(f"http://127.0.0.1:{ours.getsockname()[1]}") is None


def wanted(which: Profile, host: str | None, **more: object) -> Wanted:
    words: dict[str, object] = {"model": None, "log": None, "pid": None, "active_cap": None, "context_length": None}
    return Wanted(profile=which, host=host, **words | more)  # type: ignore[arg-type]


def test_without_a_log_no_traces_are_promised(server: Server, tmp_path: Path) -> None:
    which = profile(trace="pegainfer", active_cap=8, context_length=4096)
    bare = open_target(wanted(which, server.url), tmp_path, {}, time.sleep)
    assert (bare.target.trace, bare.log, bare.target.launched, bare.pid) == (None, None, False, server.pid)
    logged = open_target(wanted(which, server.url, log=server.log, active_cap=3, pid=1), tmp_path, {}, time.sleep)
    assert (logged.target.trace, logged.target.active_cap, logged.target.context_length, logged.pid) == ("pegainfer", 3, 4096, 1)
    bare.close()
    assert server.exit_code() is None, "a server of somebody else is not ours to stop"


def test_a_launched_target_is_known_and_stopped(tmp_path: Path) -> None:
    opened = open_target(wanted(profile(trace="pegainfer", model="own"), None), tmp_path / "run", {}, time.sleep)
    assert (opened.target.model, opened.target.launched, opened.target.trace) == ("own", True, "pegainfer")
    assert opened.exit_code() is None
    opened.close()
    assert opened.exit_code() is not None
