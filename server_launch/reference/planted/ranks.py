"""What a failing or lagging rank does to those who are in flight, without anybody having touched it."""

import threading
import time

import psutil

from server_launch.reference.errors import ApiError
from server_launch.reference.http import HttpServer
from server_launch.reference.planted.bug import Kind, Planted, others, plant, wrong
from server_launch.reference.request import Request, TerminalReason
from server_launch.reference.scheduler import Scheduler


class _Counting(Planted):
    """Counts the clients that left."""

    @property
    def abort_count(self) -> int:
        """How many so far."""
        return self._counts["abort"]

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        self.nth(1, "abort")


@plant(Kind.RANK_FAILURE, "jundot/omlx #3039", "stability.output")
class RankResultLost(Planted):
    """In every hundred and fiftieth step with several rows the other rank's part is missing, and all rows go astray."""

    def decode(self, scheduler: Scheduler, rows: list[Request]) -> list[int]:
        tokens = super().decode(scheduler, rows)
        if len(rows) > 1 and self.nth(150):
            return [wrong(scheduler, token) for token in tokens]
        return tokens


@plant(Kind.RANK_FAILURE, "triton-inference-server/tensorrtllm_backend #110", "progress.stall", "neighbours.unharmed")
class RankLagsAfterAborts(_Counting):
    """After every fifteenth abort the ranks wait for each other for five seconds."""

    _waited = 0

    def tick(self, scheduler: Scheduler) -> None:
        if self.abort_count // 15 > self._waited:
            self._waited = self.abort_count // 15
            time.sleep(5.0)


@plant(Kind.RANK_FAILURE, "sgl-project/sglang #27221", "progress.stall", "outcomes.timeout", "health.honest")
class RanksDisagreeInOverload(Planted):
    """When a request has waited for half a second, the ranks disagree on it, and both wait for ever."""

    def tick(self, scheduler: Scheduler) -> None:
        with scheduler.lock:
            queued_unix_s = [request.timeline.queued_unix_s or 0.0 for request in scheduler.pending]
        if queued_unix_s and time.time() - min(queued_unix_s) > 0.5:
            threading.Event().wait()


TWO_RANKS = ("--engine", "server_launch.reference.build:build")
"""For a bug that needs a real second rank, whatever engine the server would have had."""


@plant(Kind.RANK_FAILURE, "vllm-project/vllm #11996", "health.honest", "outcomes.normal", "recovery.follow_up", server=TWO_RANKS)
class RankDeathUnnoticed(_Counting):
    """After thirty aborts the other rank dies; everything fails, and health goes on answering 200."""

    def tick(self, scheduler: Scheduler) -> None:
        if self.abort_count >= 30:
            for child in psutil.Process().children():
                child.kill()

    def health(self, server: HttpServer) -> ApiError | None:
        return None


@plant(Kind.RANK_FAILURE, "NVIDIA/TensorRT-LLM PR #16338", "outcomes.timeout", "progress.stall", "outcomes.normal")
class RankDeathHangsStreams(_Counting):
    """After thirty aborts the other rank is lost: health says so, and the requests in flight hang instead of failing."""

    def decode(self, scheduler: Scheduler, rows: list[Request]) -> list[int]:
        if self.abort_count >= 30:
            threading.Event().wait()
        return super().decode(scheduler, rows)

    def health(self, server: HttpServer) -> ApiError | None:
        return ApiError(503, "the peer rank is gone") if self.abort_count >= 30 else super().health(server)


@plant(Kind.RANK_FAILURE, "huggingface/trl PR #6628", "outcomes.normal", "neighbours.unharmed")
class RankRestartDropsStreams(_Counting):
    """After every twentieth abort the other rank starts again, and whatever was being decoded fails."""

    _restarted = 0

    def tick(self, scheduler: Scheduler) -> None:
        if self.abort_count // 20 > self._restarted:
            self._restarted = self.abort_count // 20
            for request in others(scheduler):
                scheduler.retire(request, TerminalReason.ERROR, error="the peer rank restarted")
