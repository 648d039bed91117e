"""Parameters and limits that are accepted and not honoured."""

from typing import Any

from server_launch.reference.errors import ApiError
from server_launch.reference.http import HttpServer
from server_launch.reference.planted.bug import Kind, Planted, plant
from server_launch.reference.request import Call, Endpoint, FinishReason, Request
from server_launch.reference.scheduler import Scheduler
from server_launch.reference.stops import StopFilter

Checked = tuple[Call, list[tuple[str, str]]]


class _Ignoring(Planted):
    """Leaves fields out of every body before it is looked at."""

    fields: tuple[str, ...] = ()

    def validate(self, server: HttpServer, endpoint: Endpoint, body: dict[str, Any]) -> Checked:
        return super().validate(server, endpoint, {name: value for name, value in body.items() if name not in self.fields})


@plant(Kind.WRONG_VERDICT, "vllm-project/vllm PR #47494", "outcomes.rejection", "outcomes.accepted")
class TemperatureIgnored(_Ignoring):
    """Any temperature is accepted, and decoding stays greedy."""

    fields = ("temperature", "top_p", "top_k")


@plant(Kind.WRONG_VERDICT, "pegainfer-project/pegainfer PR #556", "outcomes.rejection", "outcomes.accepted")
class LogprobsIgnored(_Ignoring):
    """Logprobs are accepted and never sent."""

    fields = ("logprobs", "top_logprobs")


@plant(Kind.WRONG_VERDICT, "EricLBuehler/mistral.rs #1874", "outcomes.rejection", "outcomes.accepted")
class CountIgnored(_Ignoring):
    """More than one choice is accepted, and one is sent."""

    fields = ("n", "best_of")


@plant(Kind.WRONG_VERDICT, "vllm-project/vllm #6521", "outcomes.rejection", "outcomes.accepted")
class EchoIgnored(_Ignoring):
    """Echo is accepted, and the prompt is not in the answer."""

    fields = ("echo",)


@plant(Kind.WRONG_VERDICT, "vllm-project/vllm PR #36379", "stream.content", "outcomes.accepted")
class IncludeUsageIgnored(_Ignoring):
    """A stream that asks for usage gets none."""

    fields = ("stream_options",)


@plant(Kind.WRONG_VERDICT, "vllm-project/vllm #36830", "outcomes.accepted")
class StopIgnored(_Ignoring):
    """Stop strings are accepted, and generation goes on beyond them."""

    fields = ("stop",)


@plant(Kind.WRONG_VERDICT, "vllm-project/vllm #36830", "outcomes.accepted")
class StopIgnoredInWholeAnswers(Planted):
    """Stop strings work on streams only."""

    def accepted(self, server: HttpServer, request: Request) -> None:
        if not request.call.stream:
            request.stops = StopFilter(())


class _Leaking(StopFilter):
    def feed(self, text: str) -> tuple[str, bool]:
        safe, stopped = super().feed(text)
        return (safe + text if stopped else safe), stopped


@plant(Kind.WRONG_VERDICT, "vllm-project/vllm #8625", "stream.content", "outcomes.accepted")
class OneTokenMore(Planted):
    """Every answer has one token more than was asked for."""

    def finish_reason(self, scheduler: Scheduler, request: Request, token: int) -> FinishReason | None:
        return FinishReason.LENGTH if len(request.tokens) > request.max_tokens else None


@plant(Kind.WRONG_VERDICT, "pegainfer-project/pegainfer #294", "stream.content", "outcomes.accepted", "outcomes.normal")
class MaxTokensClipped(Planted):
    """More than eleven tokens are never made, and the finish reason is length as if they had been asked for."""

    def finish_reason(self, scheduler: Scheduler, request: Request, token: int) -> FinishReason | None:
        return FinishReason.LENGTH if len(request.tokens) >= 11 else super().finish_reason(scheduler, request, token)


@plant(Kind.WRONG_VERDICT, "vllm-project/vllm #6521", "outcomes.accepted")
class ZeroTokensServesOne(Planted):
    """A request for no tokens gets one."""

    def refusal(self, scheduler: Scheduler, request: Request) -> ApiError | None:
        request.max_tokens = max(1, request.max_tokens)
        return super().refusal(scheduler, request)


@plant(Kind.WRONG_VERDICT, "ollama/ollama #18125", "outcomes.rejection")
class OverContextTruncated(Planted):
    """A request beyond the context loses the beginning of its prompt and is served."""

    def refusal(self, scheduler: Scheduler, request: Request) -> ApiError | None:
        error = super().refusal(scheduler, request)
        if error is None or error.code != "context_length_exceeded":
            return error
        request.max_tokens = min(request.max_tokens, scheduler.context_length - 1)
        request.prompt_ids = request.prompt_ids[-(scheduler.context_length - request.max_tokens) :]
        return None
