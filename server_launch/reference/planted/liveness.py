"""Servers that look alive and make no progress, and requests that are accepted and never answered."""

import threading
import time
from collections.abc import Callable

from server_launch.reference.http import HttpServer
from server_launch.reference.planted.bug import Kind, Planted, plant
from server_launch.reference.request import Event, Piece, Request
from server_launch.reference.scheduler import Scheduler


@plant(Kind.NO_PROGRESS, "vllm-project/vllm #39863", "progress.stall", "health.honest", "outcomes.timeout")
class EngineHangs(Planted):
    """After thirty aborts the engine stands still for ever; health goes on answering 200."""

    def tick(self, scheduler: Scheduler) -> None:
        if self._counts["abort"] >= 30:
            threading.Event().wait()

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        self.nth(1, "abort")


@plant(Kind.NO_PROGRESS, "theroyallab/tabbyAPI #428", "outcomes.timeout", "progress.stall", "recovery.follow_up")
class HeadersAndNothingElse(Planted):
    """Once a stream was dropped, every twentieth request gets headers at the most, and no answer."""

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        self.nth(1, "abort")

    def accepted(self, server: HttpServer, request: Request) -> None:
        if self._counts["abort"] and self.nth(20):
            request.deliver = _nowhere


def _nowhere(_: Event) -> None:
    """Takes an event and tells nobody."""


@plant(Kind.NO_PROGRESS, "NVIDIA/TensorRT-LLM PR #12313", "outcomes.timeout", "progress.stall", "queue.overload")
class AbortBlocksAdmission(Planted):
    """After an abort nobody is admitted from the queue until another request arrives."""

    _blocked = False

    def may_admit(self, scheduler: Scheduler) -> bool:
        return not self._blocked and super().may_admit(scheduler)

    def enqueue(self, scheduler: Scheduler, request: Request) -> None:
        self._blocked = False
        super().enqueue(scheduler, request)

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        self._blocked = True


@plant(Kind.NO_PROGRESS, "vllm-project/vllm-metal #199", "progress.stall", "outcomes.timeout", "outcomes.normal")
class LongPromptFallsSilent(Planted):
    """Beside other requests, every third stream of a long prompt falls silent after four tokens."""

    def __init__(self) -> None:
        super().__init__()
        self._silent: set[str] = set()

    def rows(self, scheduler: Scheduler) -> list[Request]:
        rows = super().rows(scheduler)
        for request in rows:
            if len(rows) > 1 and len(request.tokens) == 4 and len(request.prompt_ids) > 64 and self.nth(3):
                self._silent.add(request.id)
        return [request for request in rows if request.id not in self._silent]


@plant(Kind.UNANSWERED, "vllm-project/production-stack #706", "outcomes.timeout", "outcomes.normal")
class FifteenthQueuedLost(Planted):
    """Of the requests that find the server full, every fifteenth is accepted and forgotten."""

    def enqueue(self, scheduler: Scheduler, request: Request) -> None:
        full = len(scheduler.active) >= scheduler.options.active_cap
        if not (full and self.nth(15)):
            super().enqueue(scheduler, request)


@plant(Kind.UNANSWERED, "vllm-project/vllm #18826", "outcomes.timeout", "queue.overload", "outcomes.normal")
class BeyondTwiceTheCapForgotten(Planted):
    """Beyond twice the cap requests are accepted and forgotten."""

    def enqueue(self, scheduler: Scheduler, request: Request) -> None:
        if len(scheduler.active) + len(scheduler.pending) < 2 * scheduler.options.active_cap:
            super().enqueue(scheduler, request)


@plant(Kind.UNANSWERED, "vllm-project/vllm-omni #2048", "outcomes.timeout", "outcomes.normal")
class SameMomentCollides(Planted):
    """Requests are kept under the time of their arrival: of two in the same few milliseconds the first is never answered."""

    _last: Request | None = None

    def enqueue(self, scheduler: Scheduler, request: Request) -> None:
        last, self._last = self._last, request
        if last is not None and last in scheduler.pending and _moment(last) == _moment(request):
            scheduler.pending.remove(last)
        super().enqueue(scheduler, request)


def _moment(request: Request) -> int:
    return int((request.timeline.queued_unix_s or 0.0) * 200)


@plant(Kind.UNANSWERED, "sgl-project/sglang #36876", "outcomes.timeout", "progress.stall", "outcomes.normal")
class AbortLosesNextFinish(Planted):
    """After every eighth abort the end of the next request is not passed on: all its text comes, and then nothing."""

    _owed = 0

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        self._owed += self.nth(8)

    def accepted(self, server: HttpServer, request: Request) -> None:
        if self._owed:
            self._owed -= 1
            request.deliver = _only_text(request)


def _only_text(request: Request) -> Callable[[Event], None]:
    deliver = request.deliver

    def filtered(event: Event) -> None:
        if isinstance(event, Piece):
            deliver(event)

    return filtered


@plant(Kind.UNANSWERED, "InternLM/lmdeploy #4776", "progress.stall", "recovery.follow_up", "outcomes.timeout")
class SessionHeldAfterAbort(Planted):
    """After the abort of an answer that is not streamed, the next request waits five seconds for the old session."""

    _held = False

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        self._held |= not request.call.stream

    def tick(self, scheduler: Scheduler) -> None:
        if self._held and scheduler.pending:
            self._held = False
            time.sleep(5.0)
