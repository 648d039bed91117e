"""A worker's share of the round under way: which item a free user takes next, and which milestones are reached.

Items wait for causes, not for clocks: a group can wait until all of another group have been sent or have a first token, and
holders leave only once they are released. Only open-loop spacing and the budget of a stage look at the time.
"""

import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import gevent
from gevent.event import Event

from analysis.plan import Group, Item, Plan
from users import rounds
from users.exchange import Release
from users.rounds import Round

POLL_S = 0.05
PHASES = ("sent", "first_token", "ended")


@dataclass(slots=True)
class _Work:
    """A group's part on this worker."""

    group: Group
    left: deque[int]
    users: int
    total: int
    min_count: int
    running: int = 0
    started: int = 0
    loops: int = 0
    last_start_s: float = float("-inf")
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PHASES, 0))

    @property
    def open(self) -> bool:
        """There is still something to start."""
        return bool(self.left)

    @property
    def done(self) -> bool:
        """All that it had to do is over."""
        return not self.left and not self.running


@dataclass(slots=True)
class Job:
    """One item, taken by a user. `index` counts on beyond the plan's items when a group loops."""

    round: Round
    group: Group
    item: Item
    index: int
    release: Release
    draw: random.Random
    _work: _Work
    _seen: set[str] = field(default_factory=set)


class Agenda:
    """One for each worker. `tell` sends `(kind, value)` to the master: `reached` a milestone, `worked`, `done`."""

    def __init__(self, plan: Plan, worker: int, tell: Callable[[str, int, str], None]) -> None:
        self.plan = plan
        self.worker = worker
        self._tell = tell
        self._round: Round | None = None
        self._works: list[_Work] = []
        self._began_s = 0.0
        self._reached: set[str] = set()
        self._told: set[str] = set()
        self._looping = True
        self._release = Release()
        self._changed = Event()

    # --- from the master -----------------------------------------------------------------------------------------

    def begin(self, new: Round) -> None:
        """A new round; what was left of the one before is dropped."""
        stage = self.plan.stages[new.stage]
        self._round, self._began_s = new, time.perf_counter()
        self._reached, self._told, self._looping, self._release = set(), set(), True, Release()
        self._works = []
        for group in rounds.groups(self.plan, stage, new.follow_up):
            mine = new.items.get(group.name, ())
            share = round(group.min_count * len(mine) / max(1, len(group.items)))
            self._works.append(
                _Work(group=group, left=deque(mine), users=new.users.get(group.name, 0), total=len(mine), min_count=share)
            )
        self._look()
        self._wake()

    def reach(self, number: int, milestone: str) -> None:
        """A milestone of a round was reached on all workers, or forced."""
        if not self._under_way(number):
            return
        self._reached.add(milestone)
        for work in self._works:
            if work.group.released_by and self._reached.issuperset(work.group.released_by) and self._release.at_s is None:
                self._release.at_s = time.perf_counter()
        self._wake()

    def end_loops(self, number: int) -> None:
        """Every group of a round that does not loop is done on all workers."""
        if not self._under_way(number):
            return
        self._looping = False
        for work in self._works:
            if work.group.loop:
                work.left.clear()
        self._look()

    def cut(self, number: int) -> None:
        """A round's time is over: start nothing more, release who holds."""
        if not self._under_way(number):
            return
        self._looping = False
        self._release.at_s = self._release.at_s or time.perf_counter()
        for work in self._works:
            work.left.clear()
        self._look()

    # --- from the users ------------------------------------------------------------------------------------------

    def take(self, user: str) -> Job:
        """The next item for a user of this class; waits for one."""
        while True:
            self._drop_over_budget()
            job = self._pick(user)
            if job is not None:
                return job
            self._changed.wait(POLL_S)

    def note(self, job: Job, phase: str) -> None:
        """A request got somewhere."""
        if job.round is not self._round or phase in job._seen:
            return
        job._seen.add(phase)
        job._work.counts[phase] += 1
        self._look()

    def end(self, job: Job) -> None:
        """A request is over, so it got wherever it could get."""
        for phase in PHASES:
            self.note(job, phase)
        job._work.running -= 1
        if job.round is self._round:
            self._look()
        self._wake()

    # --- inside --------------------------------------------------------------------------------------------------

    def _under_way(self, number: int) -> bool:
        """What is said of a round that is over means nothing for the next."""
        return self._round is not None and self._round.number == number

    def _pick(self, user: str) -> Job | None:
        now_s = time.perf_counter()
        for work in self._works:
            group = work.group
            if group.user != user or not work.open or work.running >= work.users:
                continue
            if group.waits_for is not None and group.waits_for not in self._reached:
                continue
            if now_s - work.last_start_s < group.spacing_s:
                continue
            return self._start(work, now_s)
        return None

    def _start(self, work: _Work, now_s: float) -> Job:
        assert self._round is not None
        index = work.left.popleft()
        if work.group.loop and self._looping:
            work.left.append(index)
        work.running, work.started, work.last_start_s = work.running + 1, work.started + 1, now_s
        number = index
        if work.group.loop:
            number += work.loops // max(1, work.total) * len(work.group.items)
            work.loops += 1
        draw = random.Random(f"{self.plan.seed}/{self._round.number}/{work.group.name}/{number}/{self.worker}")
        item = work.group.items[index]
        return Job(round=self._round, group=work.group, item=item, index=number, release=self._release, draw=draw, _work=work)

    def _drop_over_budget(self) -> None:
        if self._round is None or self._round.follow_up:
            return
        if time.perf_counter() - self._began_s < self.plan.stages[self._round.stage].budget_s:
            return
        dropped = False
        for work in self._works:
            while not work.group.loop and work.left and work.started >= work.min_count:
                work.left.pop()
                work.total, dropped = work.total - 1, True
        if dropped:
            self._look()

    def _look(self) -> None:
        """Tell what is newly reached here."""
        for work in self._works:
            for phase in PHASES:
                if not work.group.loop and work.counts[phase] >= work.total:
                    self._say("reached", f"{work.group.name}:{phase}")
        if all(work.done for work in self._works if not work.group.loop):
            self._say("worked", "")
            if not self._looping and all(work.done for work in self._works):
                self._say("done", "")

    def _say(self, kind: str, value: str) -> None:
        said = f"{kind}/{value}"
        if self._round is not None and said not in self._told:
            self._told.add(said)
            # not from here: locally the master's answer would come back before this state is settled
            gevent.spawn(self._tell, kind, self._round.number, value)

    def _wake(self) -> None:
        self._changed.set()
        self._changed.clear()
