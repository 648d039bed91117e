"""Health endpoints that are wrong the other way: the server works, and health says that it does not, or not in time."""

import asyncio
import time

from starlette.types import ASGIApp, Scope

from server_launch.reference.errors import ApiError, unavailable
from server_launch.reference.http import HttpServer
from server_launch.reference.planted import wire
from server_launch.reference.planted.bug import Kind, Planted, plant
from server_launch.reference.request import Request
from server_launch.reference.scheduler import Scheduler


@plant(Kind.NO_PROGRESS, "sgl-project/sglang #22511", "health.honest")
class HealthFailsWhenFull(Planted):
    """Health answers 503 whenever all slots are taken."""

    def health(self, server: HttpServer) -> ApiError | None:
        scheduler = server.scheduler
        return unavailable("busy") if len(scheduler.active) >= scheduler.options.active_cap else super().health(server)


@plant(Kind.NO_PROGRESS, "ikawrakow/ik_llama.cpp #1210", "health.honest")
class HealthSlowUnderLoad(Planted):
    """Health takes two and a half seconds while more than half of the slots are taken."""

    def wrap(self, app: ASGIApp, server: HttpServer) -> ASGIApp:
        async def before(_: Scope) -> None:
            if 2 * len(server.scheduler.active) > server.options.active_cap:
                await asyncio.sleep(2.5)

        return wire.answering("/health", app, before)


@plant(Kind.NO_PROGRESS, "sgl-project/sglang #22511", "health.honest")
class HealthFlapsAfterCancel(Planted):
    """Health answers 503 for a second after each fifth client that left."""

    _until_s = 0.0

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        if self.nth(5):
            self._until_s = time.monotonic() + 1.0

    def health(self, server: HttpServer) -> ApiError | None:
        return unavailable("an engine request failed") if time.monotonic() < self._until_s else super().health(server)


@plant(Kind.NO_PROGRESS, "ai-dynamo/dynamo PR #7763", "health.honest")
class HealthNeverComesBack(Planted):
    """Once more than the cap were waiting, health answers 503 for ever, though everything is served."""

    _tripped = False

    def health(self, server: HttpServer) -> ApiError | None:
        return unavailable("overloaded") if self._tripped else super().health(server)

    def enqueue(self, scheduler: Scheduler, request: Request) -> None:
        super().enqueue(scheduler, request)
        self._tripped |= len(scheduler.pending) > scheduler.options.active_cap
