"""Trace lines: read wherever they stand, and never skipped when they cannot be read."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import ids
from analysis.trace import TraceEvent
from analysis.traces import PARSERS
from analysis.vocabulary import TerminalReason

NONCE = "00112233aabbccdd"
MINE = ids.make(NONCE, 0, 5)
WHOLE: dict[str, Any] = {
    "request_id": f"cmpl-{MINE}-0", "queued_at_unix_s": 10.0, "scheduled_at_unix_s": 10.5, "prefill_done_unix_s": 10.6,
    "first_token_emit_unix_s": 10.6, "terminal_unix_s": 11, "queue_wait_ms": 500.0, "scheduled_to_first_token_ms": 100.0,
    "scheduled_to_terminal_ms": 500.0, "prefill_ms": 100.0, "first_decode_ms": 9.8, "decode_total_ms": 400.0, "decode_mean_ms": 10.0,
    "decode_step_count": 30, "batch_decode_steps": 29, "singleton_decode_steps": 1, "decode_batch_size_max": 8, "prompt_tokens": 16,
    "completion_tokens": 31, "finish_reason": "length", "terminal_reason": "completed_length", "active_set_size": 8,
    "active_set_size_max": 8, "pending_queue_size_max": 4, "active_set_size_at_terminal": 3, "pending_queue_size_at_terminal": 1,
    "healthy_baseline_after_terminal": False, "error": None,
}  # fmt: skip


def line(**changes: Any) -> str:
    return "[2026-12-01T00:00:00Z INFO scheduler] pegainfer_http_trace " + json.dumps({**WHOLE, **changes})


def parse(text: str) -> tuple[list[TraceEvent], list[str]]:
    return PARSERS["pegainfer"].parse(text, 3, NONCE)


def one(text: str) -> TraceEvent:
    traces, unreadable = parse(text)
    assert not unreadable and len(traces) == 1
    return traces[0]


def test_a_whole_trace_is_read_with_all_its_figures() -> None:
    trace = one(line())
    assert (trace.request_id, trace.child, trace.line, trace.raw_id) == (MINE, "-0", 3, f"cmpl-{MINE}-0")
    assert (trace.reason, trace.raw_reason, trace.finish_reason, trace.error) == (
        TerminalReason.COMPLETED_LENGTH,
        "completed_length",
        "length",
        None,
    )
    assert (trace.queued_unix_s, trace.terminal_unix_s, trace.queue_wait_ms) == (10.0, 11.0, 500.0)
    assert (trace.completion_tokens, trace.active_max, trace.pending_at_terminal, trace.healthy_baseline) == (31, 8, 1, False)


@pytest.mark.parametrize(
    "text",
    [
        line() + " more words {}",
        line() + "\x1b[0m\r\n",
        line().replace("pegainfer_http_trace", "\x1b[1;32mpegainfer_http_trace\x1b[0m"),
        line().replace("pegainfer_http_trace {", "pegainfer_http_trace: {"),
        line().replace("pegainfer_http_trace {", "pegainfer_http_trace={"),
        "\ufffd\x00" + line(),
        "pegainfer_http_trace enabled\t" + line(),
    ],
)
def test_what_stands_around_a_trace_does_not_matter(text: str) -> None:
    assert one(text).request_id == MINE


def test_two_traces_that_ran_together_are_both_read() -> None:
    traces, unreadable = parse(line() + line(request_id="x"))
    assert [trace.request_id for trace in traces] == [MINE, None] and not unreadable


def test_absent_figures_are_none_never_zero() -> None:
    trace = one('pegainfer_http_trace {"request_id": "abc", "terminal_reason": "rejected"}')
    assert trace.request_id is None and trace.reason is TerminalReason.REJECTED
    assert (trace.completion_tokens, trace.queued_unix_s, trace.active_max) == (None, None, None)


def test_the_maximum_may_have_its_older_name() -> None:
    fields = {key: value for key, value in WHOLE.items() if key != "active_set_size_max"}
    assert one("pegainfer_http_trace " + json.dumps(fields)).active_max == 8


def test_an_unknown_reason_is_kept_word_by_word() -> None:
    trace = one(line(terminal_reason="evicted"))
    assert trace.reason is TerminalReason.UNRECOGNISED and trace.raw_reason == "evicted"
    assert one(line(terminal_reason="unrecognised")).reason is TerminalReason.UNRECOGNISED


@pytest.mark.parametrize("text", ["pegainfer_http_trace enabled", "the pegainfer_http_trace lines are on {}", "nothing"])
def test_prose_announces_no_trace(text: str) -> None:
    assert parse(text) == ([], [])


@pytest.mark.parametrize(
    "text",
    [
        "pegainfer_http_trace",
        "pegainfer_http_trace {",
        "pegainfer_http_trace [1]",
        'pegainfer_http_trace "x"',
        "pegainfer_http_trace {}",
        "pegainfer_http_trace " + "[" * 100_000,
        line()[:-1],
        line()[:-200],
        line(request_id=None),
        line(request_id=7),
        line(terminal_reason=None),
        line(terminal_reason=1),
        line(completion_tokens="12"),
        line(completion_tokens=1.5),
        line(completion_tokens=True),
        line(terminal_unix_s=float("nan")),
        line(terminal_unix_s=float("inf")),
        line(terminal_unix_s="now"),
        line(error={}),
        line(finish_reason=3),
        line(healthy_baseline_after_terminal="yes"),
        line(queue_wait_ms=[1.0]),
        line(prompt_tokens=10**400),
    ],
)
def test_what_announces_a_trace_and_cannot_be_read_is_counted(text: str) -> None:
    traces, unreadable = parse(text)
    assert not traces and len(unreadable) == 1 and unreadable[0].startswith("line 3: ")


def test_a_torn_trace_hides_not_the_one_behind_it() -> None:
    traces, unreadable = parse(line()[:200] + line())
    assert len(traces) == 1 and len(unreadable) == 1


def test_a_trace_cut_at_any_byte_is_unreadable_or_unannounced_and_never_half_read() -> None:
    text = line()
    begin = text.index("pegainfer_http_trace") + len("pegainfer_http_trace")
    for cut in range(begin, len(text)):
        traces, unreadable = parse(text[:cut])
        assert not traces and len(unreadable) == 1, cut


@given(st.text(), st.dictionaries(st.sampled_from(sorted(WHOLE)), st.none() | st.booleans() | st.integers() | st.floats() | st.text()))
def test_whatever_a_server_writes_one_announcement_is_one_trace_or_one_complaint(after: str, changes: dict[str, Any]) -> None:
    traces, unreadable = parse(line(**changes) + after.replace("pegainfer_http_trace", ""))
    assert len(traces) + len(unreadable) == 1
