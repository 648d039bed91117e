"""The log in one pass: what is a crash, what is an error, what is only talk."""

import pytest

from analysis import log
from analysis.traces import PARSERS
from tests.analysis.traces.test_pegainfer import NONCE, line


def scan(*lines: str, end: str = "\n") -> log.LogReading:
    text = "\n".join(lines) + end
    return log.scan([each.encode() for each in text.splitlines(keepends=True)], PARSERS["pegainfer"], NONCE)


@pytest.mark.parametrize(
    "text",
    [
        "Traceback (most recent call last):",
        "thread 'tokio-runtime-worker' panicked at src/lib.rs:1:2:",
        "Segmentation fault (core dumped)",
        "received SIGSEGV",
        "RuntimeError: CUDA error: an illegal memory access",
        "Fatal Python error: Aborted",
        "fatal runtime error: stack overflow",
        "terminate called after throwing an instance of 'std::runtime_error'",
        "Uncaught exception in worker",
        "\x1b[31mTraceback\x1b[0m (most recent call last):",
    ],
)
def test_crashes_are_kept_with_their_line(text: str) -> None:
    summary = scan("INFO hello", text).summary
    assert len(summary.crashes) == 1 and summary.crashes[0].startswith("line 2: ")


@pytest.mark.parametrize("text", ["WARN non-fatal error, going on", "INFO GET /fatal 200", "INFO no panic", "request fatality rate 0"])
def test_words_that_only_look_like_a_crash_are_none(text: str) -> None:
    assert scan(text).summary.crashes == ()


def test_lines_at_error_level_are_counted() -> None:
    summary = scan(
        "2026 ERROR scheduler: x",
        "[ERROR] y",
        "\x1b[31mERROR\x1b[0m z",
        '{"level":"error"}',
        "CRITICAL:root:q",
        "INFO error rate 0",
        "INFO GET /ERROR 404",
    ).summary
    assert summary.error_count == 5


def test_shapes_fold_what_differs_between_requests() -> None:
    summary = scan(
        *(f"12:00:{index:02d} INFO took r{index:016x}w000n{index:08d}x in {index * 1.5} ms" for index in range(50)), "INFO once"
    ).summary
    assert summary.repeated[0][1] == 50 and summary.repeated[1] == ("INFO once", 1)
    assert summary.line_count == 51


def test_traces_are_no_part_of_the_talk_and_prose_about_them_is() -> None:
    reading = scan(line(), "INFO pegainfer_http_trace enabled", "pegainfer_http_trace {torn")
    assert reading.summary.trace_count == len(reading.traces) == 1 and len(reading.summary.unreadable) == 1
    assert reading.summary.line_count == 3 and len(reading.summary.repeated) == 1


def test_a_last_line_without_its_newline_is_torn_and_nobodys_fault() -> None:
    reading = scan("INFO x", line()[:-5], end="")
    assert "pegainfer_http_trace" in reading.summary.torn and reading.summary.unreadable == ()
    assert scan("INFO x", line(), end="").summary.torn == "" and scan("INFO x").summary.torn == ""
    assert scan("INFO x", "2026 INFO sched pegainf", end="").summary.torn == "2026 INFO sched pegainf"


def test_a_log_without_a_parser_has_no_traces() -> None:
    reading = log.scan([line().encode()], None, NONCE)
    assert reading.traces == () and reading.summary.line_count == 1


def test_endless_variety_does_not_fill_the_memory() -> None:
    reading = log.scan(
        (f"{'q' * (index % 7)}{chr(97 + index % 26)}{index:b}".translate(str.maketrans("01", "yz")).encode() for index in range(60_000)),
        None,
        NONCE,
    )
    assert reading.summary.line_count == 60_000
