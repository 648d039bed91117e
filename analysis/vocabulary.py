"""Every closed word of the project, one sentence each.

A worker imports this module, so it stays on the standard library. `docs/outcomes.md` is generated from it, and a test
keeps the two in step.
"""

from enum import IntEnum, StrEnum


class Outcome(StrEnum):
    """How a request ended, as its client saw it; exactly one for each request."""

    COMPLETED = "completed"
    """The whole answer came: a finish reason, its terminator, and nothing wrong on the way."""
    REJECTED = "rejected"
    """The server refused it with a 4xx, or with an error event where the profile allows that form."""
    CANCELLED = "cancelled"
    """We left after the first token had reached us."""
    DISCONNECTED = "disconnected"
    """We left before the first token had reached us."""
    FAILED = "failed"
    """The server broke the exchange: 5xx, cut, reset, error event, or bytes that are not the protocol."""
    TIMEOUT = "timeout"
    """The one deadline over the whole request passed."""
    HARNESS_STOPPED = "harness_stopped"
    """The run ended, or our own code broke, while the request was open: it proves nothing about the server."""


class Phase(StrEnum):
    """How far a request had got on the client's clock when it ended."""

    CONNECTING = "connecting"
    """No connection yet."""
    SENDING = "sending"
    """Connected; the request is not wholly handed to the kernel."""
    AWAITING_HEADERS = "awaiting_headers"
    """Request sent; no status line yet."""
    AWAITING_FIRST_TOKEN = "awaiting_first_token"
    """Status and headers are here; no text yet."""
    STREAMING = "streaming"
    """At least one token came, and no finish reason yet."""
    FINISHED = "finished"
    """A finish reason, a whole body, or a refusal came."""


class ErrorKind(StrEnum):
    """What was wrong with an exchange that did not complete; `none` where nothing was."""

    NONE = "none"
    """Nothing was wrong, or the client chose to leave."""
    REFUSED_CONNECTION = "refused_connection"
    """Nobody listened, or the connection could not be made."""
    RESET = "reset"
    """The server reset the connection."""
    CUT = "cut"
    """The server closed before the answer was whole."""
    SERVER_ERROR = "server_error"
    """A 5xx status."""
    ERROR_EVENT = "error_event"
    """A 200 stream that carried an error event."""
    PROTOCOL = "protocol"
    """Bytes that are not HTTP, not SSE, or not the JSON that was promised."""
    DEADLINE = "deadline"
    """The deadline of the whole request passed."""
    STOPPED = "stopped"
    """The run ended first."""
    HARNESS = "harness"
    """Our own code raised; the record says what."""


class TerminalReason(StrEnum):
    """How a request ended, as the server logged it."""

    COMPLETED_LENGTH = "completed_length"
    """All tokens that were asked for were made."""
    COMPLETED_STOP = "completed_stop"
    """End of sequence or a stop string came."""
    CANCELLED = "cancelled"
    """The client was found gone after the first token."""
    DISCONNECTED = "disconnected"
    """The client was found gone before the first token."""
    REJECTED = "rejected"
    """The scheduler refused it."""
    ERROR = "error"
    """The server itself failed."""
    UNRECOGNISED = "unrecognised"
    """A word this project does not know; the raw word is kept beside it."""


class Role(StrEnum):
    """What a request is for in the plan."""

    WARM_UP = "warm_up"
    """Wakes the server; judged for completion, never for speed."""
    REFERENCE = "reference"
    """Alone on the server: its text is the golden output of its prompt."""
    CONTROL = "control"
    """Fault-free load: what the server does when nobody misbehaves."""
    BYSTANDER = "bystander"
    """A normal request that runs beside faults and must not notice."""
    NORMAL = "normal"
    """A normal request under pressure, without being a bystander of a certain fault."""
    FAULTY = "faulty"
    """A client that leaves."""
    HOLDER = "holder"
    """Holds a slot until the stage releases it, then leaves."""
    BAD = "bad"
    """A row of the catalogue of bad and corner-case requests."""
    FOLLOW_UP = "follow_up"
    """A clean request, alone, after a stage."""


class Endpoint(StrEnum):
    """Which OpenAI endpoint a request goes to."""

    COMPLETIONS = "completions"
    """POST /v1/completions."""
    CHAT = "chat"
    """POST /v1/chat/completions."""
    OTHER = "other"
    """A path that a row of the catalogue names."""


class Ending(StrEnum):
    """How the client's side of a connection ended, as the client's kernel was told."""

    NORMAL = "normal"
    """The answer was read to its end; then closed or kept."""
    FIN = "fin"
    """Closed after reading all that had arrived: the server sees a FIN."""
    FIN_UNREAD = "fin_unread"
    """Closed with bytes still unread in our buffer: the kernel sends a reset after them."""
    RST = "rst"
    """Closed with SO_LINGER 0: the server sees a reset."""
    HALF_CLOSE = "half_close"
    """Our sending side was shut down; we kept reading."""
    BY_SERVER = "by_server"
    """The server closed or reset first."""


class Contract(StrEnum):
    """What a row of the catalogue may get as an answer."""

    MUST_REFUSE = "must_refuse"
    """Only a 4xx with an error body (or an error event, where the profile allows) will do."""
    EITHER = "either"
    """Refused or served, but never a 5xx, a hang, a cut or silence."""
    MUST_SERVE = "must_serve"
    """Legal: it has to be served, and its proof has to hold."""


class Status(StrEnum):
    """What one check says."""

    PASS = "pass"
    """The evidence was there and it was good."""
    FAIL = "fail"
    """The evidence shows a fault of the server."""
    UNKNOWN = "unknown"
    """Evidence that was promised is missing, or the check itself broke."""
    NOT_APPLICABLE = "not_applicable"
    """This server or scenario never promised the evidence; listed under what is not claimed."""


class ExitCode(IntEnum):
    """What the shell sees."""

    PASS = 0
    """Every question was answered, and well."""
    FAIL = 1
    """At least one check shows a fault of the server."""
    USAGE = 2
    """An option, a scenario, a profile, a model name or a log that cannot be used; one line says what to do."""
    UNKNOWN = 3
    """Nothing was found wrong, and evidence is missing: a server out of reach, a lost worker, a fault that never landed."""
    BROKEN = 4
    """The gate itself broke."""
