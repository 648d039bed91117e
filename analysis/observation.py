"""What the master noted beside the requests: stages, health, gauges, process figures, and its own condition.

One JSON object a line in `observations.jsonl`; `kind` names the class. Each carries the wall clock in `at_unix_s`.
"""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMark:
    """A stage began or ended. `edge` is `begin`, `end` (all items done) or `cut` (its time limit passed first)."""

    kind: ClassVar[str] = "stage"
    at_unix_s: float
    stage: str
    edge: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestone:
    """Every item of a group in a stage had reached a phase (`sent`, `first_token`, `ended`); or `forced` by the time limit."""

    kind: ClassVar[str] = "milestone"
    at_unix_s: float
    stage: str
    name: str
    forced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReading:
    """One GET of the health endpoint; `status` is None when no status line came, and `error` says why."""

    kind: ClassVar[str] = "health"
    at_unix_s: float
    stage: str
    status: int | None
    latency_s: float
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsReading:
    """One GET of the metrics endpoint. A series that is absent is absent from the dictionaries, never 0.

    `moment` is `sample` for the periodic reading; `settled` (after a stage, before its follow-up) and `poked` (after the
    follow-up) are readings at rest. `gauges` holds `running` and `waiting` under these names whatever the server calls
    them (summed over labels); `counters` the raw series names with their values summed over labels, except that a
    `finished_reason` label is kept as `name{reason}`.
    """

    kind: ClassVar[str] = "metrics"
    at_unix_s: float
    stage: str
    moment: str
    gauges: dict[str, float]
    counters: dict[str, float]
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReading:
    """Figures of the server's process and its children; `moment` as in MetricsReading. `pid` None: no such process any more."""

    kind: ClassVar[str] = "process"
    at_unix_s: float
    stage: str
    moment: str
    pid: int | None
    started_unix_s: float | None
    rss_bytes: int | None
    fd_count: int | None
    thread_count: int | None
    socket_count: int | None
    child_count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLag:
    """Our own event loop (or this machine) stood still for `lag_s` until `at_unix_s`: time in that window is not the server's."""

    kind: ClassVar[str] = "loop_lag"
    at_unix_s: float
    worker: int
    lag_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The server's own fault-free speed, measured alone: seconds to the first token and between tokens (medians)."""

    kind: ClassVar[str] = "pace"
    at_unix_s: float
    first_token_s: float
    token_gap_s: float
    unit_tokens: int
    """max_tokens of a normal request in this run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultMark:
    """Something done to the server rather than to a request (a signal to a rank, say)."""

    kind: ClassVar[str] = "fault"
    at_unix_s: float
    stage: str
    name: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerExit:
    """A server that this run launched ended by itself. `code` is negative for a signal."""

    kind: ClassVar[str] = "server_exit"
    at_unix_s: float
    stage: str
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerMark:
    """A worker joined, finished its shard (`closed`), went `missing`, or runs `other_revision`."""

    kind: ClassVar[str] = "worker"
    at_unix_s: float
    worker: int
    event: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Evidence that could not be collected, or a limit that our own side hit; one line for a person."""

    kind: ClassVar[str] = "problem"
    at_unix_s: float
    detail: str


Observation = (
    StageMark | Milestone | HealthReading | MetricsReading | ProcessReading | LoopLag | Pace | FaultMark | ServerExit | WorkerMark | Problem
)
_KINDS: dict[str, type[Any]] = {cls.kind: cls for cls in Observation.__args__}


def line(observation: Observation) -> str:
    """One JSON object without a newline."""
    return json.dumps({"kind": observation.kind, **asdict(observation)}, separators=(",", ":"))


def parse(text: str) -> Observation:
    """The observation of one line. Raises ValueError for anything that is not a whole, known one."""
    try:
        raw = json.loads(text)
        cls = _KINDS[raw.pop("kind")]
        unknown = raw.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"not an observation: unknown {sorted(unknown)}")
        parsed: Observation = cls(**raw)
        return parsed
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not an observation: {error}") from error
