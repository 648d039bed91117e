"""Caps that are missed on either side, pressure that is answered wrongly, and damage that it leaves behind."""

import time

from starlette.types import ASGIApp, Receive, Scope, Send

from server_launch.reference.errors import ApiError, unavailable
from server_launch.reference.http import HttpServer
from server_launch.reference.planted import wire
from server_launch.reference.planted.bug import Kind, Planted, plant
from server_launch.reference.request import Finish, FinishReason, Request
from server_launch.reference.scheduler import Scheduler


@plant(Kind.OVERLOAD, "vllm-project/vllm PR #53936", "state.cap", "trace.figures", "state.capacity")
class CapExceededByOne(Planted):
    """One request more than the cap becomes active."""

    def may_admit(self, scheduler: Scheduler) -> bool:
        return len(scheduler.active) <= scheduler.options.active_cap


@plant(Kind.OVERLOAD, "vllm-project/production-stack #612", "state.cap", "state.capacity")
class CapShrunkByOne(Planted):
    """One slot of those that are promised is never used."""

    def may_admit(self, scheduler: Scheduler) -> bool:
        return len(scheduler.active) + 1 < max(2, scheduler.options.active_cap)


@plant(Kind.OVERLOAD, "sgl-project/sglang #31206", "state.capacity")
class CapNeverRecovers(Planted):
    """Once more than the cap were waiting, two slots stay shut for ever."""

    _shut = 0

    def may_admit(self, scheduler: Scheduler) -> bool:
        return len(scheduler.active) + self._shut < scheduler.options.active_cap

    def enqueue(self, scheduler: Scheduler, request: Request) -> None:
        super().enqueue(scheduler, request)
        if len(scheduler.pending) > scheduler.options.active_cap:
            self._shut = min(2, scheduler.options.active_cap - 1)


@plant(Kind.OVERLOAD, "vllm-project/production-stack #612", "outcomes.accepted", "outcomes.normal")
class TurnsAwayWithFreeSlots(Planted):
    """Every twelfth request gets a 503 although slots are free."""

    def refusal(self, scheduler: Scheduler, request: Request) -> ApiError | None:
        free = len(scheduler.active) + len(scheduler.pending) < scheduler.options.active_cap
        return unavailable("no available workers") if free and self.nth(12) else super().refusal(scheduler, request)


@plant(Kind.OVERLOAD, "sgl-project/sglang #25811", "outcomes.accepted", "outcomes.normal")
class RefusalsOpenBreaker(Planted):
    """After every fourth refusal a circuit breaker turns everybody away for a second."""

    _open_until_s = 0.0

    def refusal(self, scheduler: Scheduler, request: Request) -> ApiError | None:
        if time.monotonic() < self._open_until_s:
            return unavailable("no available workers")
        error = super().refusal(scheduler, request)
        if error is not None and self.nth(4):
            self._open_until_s = time.monotonic() + 1.0
        return error


@plant(Kind.OVERLOAD, "sgl-project/sglang PR #31802", "queue.overload", "outcomes.normal", "stream.content", "stream.protocol")
class OverloadIsEmptyAnswer(Planted):
    """A request that finds more than the cap waiting gets a 200 with no text and the finish reason stop."""

    def enqueue(self, scheduler: Scheduler, request: Request) -> None:
        if len(scheduler.pending) > scheduler.options.active_cap:
            request.deliver(Finish(FinishReason.STOP))
        else:
            super().enqueue(scheduler, request)


@plant(Kind.OVERLOAD, "HabanaAI/vllm-fork #1426", "queue.overload", "outcomes.normal")
class OverloadDropsConnections(Planted):
    """While more than the cap are waiting, new connections are dropped."""

    def wrap(self, app: ASGIApp, server: HttpServer) -> ASGIApp:
        async def dropping(scope: Scope, receive: Receive, send: Send) -> None:
            if wire.generating(scope) and len(server.scheduler.pending) > server.options.active_cap:
                wire.transport(scope).abort()
            else:
                await app(scope, receive, send)

        return dropping


@plant(Kind.OVERLOAD, "huggingface/text-generation-inference #2842", "recovery.follow_up", "progress.stall")
class SlowAfterOverload(Planted):
    """Once more than the cap were waiting, every step takes ten times as long."""

    _slow = False

    def enqueue(self, scheduler: Scheduler, request: Request) -> None:
        super().enqueue(scheduler, request)
        self._slow |= len(scheduler.pending) > scheduler.options.active_cap

    def decode(self, scheduler: Scheduler, rows: list[Request]) -> list[int]:
        if self._slow:
            time.sleep(9 * scheduler.options.step_interval_s)
        return super().decode(scheduler, rows)
