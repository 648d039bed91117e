"""Text that is lost, doubled or wrong only where the batch is large or others are waiting."""

from server_launch.reference.engine import Cache
from server_launch.reference.planted.bug import Kind, Planted, plant
from server_launch.reference.request import FinishReason, Piece, Request
from server_launch.reference.scheduler import Scheduler


class _Crowded(Planted):
    """Sends every fortieth token of a batch of four and more another number of times than once."""

    copies = 1

    def emit(self, scheduler: Scheduler, request: Request, piece: Piece) -> None:
        crowded = len(scheduler.active) >= min(4, scheduler.options.active_cap)
        for _ in range(self.copies if crowded and self.nth(40) else 1):
            super().emit(scheduler, request, piece)


@plant(Kind.PRESSURE, "vllm-project/vllm #16832", "stability.output")
class TokenLostInCrowd(_Crowded):
    """In a batch of four or more, every fortieth token is counted and not sent."""

    copies = 0


@plant(Kind.PRESSURE, "vllm-project/vllm #16832", "stability.output")
class TokenDoubledInCrowd(_Crowded):
    """In a batch of four or more, every fortieth token is sent twice."""

    copies = 2


@plant(Kind.PRESSURE, "vllm-project/vllm #16832", "stream.content", "stability.output")
class PreemptedAnswerCut(Planted):
    """While others wait, every eighth answer ends at half its length with the finish reason length."""

    def finish_reason(self, scheduler: Scheduler, request: Request, token: int) -> FinishReason | None:
        if scheduler.pending and len(request.tokens) == request.max_tokens // 2 and self.nth(8):
            return FinishReason.LENGTH
        return super().finish_reason(scheduler, request, token)


@plant(Kind.PRESSURE, "vllm-project/vllm #52360", "stability.output", "stream.content", "recovery.follow_up")
class PrefixReusedWrongly(Planted):
    """Once others had to wait, every fifth prompt loses its first token to a wrong prefix of the cache."""

    _pressed = False

    def enqueue(self, scheduler: Scheduler, request: Request) -> None:
        super().enqueue(scheduler, request)
        self._pressed |= len(scheduler.pending) > 2

    def prefill(self, scheduler: Scheduler, request: Request) -> tuple[Cache, int]:
        if self._pressed and len(request.prompt_ids) > 1 and self.nth(5):
            return scheduler.engine.prefill(request.prompt_ids[1:])
        return super().prefill(scheduler, request)
