"""One request that ends, restarts or freezes the server for everybody."""

import os
import subprocess
import sys
import time
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from server_launch.reference.errors import ApiError
from server_launch.reference.http import HttpServer
from server_launch.reference.planted.bug import Kind, Planted, plant
from server_launch.reference.request import Call, Endpoint, Phase, Request
from server_launch.reference.scheduler import Scheduler

DIED = 134
"""The exit code of a process that aborted."""


@plant(Kind.ONE_FOR_ALL, "triton-inference-server/tensorrtllm_backend #146", "process.same", "recovery.follow_up", "outcomes.normal")
class CrashAtFortiethAbort(Planted):
    """The fortieth client that leaves, in whatever phase, ends the process."""

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        if self.nth(40):
            os._exit(DIED)


@plant(Kind.ONE_FOR_ALL, "sgl-project/sglang #36475", "process.same", "health.honest", "recovery.follow_up", "outcomes.normal")
class CrashWhenIdle(Planted):
    """Two and a half quiet seconds after many aborts a check of the pools ends the process."""

    _busy_s = 0.0

    def tick(self, scheduler: Scheduler) -> None:
        if scheduler.active or scheduler.pending or not self._counts["abort"]:
            self._busy_s = time.monotonic()
        elif self._counts["abort"] >= 40 and time.monotonic() - self._busy_s > 2.5:
            os._exit(DIED)

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        self.nth(1, "abort")


@plant(Kind.ONE_FOR_ALL, "vllm-project/vllm PR #56841", "recovery.follow_up", "outcomes.normal", "log.clean")
class QueuedAbortKillsScheduler(Planted):
    """The abort of a request that was never scheduled looks up a key that is not there, and ends the scheduler."""

    _missing = ""

    def client_gone(self, server: HttpServer, request: Request) -> None:
        if request.phase is Phase.QUEUED:
            self._missing = request.id
        super().client_gone(server, request)

    def tick(self, scheduler: Scheduler) -> None:
        if self._missing:
            raise KeyError(self._missing)


@plant(Kind.ONE_FOR_ALL, "vllm-project/vllm #5822", "recovery.follow_up", "outcomes.normal", "log.clean")
class RefusalKillsScheduler(Planted):
    """A request beyond the context is refused as it should be, and a second later the scheduler has ended."""

    _die_at_s = float("inf")

    def refusal(self, scheduler: Scheduler, request: Request) -> ApiError | None:
        error = super().refusal(scheduler, request)
        if error is not None and error.code == "context_length_exceeded":
            self._die_at_s = time.monotonic() + 1.0
        return error

    def tick(self, scheduler: Scheduler) -> None:
        if time.monotonic() > self._die_at_s:
            raise IndexError("block table index out of range")


@plant(Kind.ONE_FOR_ALL, "vllm-project/vllm #17313", "neighbours.unharmed", "progress.stall")
class BadBodyBlocksEverybody(Planted):
    """A body that does not validate blocks the event loop for half a second."""

    def validate(self, server: HttpServer, endpoint: Endpoint, body: dict[str, Any]) -> tuple[Call, list[tuple[str, str]]]:
        try:
            return super().validate(server, endpoint, body)
        except ApiError:
            time.sleep(0.5)
            raise


@plant(Kind.ONE_FOR_ALL, "sgl-project/sglang #40076", "process.same", "recovery.follow_up", "outcomes.rejection", "outcomes.normal")
class BadFieldKillsProcess(Planted):
    """Values of logprobs, top_logprobs or n that do not validate end the process before anything is answered."""

    def validate(self, server: HttpServer, endpoint: Endpoint, body: dict[str, Any]) -> tuple[Call, list[tuple[str, str]]]:
        try:
            return super().validate(server, endpoint, body)
        except ApiError as error:
            if error.param in ("logprobs", "top_logprobs", "n"):
                os._exit(DIED)
            raise


@plant(Kind.ONE_FOR_ALL, "theroyallab/tabbyAPI #428", "neighbours.unharmed", "progress.stall")
class AbortBlocksEverybody(Planted):
    """Each client that leaves blocks the event loop for half a second."""

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        time.sleep(0.5)


class _Restarting(Planted):
    """Knows how to start this server again, on the same port and without its bug."""

    _port = 0

    def wrap(self, app: ASGIApp, server: HttpServer) -> ASGIApp:
        async def noting(scope: Scope, receive: Receive, send: Send) -> None:
            self._port = scope["server"][1]
            await app(scope, receive, send)

        return noting

    def command(self) -> list[str]:
        at = sys.argv.index("--plant")
        options = sys.argv[1:at] + sys.argv[at + 2 :]
        return [sys.executable, "-m", "server_launch.reference", *options, "--port", str(self._port)]


@plant(Kind.ONE_FOR_ALL, "vllm-project/vllm #6586", "process.same", "outcomes.normal", "recovery.follow_up", "neighbours.unharmed")
class RestartInPlace(_Restarting):
    """After thirty aborts a supervisor replaces the process by a new one with the same process id."""

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        if self.nth(30):
            command = self.command()
            os.execv(command[0], command)


@plant(Kind.ONE_FOR_ALL, "am17an/llama.cpp #20", "process.same", "outcomes.normal", "recovery.follow_up", "neighbours.unharmed")
class RestartAsAnother(_Restarting):
    """After thirty aborts a supervisor starts another process on the same port and lets the old one die."""

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        if self.nth(30):
            subprocess.Popen(self.command())
            os._exit(DIED)
