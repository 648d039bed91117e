"""`pegainfer_http_trace {json}`, anywhere in a log line: one JSON object for each request that ended.

Colours, prefixes and whatever follows the JSON do not matter. A line that announces a trace and does not hold a whole one,
with the types it should have, is handed back as unreadable: never skipped, never guessed.
"""

import json
import re
from typing import Any

from analysis import ids
from analysis.trace import TraceEvent
from analysis.vocabulary import TerminalReason

MARK = "pegainfer_http_trace"
_COLOUR = re.compile(r"\x1b\[[0-9;:]*[A-Za-z]")
_PROSE = re.compile(r"\s+[A-Za-z]")
_SHOWN = 300
_HUGE = 1e300
_DECODER = json.JSONDecoder()
_FLOATS = {
    "queued_unix_s": "queued_at_unix_s",
    "scheduled_unix_s": "scheduled_at_unix_s",
    "prefill_done_unix_s": "prefill_done_unix_s",
    "first_token_unix_s": "first_token_emit_unix_s",
    "terminal_unix_s": "terminal_unix_s",
    "queue_wait_ms": "queue_wait_ms",
    "scheduled_to_first_token_ms": "scheduled_to_first_token_ms",
    "scheduled_to_terminal_ms": "scheduled_to_terminal_ms",
    "prefill_ms": "prefill_ms",
    "first_decode_ms": "first_decode_ms",
    "decode_total_ms": "decode_total_ms",
    "decode_mean_ms": "decode_mean_ms",
}
_COUNTS = {
    "decode_step_count": "decode_step_count",
    "batch_decode_steps": "batch_decode_steps",
    "singleton_decode_steps": "singleton_decode_steps",
    "decode_batch_size_max": "decode_batch_size_max",
    "prompt_tokens": "prompt_tokens",
    "completion_tokens": "completion_tokens",
    "active_max": "active_set_size_max",
    "pending_max": "pending_queue_size_max",
    "active_at_terminal": "active_set_size_at_terminal",
    "pending_at_terminal": "pending_queue_size_at_terminal",
}
_WORDS = {word.value: word for word in TerminalReason if word is not TerminalReason.UNRECOGNISED}


def parse(line: str, number: int, nonce: str) -> tuple[list[TraceEvent], list[str]]:
    """The traces of a line (log lines of two threads may have run together), and what it announces but cannot be read."""
    rest = _COLOUR.sub("", line) if "\x1b" in line else line
    traces: list[TraceEvent] = []
    unreadable: list[str] = []
    while (at := rest.find(MARK)) >= 0:
        rest = rest[at + len(MARK) :]
        if _PROSE.match(rest):
            continue
        body = rest.lstrip(" \t:=")
        try:
            raw, end = _DECODER.raw_decode(body)
            traces.append(_event(raw, number, nonce))
            rest = body[end:]
        except (ValueError, RecursionError) as error:
            unreadable.append(f"line {number}: {error}: {body[:_SHOWN].rstrip()!r}")
    return traces, unreadable


def _event(raw: Any, number: int, nonce: str) -> TraceEvent:
    if not isinstance(raw, dict):
        raise ValueError("not an object")
    raw_id, word = _text(raw, "request_id"), _text(raw, "terminal_reason")
    if raw_id is None or word is None:
        raise ValueError("no request_id or no terminal_reason")
    raw.setdefault("active_set_size_max", raw.get("active_set_size"))
    found = ids.find(raw_id, nonce)
    values: dict[str, Any] = {ours: _number(raw, theirs) for ours, theirs in _FLOATS.items()}
    values |= {ours: _count(raw, theirs) for ours, theirs in _COUNTS.items()}
    return TraceEvent(
        line=number,
        raw_id=raw_id,
        request_id=found.request_id if found else None,
        child=found.child if found else "",
        reason=_WORDS.get(word, TerminalReason.UNRECOGNISED),
        raw_reason=word,
        finish_reason=_text(raw, "finish_reason"),
        error=_text(raw, "error"),
        healthy_baseline=_flag(raw, "healthy_baseline_after_terminal"),
        **values,
    )


def _text(raw: dict[str, Any], name: str) -> str | None:
    value = raw.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is {value!r}, not text")
    return value


def _flag(raw: dict[str, Any], name: str) -> bool | None:
    value = raw.get(name)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}, not true or false")
    return value


def _number(raw: dict[str, Any], name: str) -> float | None:
    value = raw.get(name)
    if value is None:
        return None
    if type(value) in (int, float) and -_HUGE < value < _HUGE:  # neither true, nor NaN, nor infinite
        return float(value)
    raise ValueError(f"{name} is {value!r}, not a number")


def _count(raw: dict[str, Any], name: str) -> int | None:
    value = _number(raw, name)
    if value is not None and not value.is_integer():
        raise ValueError(f"{name} is {value!r}, not a whole number")
    return None if value is None else int(value)
