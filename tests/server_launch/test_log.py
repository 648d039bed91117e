"""What a server logged during the run is copied, all of it and nothing else, whatever happens to the file."""

import os
import threading
import time
from pathlib import Path

import pytest

from analysis import ids
from server_launch.log import LogError, ServerLog

NONCE = "0123456789abcdef"
MARK = b"its_trace"


def lines(*numbers: int) -> str:
    return "".join(f"INFO its_trace cmpl-{ids.make(NONCE, 0, number)}-0 done\n" for number in numbers)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text("of another run\n")
    return path


def copied(log: ServerLog, path: Path) -> tuple[str, list[str]]:
    into = path.with_name("copy.log")
    problems = log.copy(into)
    return into.read_text(), problems


def test_only_what_was_written_since_is_copied(path: Path) -> None:
    log = ServerLog(path, MARK, time.sleep)
    append(path, "one\ntwo\n")
    assert copied(log, path) == ("one\ntwo\n", [])


def test_the_next_copy_begins_where_the_last_one_ended(path: Path) -> None:
    log = ServerLog(path, MARK, time.sleep)
    append(path, "one\n")
    copied(log, path)
    append(path, "two\n")
    assert copied(log, path) == ("two\n", [])


def test_a_rotated_log_is_copied_from_both_files_and_noted(path: Path) -> None:
    log = ServerLog(path, MARK, time.sleep)
    append(path, "one\n")
    path.rename(path.with_name("server.log.1"))
    append(path.with_name("server.log.1"), "two\n")
    path.write_text("three\n")
    text, problems = copied(log, path)
    assert text == "one\ntwo\nthree\n"
    assert len(problems) == 1 and "rotated" in problems[0]


def test_a_log_that_was_cut_is_copied_from_its_start_and_noted(path: Path) -> None:
    log = ServerLog(path, MARK, time.sleep)
    append(path, "lost\n")
    os.truncate(path, 0)
    append(path, "one\n")
    text, problems = copied(log, path)
    assert text == "one\n"
    assert len(problems) == 1 and "was cut" in problems[0]


def test_a_log_that_was_cut_and_has_grown_beyond_the_mark_again_is_noted_too(path: Path) -> None:
    log = ServerLog(path, MARK, time.sleep)
    os.truncate(path, 0)
    append(path, "one, and much more than there was before\n")
    text, problems = copied(log, path)
    assert text.startswith("one") and "was cut" in problems[0]


def test_a_log_that_was_removed_is_noted_and_what_is_left_of_it_copied(path: Path) -> None:
    log = ServerLog(path, MARK, time.sleep)
    append(path, "one\n")
    path.unlink()
    text, problems = copied(log, path.with_name("x"))
    assert text == "one\n" and "was removed" in problems[0]


def test_an_empty_log_may_fill_up(tmp_path: Path) -> None:
    path = tmp_path / "new.log"
    path.touch()
    log = ServerLog(path, MARK, time.sleep)
    append(path, "one\n")
    assert copied(log, path) == ("one\n", [])


@pytest.mark.parametrize("name", ["missing.log", "."])
def test_what_is_no_log_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(LogError, match="--server-log") as caught:
        ServerLog(tmp_path / name, MARK, time.sleep)
    assert "\n" not in str(caught.value)


def wanted(*numbers: int) -> set[str]:
    return {ids.make(NONCE, 0, number) for number in numbers}


def test_waiting_ends_once_each_request_has_a_trace_and_not_once_so_many_have(path: Path) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        append(path, lines(len(slept)))

    log = ServerLog(path, MARK, sleep)
    append(path, lines(7, 8, 9, 7))  # of others, as many as are waited for
    log.wait(wanted(1, 3), 60)
    assert len(slept) == 3


def test_a_line_that_only_names_a_request_is_no_trace(path: Path) -> None:
    log = ServerLog(path, MARK, lambda _: append(path, lines(0)))
    append(path, f"INFO admitted {ids.make(NONCE, 0, 0)}\n")
    log.wait(wanted(0), 60)
    assert "its_trace" in copied(log, path)[0]


def test_a_line_that_is_half_written_does_not_count_yet(path: Path) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        append(path, "\n")

    log = ServerLog(path, MARK, sleep)
    append(path, lines(0).rstrip("\n"))
    log.wait(wanted(0), 60)
    assert len(slept) == 1


def test_waiting_for_what_never_comes_is_bounded(path: Path) -> None:
    log = ServerLog(path, MARK, time.sleep)
    append(path, lines(0) + "its_trace cmpl-rffffffffffffffffw000n00000001x of another run\n")
    waiting = threading.Thread(target=log.wait, args=(wanted(0, 1), 0.5))
    waiting.start()
    waiting.join(timeout=30)
    assert not waiting.is_alive()
