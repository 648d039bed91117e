"""Streams and answers whose tokens, characters, usage or ids are wrong."""

from collections.abc import Callable
from typing import Any

from starlette.types import Send

from server_launch.reference.planted.bug import Kind, Planted, plant
from server_launch.reference.planted.stream_end import edited
from server_launch.reference.request import Endpoint, Finish, FinishReason, Piece, Request
from server_launch.reference.scheduler import Scheduler


@plant(Kind.STREAM_CONTENT, "BerriAI/litellm #16584", "stream.protocol")
class IdPerChunk(Planted):
    """Each chunk of a stream has an id of its own."""

    def frame(self, request: Request, data: str) -> bytes:
        self.nth(1)
        return super().frame(request, data.replace(request.id, f"{request.id}-{self._counts['']}", 1))


@plant(Kind.STREAM_CONTENT, "vllm-project/vllm #8625", "stream.content")
class UsageOneShort(Planted):
    """Usage in streams counts one token less than was sent."""

    def last_events(self, request: Request, finish: Finish) -> list[str]:
        usage = self.usage(request)
        short = {**usage, "completion_tokens": usage["completion_tokens"] - 1}
        return [edited(data, _usage(short)) if '"usage":' in data else data for data in super().last_events(request, finish)]


@plant(Kind.STREAM_CONTENT, "sgl-project/sglang #36475", "stream.content")
class PromptCountLost(Planted):
    """After a cancel, every third answer counts a prompt of one token in its usage."""

    def usage(self, request: Request) -> dict[str, int]:
        usage = super().usage(request)
        return {**usage, "prompt_tokens": 1} if self._counts["abort"] and self.nth(3) else usage

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        self.nth(1, "abort")


@plant(Kind.STREAM_CONTENT, "vllm-project/vllm PR #36379", "stream.content", "stream.protocol", "outcomes.accepted")
class UsageOnEveryChunk(Planted):
    """Every chunk carries usage, asked for or not."""

    def piece_events(self, request: Request, piece: Piece) -> list[str]:
        return [edited(data, _usage(self.usage(request))) for data in super().piece_events(request, piece)]


def _usage(usage: dict[str, int]) -> Callable[[dict[str, Any]], None]:
    def change(value: dict[str, Any]) -> None:
        value["usage"] = usage

    return change


@plant(Kind.STREAM_CONTENT, "Luce-Org/lucebox PR #641", "stream.content", "stream.protocol", "stability.output")
class SplitCharacter(Planted):
    """In streams a character of several bytes comes as replacement marks."""

    def piece_events(self, request: Request, piece: Piece) -> list[str]:
        text = "".join(char if char.isascii() else "\ufffd" for char in piece.text)
        return super().piece_events(request, Piece(text, piece.token))


@plant(Kind.STREAM_CONTENT, "vllm-project/vllm #36830", "stability.output", "stream.content")
class TokensSwapped(Planted):
    """Every sixtieth token is sent after the one that follows it."""

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[Request, Piece] = {}

    def emit(self, scheduler: Scheduler, request: Request, piece: Piece) -> None:
        if self.nth(60):
            self._held[request] = piece
            return
        super().emit(scheduler, request, piece)
        self._release(request)

    def deliver_finish(self, scheduler: Scheduler, request: Request, reason: FinishReason | None, error: str | None) -> None:
        self._release(request)
        super().deliver_finish(scheduler, request, reason, error)

    def _release(self, request: Request) -> None:
        if request in self._held:
            request.deliver(self._held.pop(request))


@plant(Kind.STREAM_CONTENT, "vllm-project/vllm #16832", "stability.output", "stream.content")
class TokenLost(Planted):
    """Every hundredth token is counted and not sent."""

    def emit(self, scheduler: Scheduler, request: Request, piece: Piece) -> None:
        if not self.nth(100):
            super().emit(scheduler, request, piece)


@plant(Kind.STREAM_CONTENT, "vllm-project/vllm #36830", "stability.output", "stream.content")
class EventDoubled(Planted):
    """Every hundredth event of a stream is written twice."""

    async def write(self, request: Request, send: Send, payload: bytes) -> None:
        await super().write(request, send, payload)
        if b'"finish_reason":null' in payload and self.nth(100):
            await super().write(request, send, payload)


@plant(Kind.STREAM_CONTENT, "NVIDIA-NeMo/Export-Deploy #652", "outcomes.accepted", "stream.content", "outcomes.normal")
class OnlyTokenLost(Planted):
    """An answer of one token has no text, and counts the token."""

    def emit(self, scheduler: Scheduler, request: Request, piece: Piece) -> None:
        if request.max_tokens > 1:
            super().emit(scheduler, request, piece)


@plant(Kind.STREAM_CONTENT, "vllm-project/vllm #36830", "stream.content", "stability.output")
class SeventhIsLastAndLost(Planted):
    """An answer of exactly seven tokens lacks its last one, and counts it."""

    def emit(self, scheduler: Scheduler, request: Request, piece: Piece) -> None:
        if request.max_tokens != 7 or len(request.tokens) < 7:
            super().emit(scheduler, request, piece)


@plant(Kind.STREAM_CONTENT, "vllm-project/vllm #16832", "stream.content", "stability.output")
class WholeAnswerLosesItsEnd(Planted):
    """An answer that comes whole lacks its last token; streams are complete."""

    def emit(self, scheduler: Scheduler, request: Request, piece: Piece) -> None:
        if request.call.stream or len(request.tokens) < request.max_tokens:
            super().emit(scheduler, request, piece)


@plant(Kind.STREAM_CONTENT, "vllm-project/vllm PR #47494", "stability.output", "stream.content", "outcomes.normal")
class ChatLosesFirstToken(Planted):
    """Beside other requests, every fourth chat stream lacks its first token."""

    def emit(self, scheduler: Scheduler, request: Request, piece: Piece) -> None:
        chat = request.call.endpoint is Endpoint.CHAT and len(scheduler.active) > 1
        if not (chat and len(request.tokens) == 1 and self.nth(4)):
            super().emit(scheduler, request, piece)
