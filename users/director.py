"""The master's hand: deals the items of each round to the workers, announces milestones, and goes on when all are done.

It owns the order of a run and nothing else: stage, settle, reading, follow-ups, reading, quiet watch; then the shards are closed.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import gevent
from gevent.event import Event

from analysis.observation import Milestone, Observation, Pace, Problem, StageMark, WorkerMark
from analysis.plan import Group, Plan, Stage
from users import lessons, rounds
from users.lessons import Lesson
from users.rounds import Round, Speed

_log = logging.getLogger("gate")
UNIT_WORK_S = 0.5
"""A normal request is this long, as far as the limits below allow."""
UNIT_TOKENS = (12, 48)
FOOTER_LIMIT_S = 15.0
HOPELESS_TIMEOUTS = 8
"""So many deadlines passed: the verdict is certain, and every further stage would take minutes."""
LOOK_S = 0.5
"""How often it is looked whether a worker is gone."""


class Fleet(Protocol):
    """The workers, as Locust knows them."""

    def seats(self) -> Mapping[str, Mapping[str, int]]:
        """Users by class for each worker, by the name that `send` takes."""

    def send(self, kind: str, data: dict[str, Any], worker: str | None = None) -> None:
        """A message to one worker, or to all."""


class Watcher(Protocol):
    """Whoever reads the server between rounds."""

    def settle(self, stage: str) -> None:
        """Wait until the server is at rest, as far as that can be seen, within a bound."""

    def reading(self, stage: str, moment: str) -> None:
        """Read gauges and process figures at rest."""

    def watch(self, stage: str, seconds: float) -> None:
        """Look on quietly for so long."""

    def now_in(self, stage: str) -> None:
        """A stage began: readings from now on belong to it."""


@dataclass(slots=True)
class _Running:
    """The round under way, as far as the workers told."""

    number: int
    stage: Stage
    workers: set[int]
    reached: dict[str, set[int]] = field(default_factory=dict)
    worked: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    over: Event = field(default_factory=Event)


@dataclass(slots=True)
class Director:
    """One for each run. `run` is the body of a greenlet on the master."""

    plan: Plan
    fleet: Fleet
    watcher: Watcher
    observe: Callable[[Observation], None]
    speed: Speed = field(default_factory=Speed)
    timeouts: int = 0
    """Requests that ran into their deadline so far."""
    _running: _Running | None = None
    _number: int = 0
    _lessons: list[Lesson] = field(default_factory=list)
    _news: list[Lesson] = field(default_factory=list)
    _cut: bool = False

    def run(self) -> None:
        """All stages, in order; what comes after a stage in which the server stopped answering would only wait for deadlines."""
        for stage in self.plan.stages:
            self._stage(stage)
            if hopeless := self._hopeless():
                self.observe(Problem(at_unix_s=time.time(), detail=f"{hopeless}: the stages after {stage.name} were not run"))
                break

    def progress(self, worker: int, number: int, kind: str, value: str, learned: Sequence[Lesson] = ()) -> None:
        """A worker told something about its part of a round."""
        running = self._running
        self._news += learned
        if running is None or running.number != number or worker not in running.workers:
            return
        if kind == "reached":
            running.reached.setdefault(value, set()).add(worker)
            if running.reached[value] >= running.workers:
                self._announce(running, value, forced=False)
        elif kind == "worked":
            running.worked.add(worker)
            if running.worked >= running.workers:
                self.fleet.send("gate_end_loops", {"round": number})
        elif kind == "done":
            running.done.add(worker)
            if running.done >= running.workers:
                running.over.set()

    def lost(self, worker: int) -> None:
        """A worker is gone: nobody waits for it any more."""
        running = self._running
        if running is None or worker not in running.workers:
            return
        running.workers.discard(worker)
        for name, by in list(running.reached.items()):
            if by >= running.workers:
                self._announce(running, name, forced=True)
        if running.worked >= running.workers:
            self.fleet.send("gate_end_loops", {"round": running.number})
        if running.done >= running.workers:
            running.over.set()

    def _hopeless(self) -> str:
        """Why further stages would only wait for deadlines; empty while they would not."""
        if self.timeouts >= HOPELESS_TIMEOUTS:
            return f"{self.timeouts} requests ran into their deadline"
        if (self.timeouts or self._cut) and not self.speed.unit_tokens:
            return "no request was answered in time, so that the server's pace is not known"
        return ""

    # --- a stage -------------------------------------------------------------------------------------------------

    def _stage(self, stage: Stage) -> None:
        _log.info("stage %d of %d: %s", self.plan.stages.index(stage) + 1, len(self.plan.stages), stage.name)
        self.watcher.now_in(stage.name)
        self._mark(stage, "begin")
        self._round(stage, follow_up=False)
        self._learn()
        self._mark(stage, "cut" if self._cut else "end")
        if stage.follow_ups:
            self.watcher.settle(stage.name)
            self.watcher.reading(stage.name, "settled")
            self._round(stage, follow_up=True)
            self.watcher.settle(stage.name)  # gauges may lag behind the follow-up too
            self.watcher.reading(stage.name, "poked")
        if stage.watch_s:
            self.watcher.watch(stage.name, stage.watch_s)

    def _round(self, stage: Stage, follow_up: bool) -> None:
        limit_s = rounds.deadline_s(self.plan, stage, follow_up, self.speed)
        groups = rounds.groups(self.plan, stage, follow_up)
        parts = deal(groups, self.fleet.seats())
        self._number += 1
        running = _Running(number=self._number, stage=stage, workers={_index(name) for name in parts})
        self._running, self._cut = running, False
        for name, share in parts.items():
            part = Round(
                number=self._number, stage=self.plan.stages.index(stage), follow_up=follow_up, items=share.items, users=share.users,
                deadline_s=limit_s, speed=self.speed, lessons=tuple(self._lessons),
            )  # fmt: skip
            self.fleet.send("gate_round", part.message(), name)
        if not self._wait(running, stage.limit_units * limit_s):
            self._cut = True
            self.fleet.send("gate_cut", {"round": running.number})
            self._wait(running, 3 * limit_s + 5)
        self._running = None

    def _wait(self, running: _Running, limit_s: float) -> bool:
        until_s = time.monotonic() + limit_s
        while time.monotonic() < until_s:
            if running.over.wait(LOOK_S):
                return True
            for worker in running.workers - {_index(name) for name in self.fleet.seats()}:
                self.observe(WorkerMark(at_unix_s=time.time(), worker=worker, event="missing", detail="lost in the middle of a stage"))
                self.lost(worker)
        return False

    def _announce(self, running: _Running, name: str, forced: bool) -> None:
        self.observe(Milestone(at_unix_s=time.time(), stage=running.stage.name, name=name, forced=forced))
        self.fleet.send("gate_milestone", {"round": running.number, "name": name})

    def _mark(self, stage: Stage, edge: str) -> None:
        self.observe(StageMark(at_unix_s=time.time(), stage=stage.name, edge=edge))

    def _learn(self) -> None:
        """New solo measurements: the warm-up fixes the length of normal requests, the reference the pace of the run."""
        news, self._news = self._news, []
        self._lessons += news
        pace = lessons.pace(news)
        if pace is None:
            return
        first_token_s, token_gap_s = pace
        unit = self.speed.unit_tokens or unit_tokens(token_gap_s)
        self.speed = Speed(first_token_s=first_token_s, token_gap_s=token_gap_s, unit_tokens=unit)
        self.observe(Pace(at_unix_s=time.time(), first_token_s=first_token_s, token_gap_s=token_gap_s, unit_tokens=unit))


def unit_tokens(token_gap_s: float) -> int:
    """Length of a normal request: about half a second of decoding, within limits that keep it telling and bearable."""
    low, high = UNIT_TOKENS
    return max(low, min(high, round(UNIT_WORK_S / max(token_gap_s, 1e-6))))


@dataclass(slots=True)
class Share:
    """One worker's part of a round: per group, the indexes of its items and how many users work on them."""

    items: dict[str, tuple[int, ...]] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)


