"""Gauges and counters that do not tell what happened."""

import time

from starlette.types import ASGIApp, Scope

from server_launch.reference.http import HttpServer
from server_launch.reference.metrics import Metrics
from server_launch.reference.planted import wire
from server_launch.reference.planted.bug import Kind, Planted, plant
from server_launch.reference.request import Request, TerminalReason
from server_launch.reference.scheduler import Scheduler


@plant(Kind.FALSE_FIGURES, "vllm-project/vllm #29928", "metrics.honest", "state.baseline")
class RunningSticksAfterMassCancel(Planted):
    """When several clients leave within a moment, the gauge of running requests keeps its value until one comes in again."""

    _stuck = 0
    _last_s = 0.0

    def client_gone(self, server: HttpServer, request: Request) -> None:
        before_s, self._last_s = self._last_s, time.monotonic()
        if self._last_s - before_s < 0.05:
            self._stuck = max(self._stuck, len(server.scheduler.active))
        super().client_gone(server, request)

    def running(self, scheduler: Scheduler) -> float:
        return max(self._stuck, super().running(scheduler))

    def enqueue(self, scheduler: Scheduler, request: Request) -> None:
        self._stuck = 0
        super().enqueue(scheduler, request)


@plant(Kind.FALSE_FIGURES, "vllm-project/vllm #22545", "metrics.honest", "state.baseline")
class RunningNeverComesDown(Planted):
    """Each tenth client that left stays in the gauge of running requests for ever; the slot is free."""

    def running(self, scheduler: Scheduler) -> float:
        return super().running(scheduler) + self._counts["abort"] // 10

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        self.nth(1, "abort")


@plant(Kind.FALSE_FIGURES, "llm-d/llm-d-router #2295", "metrics.honest", "state.cap")
class RunningNeverMoves(Planted):
    """The gauge of running requests is always 0."""

    def running(self, scheduler: Scheduler) -> float:
        return 0.0


@plant(Kind.FALSE_FIGURES, "llm-d/llm-d-router #2295", "metrics.honest", "state.cap")
class RunningCountsWaiting(Planted):
    """The gauge of running requests counts those in the queue as well."""

    def running(self, scheduler: Scheduler) -> float:
        return super().running(scheduler) + len(scheduler.pending)


@plant(Kind.FALSE_FIGURES, "BerriAI/litellm #20256", "metrics.honest", "state.baseline")
class RunningGoesNegative(Planted):
    """A client that leaves before its first token is taken off the gauge of running requests twice."""

    def running(self, scheduler: Scheduler) -> float:
        return super().running(scheduler) - self._counts["early"]

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        if not request.tokens:
            self.nth(1, "early")


@plant(Kind.FALSE_FIGURES, "vllm-project/vllm #31503", "metrics.honest")
class AbortsNotCounted(Planted):
    """The counter of aborts is always 0."""

    def count_finished(self, scheduler: Scheduler, request: Request, reason: TerminalReason) -> None:
        if not request.gone:
            super().count_finished(scheduler, request, reason)


@plant(Kind.FALSE_FIGURES, "ai-dynamo/dynamo PR #12442", "metrics.honest")
class AbortsCountedAsSuccess(Planted):
    """A cancelled request is counted as one that reached its length."""

    def count_finished(self, scheduler: Scheduler, request: Request, reason: TerminalReason) -> None:
        super().count_finished(scheduler, request, TerminalReason.COMPLETED_LENGTH if request.gone else reason)


@plant(Kind.FALSE_FIGURES, "ggml-org/llama.cpp #5850", "metrics.honest")
class CancelResetsFigures(Planted):
    """Every twentieth abort sets all counters back to 0."""

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        if self.nth(20):
            _reset(scheduler)


def _reset(scheduler: Scheduler) -> None:
    seams = scheduler.seams
    scheduler.metrics = Metrics(
        scheduler.options.served_model_name,
        gauges=scheduler.options.gauges,
        running=lambda: seams.running(scheduler),
        waiting=lambda: seams.waiting(scheduler),
    )


@plant(Kind.FALSE_FIGURES, "huggingface/text-generation-inference #1199", "metrics.honest")
class TokenCounterFreezes(Planted):
    """The counter of generated tokens stands still from the thirtieth abort on."""

    def count_token(self, scheduler: Scheduler, request: Request) -> None:
        if self._counts["abort"] < 30:
            super().count_token(scheduler, request)

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        self.nth(1, "abort")


@plant(Kind.FALSE_FIGURES, "llm-d/llm-d-router PR #2547", "metrics.honest", "evidence.witnesses")
class MetricsFailAfterCancel(Planted):
    """Once a client has left, the metrics cannot be read any more."""

    def wrap(self, app: ASGIApp, server: HttpServer) -> ASGIApp:
        async def before(_: Scope) -> int | None:
            return 500 if self._counts["abort"] else None

        return wire.answering("/metrics", app, before)

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        self.nth(1, "abort")
