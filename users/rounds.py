"""A round: what the master asks the workers to do at once, and what they know then about the server's pace.

A stage is one round of its groups, then one of its follow-ups. Rounds travel as JSON in Locust's own messages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from analysis.plan import Group, Item, Plan, Stage
from analysis.vocabulary import Ending, Role
from users.lessons import Lesson

FOLLOW_UP = "follow_up"
FLOOR_S = 20.0
"""No deadline is shorter: a machine that stands still for seconds is no fault of a server."""
WARM_UP_S = 180.0
"""Deadline before anything is known about the server's pace; a first request may load kernels or weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """What is known of the server's fault-free pace; zeros before the warm-up."""

    first_token_s: float = 0.0
    token_gap_s: float = 0.0
    unit_tokens: int = 0

    @property
    def unit_s(self) -> float:
        """How long a normal request takes alone."""
        return self.first_token_s + self.unit_tokens * self.token_gap_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One worker's part of a round: per group, the indexes of its items and how many users may work on them at once."""

    number: int
    stage: int
    follow_up: bool
    items: Mapping[str, tuple[int, ...]]
    users: Mapping[str, int]
    deadline_s: float
    speed: Speed
    lessons: tuple[Lesson, ...] = ()

    def message(self) -> dict[str, Any]:
        """For the wire."""
        return asdict(self)

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """From the wire. Raises TypeError, KeyError or ValueError for anything else."""
        items = {str(name): tuple(map(int, indexes)) for name, indexes in raw["items"].items()}
        users = {str(name): int(count) for name, count in raw["users"].items()}
        learned = tuple(map(Lesson.parse, raw["lessons"]))
        return cls(**{**raw, "items": items, "users": users, "speed": Speed(**raw["speed"]), "lessons": learned})


def groups(plan: Plan, stage: Stage, follow_up: bool) -> Sequence[Group]:
    """The groups of a round."""
    return (follow_up_group(plan, stage),) if follow_up else stage.groups


def follow_up_group(plan: Plan, stage: Stage) -> Group:
    """Clean requests, alone, one after the other: prompts, endpoints and modes that have a reference."""
    known = [item for each in plan.stages for group in each.groups for item in group.items if item.role is Role.REFERENCE] or [
        item for each in plan.stages for group in each.groups for item in group.items if item.role in (Role.CONTROL, Role.NORMAL)
    ]
    streamed, whole = [item for item in known if item.stream], [item for item in known if not item.stream]
    pools = (streamed or known, whole or known)
    place = plan.stages.index(stage)
    chosen = [pools[number % 2][(place + number) % len(pools[number % 2])] for number in range(stage.follow_ups)]
    items = tuple(
        Item(role=Role.FOLLOW_UP, endpoint=item.endpoint, stream=item.stream, prompt=item.prompt, size="unit", fault="none",
             ending=Ending.NORMAL, tokens=0, row=None)
        for item in chosen
    )  # fmt: skip
    return Group(
        name=FOLLOW_UP, user="NormalUser", users=1, items=items, min_count=len(items), loop=False, waits_for=None, spacing_s=0.0,
        released_by=(), hold_tokens=0, hold_s=0.0, needs=0,
    )  # fmt: skip


def deadline_s(plan: Plan, stage: Stage, follow_up: bool, speed: Speed) -> float:
    """Deadline of a request in this round: many times what the work of all of its users would take one set after the other."""
    if plan.deadline_s is not None:
        return plan.deadline_s
    if not speed.unit_tokens:
        return WARM_UP_S
    users = 1 if follow_up else sum(group.users for group in stage.groups)
    turns = 2 + users / (plan.target.active_cap or 8)
    return max(FLOOR_S, 6 * turns * speed.unit_s)