def deal(groups: Sequence[Group], seats: Mapping[str, Mapping[str, int]]) -> dict[str, Share]:
    """Each worker's share, so that over the fleet users and items of each group are those of the plan.

    Users go one by one to the worker with the most free seats of their class; items follow the users in turn.
    """
    free = {name: dict(classes) for name, classes in seats.items()}
    shares = {name: Share() for name in sorted(seats)}
    for group in groups:
        owners: list[str] = []
        for _ in range(group.users):
            name = max(sorted(free), key=lambda each: free[each].get(group.user, 0), default=None)
            if name is None or free[name].get(group.user, 0) <= 0:
                break
            free[name][group.user] -= 1
            owners.append(name)
        for name in set(owners):
            shares[name].users[group.name] = owners.count(name)
            shares[name].items[group.name] = tuple(i for i in range(len(group.items)) if owners[i % len(owners)] == name)
    return shares


def _index(name: str) -> int:
    """Workers are named by their index on the way here."""
    return int(name)


def wait_for_footers(closed: Callable[[], bool]) -> bool:
    """Wait for the last shard to close, within a bound."""
    until = time.monotonic() + FOOTER_LIMIT_S
    while not closed():
        if time.monotonic() >= until:
            return False
        gevent.sleep(0.05)
    return True
