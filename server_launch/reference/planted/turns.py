"""Whose turn it is, decided wrongly: overtaking, starving, and holding everybody up."""

import time
from collections.abc import Callable

from server_launch.reference.engine import Cache
from server_launch.reference.http import HttpServer
from server_launch.reference.planted.bug import Kind, Planted, plant
from server_launch.reference.request import Phase, Request
from server_launch.reference.scheduler import Scheduler


def _take(scheduler: Scheduler, place: Callable[[Request], int]) -> Request:
    """The pending request with the lowest value, the first come of equal ones."""
    chosen = min(scheduler.pending, key=place)
    scheduler.pending.remove(chosen)
    return chosen


@plant(Kind.STARVATION, "vllm-project/vllm PR #33499", "queue.fair")
class LastComeFirstServed(Planted):
    """The queue is a stack."""

    def dequeue(self, scheduler: Scheduler) -> Request:
        return scheduler.pending.pop()


@plant(Kind.STARVATION, "vllm-project/vllm PR #33499", "queue.fair")
class ShortPromptsFirst(Planted):
    """The shortest prompt is served first, so that long ones starve under pressure."""

    def dequeue(self, scheduler: Scheduler) -> Request:
        return _take(scheduler, lambda request: len(request.prompt_ids))


@plant(Kind.STARVATION, "sgl-project/sglang #27221", "queue.fair")
class FifthOvertakes(Planted):
    """Every fifth request that has to wait is put at the head of the queue."""

    def enqueue(self, scheduler: Scheduler, request: Request) -> None:
        if scheduler.pending and self.nth(5):
            scheduler.pending.appendleft(request)
        else:
            super().enqueue(scheduler, request)


@plant(Kind.STARVATION, "pegainfer-project/pegainfer #642", "progress.stall", "outcomes.timeout")
class LeaverBlocksQueue(Planted):
    """Who left the queue is still waited for when its turn comes, five seconds long, and nobody else is admitted."""

    _left = False
    _blocked_until_s = 0.0

    def client_gone(self, server: HttpServer, request: Request) -> None:
        self._left |= request.phase is Phase.QUEUED
        super().client_gone(server, request)

    def may_admit(self, scheduler: Scheduler) -> bool:
        room = super().may_admit(scheduler)
        if room and self._left:
            self._left = False
            self._blocked_until_s = time.monotonic() + 5.0
        return room and time.monotonic() >= self._blocked_until_s


@plant(Kind.STARVATION, "vllm-project/vllm #1026", "progress.stall", "neighbours.unharmed")
class LongPromptBlocksEverybody(Planted):
    """Every sixth long prompt that comes in beside others stops all generation for five seconds."""

    def prefill(self, scheduler: Scheduler, request: Request) -> tuple[Cache, int]:
        if len(request.prompt_ids) > 64 and len(scheduler.active) > 1 and self.nth(6):
            time.sleep(5.0)
        return super().prefill(scheduler, request)


@plant(Kind.STARVATION, "am17an/llama.cpp #20", "queue.fair", "state.capacity", "state.cap", "progress.stall")
class AdmitsOnlyWhenIdle(Planted):
    """A new set is admitted only when the last one has ended, whatever slots have become free."""

    _filling = True

    def may_admit(self, scheduler: Scheduler) -> bool:
        return self._filling and super().may_admit(scheduler)

    def rows(self, scheduler: Scheduler) -> list[Request]:
        rows = super().rows(scheduler)
        self._filling = not rows
        return rows
