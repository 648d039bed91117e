"""One generation request on its way through the scheduler: what was asked, how far it is, and what goes back."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from server_launch.reference.engine import Cache
from server_launch.reference.stops import StopFilter
from server_launch.reference.trace import Timeline


class Endpoint(StrEnum):
    """Which API shape a request came in, and its answer goes out."""

    COMPLETIONS = "completions"
    CHAT = "chat"


class Phase(StrEnum):
    """Where a request is; it only moves forward."""

    QUEUED = "queued"
    PREFILL = "prefill"
    DECODE = "decode"
    DONE = "done"


class FinishReason(StrEnum):
    """Why generation ended, in the API's words."""

    LENGTH = "length"
    STOP = "stop"
    ERROR = "error"


class TerminalReason(StrEnum):
    """How a request ended, in the trace's words."""

    COMPLETED_LENGTH = "completed_length"
    COMPLETED_STOP = "completed_stop"
    CANCELLED = "cancelled"
    DISCONNECTED = "disconnected"
    REJECTED = "rejected"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A body that passed validation. `max_tokens` None: as many as the context holds.

    `temperature`, `adapter` and `logprobs` are here for the scheduler to refuse.
    """

    endpoint: Endpoint
    prompt: str | tuple[int, ...]
    max_tokens: int | None
    stream: bool = False
    include_usage: bool = False
    stops: tuple[str, ...] = ()
    ignore_eos: bool = False
    temperature: float = 0.0
    logprobs: int = 0
    adapter: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of one new token (with what was held back before it, if anything)."""

    text: str
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """The last thing a request gets. `finish_reason` is None where the client left; `error` is set where the server failed."""

    finish_reason: FinishReason | None
    error: str | None = None


Event = Piece | Finish


@dataclass(slots=True, kw_only=True, eq=False)
class Request:
    """The scheduler's state of one request; only the scheduler changes it, under its lock."""

    id: str
    """The id as the trace and the response show it: `cmpl-…` or `chatcmpl-…`."""
    model: str
    call: Call
    prompt_ids: tuple[int, ...]
    max_tokens: int
    created_unix_s: int
    deliver: Callable[[Event], None]
    """Hands an event to the HTTP side; callable from any thread, never blocks."""
    timeline: Timeline = field(default_factory=Timeline)
    phase: Phase = Phase.QUEUED
    gone: bool = False
    """The client left; nothing more needs to be computed."""
    cache: Cache | None = None
    tokens: list[int] = field(default_factory=list)
    """Tokens generated and accepted so far, end of sequence included."""
    stops: StopFilter = field(default_factory=lambda: StopFilter(()))
