"""Clients that leave and are not noticed: nowhere, in one phase, on one path, too late, or only in the log."""

import time

from server_launch.reference.engine import Cache
from server_launch.reference.http import HttpServer
from server_launch.reference.planted.bug import Kind, Planted, plant
from server_launch.reference.request import Endpoint, Phase, Request
from server_launch.reference.scheduler import Scheduler


@plant(Kind.LOST_ABORT, "pegainfer-project/pegainfer #215", "retire.lag", "retire.waste")
class AbortIgnored(Planted):
    """Nobody listens for the client: every abandoned request decodes to its natural end."""

    def client_gone(self, server: HttpServer, request: Request) -> None:
        pass


@plant(Kind.LOST_ABORT, "vllm-project/vllm #10087", "retire.lag", "retire.waste", "trace.agreement")
class WholeAnswerAbortIgnored(Planted):
    """A client that left is noticed on streams only, not where the answer comes whole."""

    def client_gone(self, server: HttpServer, request: Request) -> None:
        if request.call.stream:
            super().client_gone(server, request)


@plant(Kind.LOST_ABORT, "InternLM/lmdeploy #4776", "retire.lag", "retire.waste")
class ChatAbortIgnored(Planted):
    """A client that left is noticed on completions only, not on chat."""

    def client_gone(self, server: HttpServer, request: Request) -> None:
        if request.call.endpoint is Endpoint.COMPLETIONS:
            super().client_gone(server, request)


@plant(Kind.LOST_ABORT, "ai-dynamo/dynamo #13691", "retire.lag", "retire.waste", "trace.agreement")
class PrefillAbortIgnored(Planted):
    """A client that leaves while its prompt is in prefill is not noticed any more."""

    def client_gone(self, server: HttpServer, request: Request) -> None:
        if request.phase is not Phase.PREFILL:
            super().client_gone(server, request)

    def prefill(self, scheduler: Scheduler, request: Request) -> tuple[Cache, int]:
        # long enough for a client to leave in it, and the same for all, so that the gate takes it for this server's pace
        time.sleep(0.05)
        return super().prefill(scheduler, request)


@plant(Kind.LOST_ABORT, "pegainfer-project/pegainfer #642", "retire.lag", "retire.waste", "trace.agreement")
class QueuedAbortIgnored(Planted):
    """A client that leaves the queue is served in full when its turn comes."""

    def client_gone(self, server: HttpServer, request: Request) -> None:
        if request.phase is not Phase.QUEUED:
            super().client_gone(server, request)


@plant(Kind.LOST_ABORT, "pegainfer-project/pegainfer #642", "retire.waste", "retire.lag")
class QueuedLeaverPrefilled(Planted):
    """A client that left the queue is admitted all the same, and only retired when its prompt has been computed."""

    def client_gone(self, server: HttpServer, request: Request) -> None:
        if request.phase is Phase.QUEUED:
            request.gone = True
        else:
            super().client_gone(server, request)


@plant(Kind.LOST_ABORT, "sgl-project/sglang #36876", "retire.lag", "retire.waste")
class SeventhAbortLost(Planted):
    """Every seventh abort falls between two batches, where it marks nothing."""

    def client_gone(self, server: HttpServer, request: Request) -> None:
        if not self.nth(7):
            super().client_gone(server, request)


@plant(Kind.LOST_ABORT, "NVIDIA/TensorRT-LLM PR #12313", "retire.lag", "retire.waste", "state.baseline")
class AbortWaitsForArrival(Planted):
    """Aborts are only carried out when the next request comes in."""

    def __init__(self) -> None:
        super().__init__()
        self._left: list[Request] = []

    def client_gone(self, server: HttpServer, request: Request) -> None:
        self._left.append(request)

    def accepted(self, server: HttpServer, request: Request) -> None:
        left, self._left = self._left, []
        for each in left:
            server.scheduler.abort(each)


@plant(Kind.LOST_ABORT, "theroyallab/tabbyAPI #457", "retire.lag", "retire.waste")
class AbortThirtyStepsLate(Planted):
    """A request is retired thirty steps after its client left."""

    def __init__(self) -> None:
        super().__init__()
        self._since: dict[str, int] = {}

    def has_left(self, scheduler: Scheduler, request: Request) -> bool:
        count = len(request.tokens)
        return request.gone and count - self._since.setdefault(request.id, count) >= 30


@plant(Kind.LOST_ABORT, "ggml-org/llama.cpp #24496", "retire.lag", "retire.waste")
class AbortTwoSecondsLate(Planted):
    """A request is retired two seconds after its client left."""

    def __init__(self) -> None:
        super().__init__()
        self._since_s: dict[str, float] = {}

    def has_left(self, scheduler: Scheduler, request: Request) -> bool:
        return request.gone and time.monotonic() - self._since_s.setdefault(request.id, time.monotonic()) >= 2.0


@plant(Kind.LOST_ABORT, "ggml-org/llama.cpp #11414", "state.capacity", "recovery.follow_up", "outcomes.timeout", "progress.stall")
class AbortOnlyAcknowledged(Planted):
    """Log and gauges call an abandoned request over at once, and unseen its slot decodes all that was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self._busy_until_s: list[float] = []

    def free(self, scheduler: Scheduler, request: Request) -> None:
        if request.gone and request in scheduler.active:
            left_s = (request.max_tokens - len(request.tokens)) * max(scheduler.options.step_interval_s, 0.002)
            self._busy_until_s.append(time.monotonic() + left_s)
        super().free(scheduler, request)

    def may_admit(self, scheduler: Scheduler) -> bool:
        self._busy_until_s = [until_s for until_s in self._busy_until_s if until_s > time.monotonic()]
        return len(scheduler.active) + len(self._busy_until_s) < scheduler.options.active_cap


@plant(Kind.LOST_ABORT, "sgl-project/sglang #34113", "metrics.honest", "retire.waste", "neighbours.unharmed")
class AbortedWorkGoesOn(Planted):
    """An abandoned request is retired in every respect, but the engine goes on computing forty tokens for it."""

    def __init__(self) -> None:
        super().__init__()
        self._ghosts: list[tuple[Cache, list[int]]] = []

    def free(self, scheduler: Scheduler, request: Request) -> None:
        if request.gone and request.cache is not None:
            self._ghosts.append((request.cache, [request.tokens[-1]]))
        super().free(scheduler, request)

    def tick(self, scheduler: Scheduler) -> None:
        for cache, tokens in list(self._ghosts):
            tokens += scheduler.engine.decode([cache], tokens[-1:])
            scheduler.metrics.generated(1)
            if len(tokens) > 40:
                self._ghosts.remove((cache, tokens))
