"""A clean server and its clients in virtual time: whole runs of any speed and size in a fraction of a second.

The scheduler is the plainest legal one: first come first served, prefill one by one, then one decode step for all. What
may differ between honest servers is an option. Nothing in it is random but what the seed gives.
"""

import random
from dataclasses import dataclass, field, replace
from typing import Any

from analysis.observation import HealthReading, LoopLag, Pace, StageMark
from analysis.record import RequestRecord
from analysis.vocabulary import Ending, Endpoint, Outcome, Phase, Role
from tests.analysis import build

PROMPTS = {f"short{index}": f"short prompt {index}" for index in range(6)} | {
    f"long{index}": f"long prompt {index} " * 30 for index in range(2)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Facts of an imaginary server; times in seconds."""

    gap_s: float = 0.01
    prefill_s: float = 0.01
    long_prefill_s: float = 0.05
    cap: int = 8
    chunk: int = 1
    """Tokens that ride in one event."""
    early_headers: bool = True
    """Headers come at once, not with the first token."""
    stall_s: float = 0.0
    """How long the machine stands still now and then."""
    stall_every: int = 400
    """Decode steps between two stalls, in the mean."""
    stall_noticed: bool = False
    """Our own clock notices the stalls."""
    newest_first: bool = False
    """A fault: last come, first served."""
    freeze_s: float = 0.0
    """A fault: everybody waits this long whenever a client leaves."""


@dataclass(slots=True, kw_only=True)
class Wish:
    """One request that a client means to send."""

    group: str
    role: Role = Role.NORMAL
    prompt: str = "short0"
    stream: bool = True
    tokens: int = 0
    """Leaves after so many tokens; 0 stays to the end."""
    dwell_s: float | None = None
    """Leaves after so long, before its first token."""
    hold_until: str | None = None
    """Stays and reads without end until all requests of this group have ended."""
    start_s: float = 0.0
    """Not before this time of the stage."""
    item: int = 0


@dataclass(slots=True, kw_only=True)
class Open:
    """A request on its way."""

    wish: Wish
    started: float
    queued: float
    scheduled: float | None = None
    made: int = 0
    events: list[float] = field(default_factory=list)
    done: bool = False


class Simulation:
    """Runs stages one after the other and collects a `build.Run`."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server, self.random, self.now = server, random.Random(seed), build.BEGIN_UNIX_S
        self.unit = round(min(48.0, max(12.0, 0.5 / server.gap_s)))
        self.run = build.Run()
        self.polled = self.now
        self.stages: list[Any] = []

    def stage(self, name: str, users: list[list[Wish]], looping: list[list[Wish]] | None = None, groups: tuple[Any, ...] = ()) -> None:
        """One stage: each user works through its list; looping ones repeat theirs until the others are done."""
        self.stages.append(build.stage(name, *groups, follow_ups=0 if name == "reference" else 1))
        self._mark(name, "begin")
        self._serve(name, users, looping or [])
        self._mark(name, "end")
        self._pass(1.0 + 2 * self.server.gap_s)
        if name != "reference":
            self._serve(name, [[Wish(group="follow_up", role=Role.FOLLOW_UP)]], [])

    def _mark(self, name: str, edge: str) -> None:
        self.run.observations.append(StageMark(at_unix_s=self.now, stage=name, edge=edge))

    def _pass(self, seconds: float) -> None:
        self.now += seconds
        while self.polled < self.now:
            self.polled += 0.5
            latency = 0.002 + self.random.random() * 0.01
            self.run.observations.append(HealthReading(at_unix_s=self.polled, stage="", status=200, latency_s=latency))

    def _serve(self, name: str, users: list[list[Wish]], looping: list[list[Wish]]) -> None:
        self.name, self.begin = name, self.now
        self.todo = [list(wishes) for wishes in users]
        self.loops, self.turn = looping, [0] * len(looping)
        self.busy: dict[int, Open] = {}
        self.pending: list[Open] = []
        self.active: list[Open] = []
        while any(self.todo) or any(key >= 0 for key in self.busy):
            self._send()
            self._admit()
            self._step()
        while self.pending or self.active:
            self._admit()
            self._step()

    def _send(self) -> None:
        for key, wishes in enumerate(self.todo):
            if wishes and key not in self.busy and self._ready(wishes[0]):
                self._open(key, wishes.pop(0))
        for index, wishes in enumerate(self.loops):
            if -1 - index not in self.busy:
                self._open(-1 - index, replace(wishes[self.turn[index] % len(wishes)], item=self.turn[index]))
                self.turn[index] += 1

    def _ready(self, wish: Wish) -> bool:
        held = [one for one in self.busy.values() if one.wish.hold_until]
        return self.now >= self.begin + wish.start_s and (wish.start_s == 0 or all(one.made for one in held))

    def _open(self, key: int, wish: Wish) -> None:
        started = self.now + self.random.random() * 1e-3
        self.busy[key] = Open(wish=wish, started=started, queued=started + 0.002)
        self.pending.append(self.busy[key])

    def _admit(self) -> None:
        self._leave_queue()
        self.pending.sort(key=lambda one: one.queued, reverse=self.server.newest_first)
        while self.pending and len(self.active) < self.server.cap:
            one = self.pending.pop(0)
            self._pass(max(one.queued - self.now, 0.0))
            one.scheduled = self.now
            self._pass(self.server.long_prefill_s if one.wish.prompt.startswith("long") else self.server.prefill_s)
            self.active.append(one)
            self._emit(one)
            self._leave_queue()

    def _leave_queue(self) -> None:
        for one in list(self.pending):
            if one.wish.dwell_s is not None and self.now >= one.started + one.wish.dwell_s:
                self.pending.remove(one)
                self._close(one)

    def _step(self) -> None:
        self._pass(self.server.gap_s * (0.9 + 0.2 * self.random.random()))
        if self.server.stall_s and self.random.random() < 1 / self.server.stall_every:
            self._pass(self.server.stall_s)
            if self.server.stall_noticed:
                self.run.observations.append(LoopLag(at_unix_s=self.now, worker=0, lag_s=self.server.stall_s))
        for one in list(self.active):
            self._emit(one)

    def _emit(self, one: Open) -> None:
        one.made += 1
        whole = self._limit(one)
        if one.made % self.server.chunk == 0 or one.made == whole:
            one.events.append(self.now + self.random.random() * 1e-3)
        if self._over(one, whole):
            self.active.remove(one)
            self._close(one)

    def _limit(self, one: Open) -> int | None:
        return None if one.wish.tokens or one.wish.hold_until or one.wish.dwell_s is not None else self.unit

    def _over(self, one: Open, whole: int | None) -> bool:
        if one.wish.hold_until:
            others = [each for each in self.busy.values() if each.wish.group == one.wish.hold_until]
            waiting = any(wish.group == one.wish.hold_until for wishes in self.todo for wish in wishes)
            return one.made >= 3_999 or (not waiting and all(each.queued < self.now - 0.2 for each in others) and one.made > 5)
        if one.wish.dwell_s is not None:
            return True
        return one.made == whole or bool(one.wish.tokens and len(one.events) >= one.wish.tokens)

    def _close(self, one: Open) -> None:
        key = next(key for key, each in self.busy.items() if each is one)
        del self.busy[key]
        stays = self._limit(one) is not None
        record = self.run.add(self._record(one, stays), traced=False)
        times = dict(queued_unix_s=one.queued, scheduled_unix_s=one.scheduled, completion_tokens=one.made)
        self.run.traces.append(build.trace(record, line=len(self.run.traces) + 1, **times))
        if not stays and self.server.freeze_s:
            self._pass(self.server.freeze_s)

    def _record(self, one: Open, stays: bool) -> RequestRecord:
        wish = one.wish
        events = tuple(round(at - one.started, 6) for at in one.events) if wish.stream else ()
        shown = one.made if stays else one.made // self.server.chunk * self.server.chunk
        end = max(self.now - one.started + 0.0011, events[-1] if events else 0.0)
        headers = 0.003 if self.server.early_headers and wish.stream else (events[0] if events else end if stays else None)
        gone = Outcome.CANCELLED if events else Outcome.DISCONNECTED
        return RequestRecord(
            request_id="", worker=0, sequence=0, stage=self.name, group=wish.group, item=wish.item, role=wish.role,
            endpoint=Endpoint.COMPLETIONS, stream=wish.stream, prompt=wish.prompt, max_tokens=self.unit if stays else 4000,
            fault="none" if stays else "cancel", row=None, started_unix_s=one.started, connected_s=0.001, sent_s=0.002, headers_s=headers,
            first_token_s=events[0] if events else None, last_token_s=events[-1] if events else None,
            cut_s=None if stays else end, ended_s=end,
            phase=Phase.FINISHED if stays else Phase.STREAMING, outcome=Outcome.COMPLETED if stays else gone,
            ending=Ending.NORMAL if stays else Ending.FIN, landed=not stays, status=200, content_type="text/event-stream",
            text="".join(f" {wish.prompt}{index:02d}" for index in range(shown)) if stays or wish.stream else "",
            finish_reason="length" if stays else None, prompt_tokens=len(PROMPTS[wish.prompt].split()) if stays else None,
            completion_tokens=one.made if stays else None, token_events=len(events), token_times_s=events,
        )  # fmt: skip


def whole_run(server: Server, seed: int) -> build.Run:
    """The quick scenario against this server."""
    sim = Simulation(server, seed)
    names = list(PROMPTS)
    cap = server.cap
    pick = sim.random.choice
    bystanders = build.group("bystanders", build.item(role=Role.BYSTANDER), loop=True)
    loops = [[Wish(group="bystanders", role=Role.BYSTANDER, prompt=pick(names)) for _ in range(5)] for _ in range(max(cap // 2, 1))]
    solo = [Wish(group="reference", role=Role.REFERENCE, prompt=name, stream=stream) for name in names for stream in (True, True, False)]
    sim.stage("reference", [solo])
    control = [
        [Wish(group="control", role=Role.CONTROL, prompt=pick(names), stream=pick((True, True, False)), item=step) for step in range(4)]
        for _ in range(cap + 2)
    ]
    sim.stage("control", control)
    leavers = [
        [Wish(group="cancelling", role=Role.FAULTY, prompt=pick(names), tokens=1 + step % 8, item=step) for step in range(10)]
        for _ in range(max(cap // 2, 2))
    ]
    sim.stage("cancel", leavers, loops, (bystanders,))
    holders = [[Wish(group="holders", role=Role.HOLDER, prompt=pick(names), hold_until="waiters")] for _ in range(cap)]
    waiters = [[Wish(group="waiters", prompt=pick(names), start_s=0.2 + 0.15 * index, item=index)] for index in range(max(2 * cap, 4))]
    gone = [[Wish(group="leavers", role=Role.FAULTY, dwell_s=0.05, start_s=0.21 + 0.1 * index, item=index)] for index in range(cap)]
    item = build.item()
    sim.stage("overload", holders + waiters + gone, None, (build.group("waiters", item, waits_for="holders:first_token", spacing_s=0.15),))
    sim.run.plan = build.plan(prompts=PROMPTS, stages=tuple(sim.stages), target=build.target(active_cap=cap, health_path="/health"))
    sim.run.observations.append(_pace(sim))
    return sim.run


def _pace(sim: Simulation) -> Pace:
    server = sim.server
    gap = server.gap_s * server.chunk
    return Pace(at_unix_s=sim.now, first_token_s=server.prefill_s, token_gap_s=gap, unit_tokens=sim.unit)
