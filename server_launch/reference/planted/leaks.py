"""Slots and permits that a client's leaving, or a refusal, keeps or gives back once too often."""

from server_launch.reference.errors import ApiError, unavailable
from server_launch.reference.planted.bug import Kind, Planted, plant
from server_launch.reference.request import Request, TerminalReason
from server_launch.reference.scheduler import Scheduler


class _FewerSlots(Planted):
    """A server that has lost some of its slots; what counts the active ones does not know."""

    lost = 0

    def may_admit(self, scheduler: Scheduler) -> bool:
        return len(scheduler.active) + self.lost < scheduler.options.active_cap


@plant(Kind.LEAK, "huggingface/text-generation-inference #1199", "state.capacity")
class FifteenthCancelLeaksSlot(_FewerSlots):
    """Every fifteenth cancel loses a slot, down to half of them; gauges and traces look healthy."""

    def free(self, scheduler: Scheduler, request: Request) -> None:
        if request.gone and request in scheduler.active and self.lost < scheduler.options.active_cap // 2:
            self.lost += self.nth(15)
        super().free(scheduler, request)


@plant(Kind.LEAK, "vllm-project/vllm #46283", "state.capacity")
class OneSlotLeaksOnce(_FewerSlots):
    """The first client that leaves before its first token takes one slot with it, and that is all."""

    def free(self, scheduler: Scheduler, request: Request) -> None:
        if request.gone and not request.tokens:
            self.lost = 1
        super().free(scheduler, request)


@plant(Kind.LEAK, "BerriAI/litellm #20256", "state.capacity")
class RefusalLeaksPermit(_FewerSlots):
    """The sixth refusal keeps the permit that it took."""

    def refusal(self, scheduler: Scheduler, request: Request) -> ApiError | None:
        error = super().refusal(scheduler, request)
        if error is not None and not self.lost:
            self.lost += self.nth(6)
        return error


@plant(Kind.LEAK, "vllm-project/vllm PR #53936", "state.cap", "trace.figures", "state.capacity")
class CancelReturnsSlotTwice(_FewerSlots):
    """Every tenth cancel gives its permit back twice, so that more and more run at once."""

    def free(self, scheduler: Scheduler, request: Request) -> None:
        if request.gone:
            self.lost -= self.nth(10)
        super().free(scheduler, request)


@plant(Kind.LEAK, "huggingface/text-generation-inference #1199", "outcomes.normal", "recovery.follow_up", "outcomes.accepted")
class AbortsEatCacheBlocks(Planted):
    """Each abort keeps its cache blocks; after forty there are none for a prompt of more than a few tokens."""

    def refusal(self, scheduler: Scheduler, request: Request) -> ApiError | None:
        if self._counts["abort"] >= 40 and len(request.prompt_ids) > 16:
            return unavailable("out of cache blocks")
        return super().refusal(scheduler, request)

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        self.nth(1, "abort")


@plant(Kind.LEAK, "ROCm/ATOM PR #1441", "state.baseline", "metrics.honest")
class WholeAnswersStayCounted(Planted):
    """A request whose answer comes whole is never taken off the table of running ones."""

    def running(self, scheduler: Scheduler) -> float:
        return super().running(scheduler) + self._counts["whole"]

    def count_finished(self, scheduler: Scheduler, request: Request, reason: TerminalReason) -> None:
        if not request.call.stream:
            self.nth(1, "whole")
        super().count_finished(scheduler, request, reason)
