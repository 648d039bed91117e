"""The server's view of one request: a terminal trace, as a profile's parser (traces/) read it from the server's log."""

from dataclasses import dataclass

from analysis.vocabulary import TerminalReason


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """One terminal record of the server. `None` means the server did not say; all `_unix_s` are on the server's clock."""

    line: int
    """Line number in the run's slice of the server log, from 1."""
    raw_id: str
    """The id as logged, decorations included."""
    request_id: str | None
    """Our id inside it; None when it is nobody's of this run."""
    child: str
    """What followed our id (`-0`, …): children of one request with n > 1 differ here."""
    reason: TerminalReason
    raw_reason: str
    finish_reason: str | None
    error: str | None
    queued_unix_s: float | None
    scheduled_unix_s: float | None
    prefill_done_unix_s: float | None
    first_token_unix_s: float | None
    terminal_unix_s: float | None
    queue_wait_ms: float | None
    scheduled_to_first_token_ms: float | None
    scheduled_to_terminal_ms: float | None
    prefill_ms: float | None
    first_decode_ms: float | None
    decode_total_ms: float | None
    decode_mean_ms: float | None
    decode_step_count: int | None
    batch_decode_steps: int | None
    singleton_decode_steps: int | None
    decode_batch_size_max: int | None
    prompt_tokens: int | None
    completion_tokens: int | None
    active_max: int | None
    pending_max: int | None
    active_at_terminal: int | None
    pending_at_terminal: int | None
    healthy_baseline: bool | None
