"""Requests that suffer when another is cancelled or refused."""

import time

from server_launch.reference.errors import ApiError
from server_launch.reference.http import HttpServer
from server_launch.reference.planted.bug import Kind, Planted, others, plant, wrong
from server_launch.reference.request import Phase, Piece, Request, TerminalReason
from server_launch.reference.scheduler import Scheduler


@plant(Kind.NEIGHBOUR_HARMED, "sgl-project/sglang #23392", "neighbours.unharmed", "outcomes.normal")
class CancelHitsAnother(Planted):
    """Every sixth abort ends another request beside the one that was meant."""

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        if self.nth(6):
            for victim in others(scheduler, request)[:1]:
                scheduler.abort(victim)


@plant(Kind.NEIGHBOUR_HARMED, "ikawrakow/ik_llama.cpp #1929", "progress.stall", "outcomes.timeout", "outcomes.normal")
class QueuedCancelSilencesStream(Planted):
    """When a request leaves the queue, a stream that was being decoded goes silent without an end."""

    def __init__(self) -> None:
        super().__init__()
        self._silent: set[Request] = set()

    def client_gone(self, server: HttpServer, request: Request) -> None:
        if request.phase is Phase.QUEUED:
            self._silent.update(others(server.scheduler)[:1])
        super().client_gone(server, request)

    def rows(self, scheduler: Scheduler) -> list[Request]:
        return [request for request in super().rows(scheduler) if request not in self._silent]


class _Damaging(Planted):
    """Gives a chosen request one wrong token in its next step, after which its text goes its own way."""

    def __init__(self) -> None:
        super().__init__()
        self._victims: set[Request] = set()

    def decode(self, scheduler: Scheduler, rows: list[Request]) -> list[int]:
        tokens = super().decode(scheduler, rows)
        hit, self._victims = self._victims, set()
        return [wrong(scheduler, token) if request in hit else token for request, token in zip(rows, tokens, strict=True)]


@plant(Kind.NEIGHBOUR_HARMED, "sgl-project/sglang #23392", "stability.output", "neighbours.unharmed")
class CancelDamagesNeighbour(_Damaging):
    """Every fifth cancel writes into the cache of one neighbour, whose text is another from there on."""

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        if self.nth(5):
            self._victims.update(others(scheduler, request)[:1])


@plant(Kind.NEIGHBOUR_HARMED, "vllm-project/vllm #54195", "stability.output", "neighbours.unharmed")
class RefusalDamagesNeighbour(_Damaging):
    """Every second request that the scheduler refuses changes the next token of one that is being decoded."""

    def refusal(self, scheduler: Scheduler, request: Request) -> ApiError | None:
        error = super().refusal(scheduler, request)
        if error is not None and self.nth(2):
            self._victims.update(others(scheduler)[:1])
        return error


class _Losing(Planted):
    """Does something to the next piece of text of a chosen request."""

    def __init__(self) -> None:
        super().__init__()
        self._victims: set[Request] = set()

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        if self.nth(4):
            self._victims.update(others(scheduler, request)[:1])

    def emit(self, scheduler: Scheduler, request: Request, piece: Piece) -> None:
        for _ in range(self.copies if request in self._victims else 1):
            super().emit(scheduler, request, piece)
        self._victims.discard(request)

    copies = 1


@plant(Kind.NEIGHBOUR_HARMED, "huggingface/text-generation-inference PR #2754", "stability.output", "neighbours.unharmed")
class CancelSwallowsNeighboursToken(_Losing):
    """Every fourth cancel loses one token of a neighbour's text, though it is counted."""

    copies = 0


@plant(Kind.NEIGHBOUR_HARMED, "openvinotoolkit/model_server #4428", "stream.content", "stability.output", "neighbours.unharmed")
class CancelEndsNeighbourEarly(Planted):
    """Every fifth cancel ends a neighbour one token later, with a finish reason as if all was well."""

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        if self.nth(5):
            for victim in others(scheduler, request)[:1]:
                victim.max_tokens = min(victim.max_tokens, len(victim.tokens) + 1)


@plant(Kind.NEIGHBOUR_HARMED, "pegainfer-project/pegainfer #254", "neighbours.unharmed", "outcomes.normal")
class RefusalEndsBatch(Planted):
    """A request that does not fit is refused, and everything in the batch fails with it."""

    def refusal(self, scheduler: Scheduler, request: Request) -> ApiError | None:
        error = super().refusal(scheduler, request)
        if error is not None and error.code == "context_length_exceeded":
            for victim in others(scheduler):
                scheduler.retire(victim, TerminalReason.ERROR, error="the batch failed")
        return error


@plant(Kind.NEIGHBOUR_HARMED, "sgl-project/sglang PR #17321", "outcomes.normal", "queue.overload")
class ConnectedDeclaredGone(Planted):
    """When all slots are taken, every twentieth request is aborted as if its client had left, and it has not."""

    def accepted(self, server: HttpServer, request: Request) -> None:
        scheduler = server.scheduler
        if len(scheduler.active) >= scheduler.options.active_cap and self.nth(20):
            scheduler.abort(request)


@plant(Kind.NEIGHBOUR_HARMED, "pegainfer-project/pegainfer #215", "recovery.follow_up", "progress.stall")
class SlowerWithEachAbort(Planted):
    """Each client that left stays in a list that every step walks through: steps grow by a millisecond an abort."""

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        self.nth(1, "abort")

    def decode(self, scheduler: Scheduler, rows: list[Request]) -> list[int]:
        time.sleep(self._counts["abort"] * 0.001)
        return super().decode(scheduler, rows)
