"""The client's view of one request, and its line in a shard.

Writer and reader share this one definition. Times inside a request are seconds since its start on the monotonic clock;
only `started_unix_s` is wall clock, and it is used to join logs, never to measure.
"""

import json
from dataclasses import asdict, dataclass, fields
from types import UnionType
from typing import Any, get_args, get_origin

from analysis.vocabulary import Ending, Endpoint, ErrorKind, Outcome, Phase, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request, opened when it started and closed exactly once. `None` means "did not happen", never zero."""

    request_id: str
    worker: int
    """Index of the worker that sent it; 0 for a run without workers."""
    sequence: int
    """Number of the request on its worker, from 0 without gaps."""
    stage: str
    group: str
    """Name of the plan's group within the stage."""
    item: int
    """Index of the plan's item within the group; loops count on beyond the last item."""
    role: Role
    endpoint: Endpoint
    stream: bool
    prompt: str
    """Key of the prompt in the plan; equal keys on one endpoint are equal input."""
    max_tokens: int | None
    """As sent; None where a row of the catalogue sends something else."""
    fault: str
    """Name of the fault in faults/, `none` for a normal request."""
    row: str | None
    """Name of the row in the catalogue of bad requests."""

    started_unix_s: float
    connected_s: float | None = None
    sent_s: float | None = None
    """The whole request had been handed to the kernel."""
    headers_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    cut_s: float | None = None
    """We began to leave: nothing was read after this moment."""
    ended_s: float = 0.0

    phase: Phase = Phase.CONNECTING
    outcome: Outcome = Outcome.HARNESS_STOPPED
    error: ErrorKind = ErrorKind.NONE
    detail: str = ""
    """One line for a person: what exactly went wrong."""
    ending: Ending = Ending.NORMAL
    landed: bool = False
    """True when the fault did what it is named after (left before the end, in the phase it aims at)."""

    status: int | None = None
    content_type: str | None = None
    response_id: str | None = None
    text: str = ""
    text_sha256: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    """From usage, as the server counts."""
    completion_tokens: int | None = None
    """From usage, as the server counts."""
    token_events: int = 0
    """Number of events (or choices of a whole body) that carried text."""
    token_times_s: tuple[float, ...] = ()
    """Arrival of each event that carried text; empty for a whole body."""
    token_chars: tuple[int, ...] = ()
    """Length of the text after each event that carried text; empty for a whole body."""
    unread_bytes: int = 0
    """Bytes that lay in our receive buffer when we left."""
    problems: tuple[str, ...] = ()
    """Broken rules of the stream protocol, as `rule: what was seen`."""
    error_body: str = ""
    """First 2,000 characters of a refusal's body, or of an error event."""
    error_type: str | None = None
    """`error.type` (or `error.code`) of a refusal that parses as OpenAI's shape; None where it does not."""
    proof: str | None = None
    """For a catalogue row with a proof: `ok`, or what was not honoured."""
    reused: bool = False
    """Sent on a connection that had carried an earlier request."""

    def needs_trace(self, dwell_s: float) -> bool:
        """Whether the server must have a trace of it; `dwell_s` is how long a client has to stay to be noticed for certain."""
        if self.role is Role.BAD or self.outcome in (Outcome.REJECTED, Outcome.HARNESS_STOPPED):
            return False
        if self.outcome is Outcome.COMPLETED or self.first_token_s is not None:
            return True
        if self.outcome is Outcome.FAILED or self.sent_s is None:
            return False
        left_s = self.ended_s if self.cut_s is None else self.cut_s
        return left_s - self.sent_s >= dwell_s

    def line(self) -> str:
        """One JSON object without a newline."""
        return json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=True)

    @staticmethod
    def parse(line: str) -> "RequestRecord":
        """The record of one line. Raises ValueError for anything that is not a whole, known record."""
        try:
            raw = json.loads(line)
            return _typed(raw)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a request record: {error}") from error


_WORDS = {"role": Role, "endpoint": Endpoint, "phase": Phase, "outcome": Outcome, "error": ErrorKind, "ending": Ending}
_TUPLES = ("token_times_s", "token_chars", "problems")
_NAMES = frozenset(field.name for field in fields(RequestRecord))


def _allowed(hint: Any) -> tuple[type, ...]:
    """The Python types that JSON may give for an annotation; whole numbers stand for floats."""
    kinds = tuple(get_origin(each) or each for each in (get_args(hint) if isinstance(hint, UnionType) else (hint,)))
    return (*kinds, int) if float in kinds else kinds


_TYPES = {field.name: _allowed(field.type) for field in fields(RequestRecord)}


def _typed(raw: dict[str, Any]) -> RequestRecord:
    missing, unknown = _NAMES - raw.keys(), raw.keys() - _NAMES
    if missing or unknown:
        raise ValueError(f"not a request record: missing {sorted(missing)}, unknown {sorted(unknown)}")
    for name, word in _WORDS.items():
        raw[name] = word(raw[name])
    for name in _TUPLES:
        raw[name] = tuple(raw[name])
    wrong = sorted(name for name, allowed in _TYPES.items() if not isinstance(raw[name], allowed))
    if wrong:
        raise ValueError(f"not a request record: wrong type of {wrong}")
    return RequestRecord(**raw)
