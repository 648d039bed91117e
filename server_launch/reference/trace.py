"""The trace of a request: what happened when, and the one log line that says so when the request is over."""

import json
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from server_launch.reference.request import Request

MARK = "pegainfer_http_trace"
_log = logging.getLogger("reference::scheduler")
_EPOCH_S = time.time() - time.monotonic()


def unix_now_s() -> float:
    """Seconds since 1970 on a clock that never steps back, so that the stamps of a trace are in order."""
    return _EPOCH_S + time.monotonic()


@dataclass(slots=True, kw_only=True)
class Timeline:
    """Stamps and step counts of one request; None: it never got there. A step that its client's leaving cut short is not counted."""

    queued_unix_s: float | None = None
    scheduled_unix_s: float | None = None
    prefill_done_unix_s: float | None = None
    first_token_unix_s: float | None = None
    terminal_unix_s: float | None = None
    first_decode_s: float | None = None
    decode_s: float = 0.0
    batch_steps: int = 0
    singleton_steps: int = 0
    batch_size_max: int = 0
    queued_moment: int = 0
    """Where in the history of active and pending sizes the request came in."""

    @property
    def step_count(self) -> int:
        """Decode steps this request took part in to the end."""
        return self.batch_steps + self.singleton_steps

    def add_step(self, duration_s: float, batch_size: int) -> None:
        """One decode step of this many rows."""
        if self.first_decode_s is None:
            self.first_decode_s = duration_s
        self.decode_s += duration_s
        self.batch_size_max = max(self.batch_size_max, batch_size)
        if batch_size > 1:
            self.batch_steps += 1
        else:
            self.singleton_steps += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Active and pending requests: the most during this request's life, and what was left just after it."""

    active_max: int
    pending_max: int
    active_now: int
    pending_now: int


def record(request: "Request", terminal_reason: str, finish_reason: str | None, sizes: Sizes, error: str | None) -> dict[str, Any]:
    """The trace of a request that just ended. Durations in milliseconds; null where one of the two moments never came."""
    line = request.timeline
    steps = line.step_count
    return {
        "request_id": request.id,
        "queued_at_unix_s": line.queued_unix_s,
        "scheduled_at_unix_s": line.scheduled_unix_s,
        "prefill_done_unix_s": line.prefill_done_unix_s,
        "first_token_emit_unix_s": line.first_token_unix_s,
        "terminal_unix_s": line.terminal_unix_s,
        "queue_wait_ms": _between_ms(line.queued_unix_s, line.scheduled_unix_s),
        "scheduled_to_first_token_ms": _between_ms(line.scheduled_unix_s, line.first_token_unix_s),
        "scheduled_to_terminal_ms": _between_ms(line.scheduled_unix_s, line.terminal_unix_s),
        "prefill_ms": _between_ms(line.scheduled_unix_s, line.prefill_done_unix_s),
        "first_decode_ms": None if line.first_decode_s is None else line.first_decode_s * 1e3,
        "decode_total_ms": line.decode_s * 1e3 if steps else None,
        "decode_mean_ms": line.decode_s * 1e3 / steps if steps else None,
        "decode_step_count": steps,
        "batch_decode_steps": line.batch_steps,
        "singleton_decode_steps": line.singleton_steps,
        "decode_batch_size_max": line.batch_size_max,
        "prompt_tokens": len(request.prompt_ids),
        "completion_tokens": len(request.tokens),
        "finish_reason": finish_reason,
        "terminal_reason": terminal_reason,
        "active_set_size": sizes.active_max,
        "active_set_size_max": sizes.active_max,
        "pending_queue_size_max": sizes.pending_max,
        "active_set_size_at_terminal": sizes.active_now,
        "pending_queue_size_at_terminal": sizes.pending_now,
        "healthy_baseline_after_terminal": sizes.active_now == 0 and sizes.pending_now == 0,
        "error": error,
    }


def write(line: dict[str, Any]) -> None:
    """Put one trace into the log."""
    _log.info("%s %s", MARK, json.dumps(line, separators=(",", ":")))


def _between_ms(begin_unix_s: float | None, end_unix_s: float | None) -> float | None:
    return None if begin_unix_s is None or end_unix_s is None else (end_unix_s - begin_unix_s) * 1e3
