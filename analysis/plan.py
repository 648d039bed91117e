"""The plan of a run: what will be sent, and what must then have been seen, stated once as data.

A scenario (TOML) and a target become `plan.json` before the first request; the load shape and the users read it to act,
the judge reads it to know what to expect. Nothing else knows a scenario's numbers.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from analysis.vocabulary import Contract, Ending, Endpoint, Role


class PlanError(Exception):
    """A scenario or an option that cannot be planned; the text is one line that says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The facts on the server that planning and judging need, resolved from its profile and the command line."""

    profile: str
    base_url: str
    model: str
    active_cap: int | None
    """Requests that may be active at once; None where nobody said."""
    context_length: int | None
    request_id_in_body: bool
    """The body field `request_id` is honoured (and allowed)."""
    ignore_eos: bool
    """The body field `ignore_eos` is honoured (and allowed)."""
    batch_invariant: bool
    """Greedy text alone and in a batch is the same, by the server's own claim."""
    stream_refusal: str
    """Form in which a streaming request may be refused: `status` (4xx only) or `status_or_event`."""
    queue: str
    """What happens beyond the cap: `queued` or `queued_or_refused` (429/503)."""
    queued_leaver: str
    """When a client that left the queue must be retired: `at_once` (within a step) or `at_turn` (when its turn comes)."""
    health_path: str | None
    metrics_path: str | None
    running_gauge: str | None
    waiting_gauge: str | None
    gauges: str
    """`promised`, `optional` (used when present) or `none`."""
    trace: str | None
    """Name of the parser of the server's per-request log lines; None where there are none."""
    counts_aborts: bool = False
    """The server promises a counter that moves with every client that left."""
    launched: bool
    """The run started the server itself, so its process and its log are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One request to be sent. What depends on the server's pace (`max_tokens`) is filled in when it is sent."""

    role: Role
    endpoint: Endpoint
    stream: bool
    prompt: str
    size: str
    """`unit` (the run's normal length), `endless` (as much as the context allows, to be left), or a number of tokens."""
    fault: str
    ending: Ending
    """How to leave, for a fault that leaves."""
    tokens: int
    """For a fault that leaves after tokens: after how many; else 0."""
    row: str | None
    """Name of the catalogue row for a bad request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Users of one class that work through one list of items in a stage."""

    name: str
    user: str
    """Name of the Locust user class."""
    users: int
    """How many of them run at once over all workers."""
    items: tuple[Item, ...]
    min_count: int
    """Items beyond this many are skipped once the stage has run for its `budget_s`."""
    loop: bool
    """Repeat the items until every group without `loop` is done (for bystanders)."""
    waits_for: str | None
    """Milestone `group:phase` of the same stage that must be reached before the first item starts."""
    spacing_s: float
    """Intended time between the starts of two items (open loop); 0 starts one as soon as a user is free."""
    released_by: tuple[str, ...]
    """For holders: milestones after which they leave, once they have received `hold_tokens` more and `hold_s` went by."""
    hold_tokens: int
    hold_s: float
    needs: int
    """How many items have to have `landed` for the stage to have bitten; 0 asks for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A part of the run with one idea; the next begins when all its items are done, or its limit has passed."""

    name: str
    groups: tuple[Group, ...]
    budget_s: float
    limit_units: float
    """The stage is cut after this many deadlines of a request: a server that hangs cannot hang the run."""
    follow_ups: int
    """Clean requests, one after the other, once the stage is over and the server had time to settle."""
    watch_s: float
    """Seconds of quiet watching (health, process) after the follow-ups."""
    faulty: bool
    """False for stages in which nobody misbehaves: their figures are the control."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a row of the catalogue of bad requests may get from this server (the catalogue's contract, where the profile differs: its)."""

    contract: Contract
    why: str
    traced: bool
    """The scheduler may see it, so that a trace for it is no surprise (one is never required for a refusal)."""
    proof: str | None = None
    """Name of the proof that a served answer has to pass; None where this server does not promise what it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """One number of the judge, with the reason it is what it is."""

    value: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All of it. `prompts` maps a key to its text; `nonce` marks every request id of the run."""

    schema_version: int
    scenario: str
    seed: int
    nonce: str
    deadline_s: float | None
    """Deadline of one request in seconds as asked for; None scales it with the server's pace."""
    target: Target
    prompts: dict[str, str]
    rows: dict[str, Row]
    thresholds: dict[str, Threshold]
    stages: tuple[Stage, ...]

    def to_json(self) -> str:
        """The text of plan.json."""
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"

    @staticmethod
    def from_json(text: str) -> "Plan":
        """The plan in a plan.json. Raises ValueError for anything else."""
        try:
            return _plan(json.loads(text))
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a plan: {error}") from error


def _plan(raw: dict[str, Any]) -> Plan:
    raw["target"] = Target(**raw["target"])
    raw["rows"] = {name: Row(**{**row, "contract": Contract(row["contract"])}) for name, row in raw["rows"].items()}
    raw["thresholds"] = {name: Threshold(**entry) for name, entry in raw["thresholds"].items()}
    raw["stages"] = tuple(Stage(**{**stage, "groups": tuple(map(_group, stage["groups"]))}) for stage in raw["stages"])
    return Plan(**raw)


def _group(raw: dict[str, Any]) -> Group:
    return Group(**{**raw, "items": tuple(map(_item, raw["items"])), "released_by": tuple(raw["released_by"])})


def _item(raw: dict[str, Any]) -> Item:
    words = {"role": Role(raw["role"]), "endpoint": Endpoint(raw["endpoint"]), "ending": Ending(raw["ending"])}
    return Item(**{**raw, **words})
