"""Streams that end wrongly: sentinels, finish reasons, errors inside, and bodies that never end."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server_launch.reference import answers
from server_launch.reference.errors import unavailable
from server_launch.reference.http import HttpServer
from server_launch.reference.planted import wire
from server_launch.reference.planted.bug import Kind, Planted, plant
from server_launch.reference.request import Endpoint, Finish, Piece, Request


def edited(data: str, change: Callable[[dict[str, Any]], None]) -> str:
    """The data of an event with its JSON changed in place; the sentinel stays as it is."""
    if data == answers.DONE:
        return data
    value = json.loads(data)
    change(value)
    return answers.compact(value)


def _finish(word: str | None) -> Callable[[dict[str, Any]], None]:
    def change(value: dict[str, Any]) -> None:
        for choice in value["choices"]:
            choice["finish_reason"] = word

    return change


@plant(Kind.STREAM_END, "BerriAI/litellm PR #39748", "stream.protocol", "outcomes.normal")
class DoneMissingOnChat(Planted):
    """Streams of chat end without [DONE], those of completions with it."""

    def last_events(self, request: Request, finish: Finish) -> list[str]:
        events = super().last_events(request, finish)
        return events[:-1] if request.call.endpoint is Endpoint.CHAT else events


@plant(Kind.STREAM_END, "vllm-project/vllm PR #378", "stream.protocol", "outcomes.normal")
class DoneTwice(Planted):
    """Every tenth stream ends with [DONE] twice."""

    def last_events(self, request: Request, finish: Finish) -> list[str]:
        return [*super().last_events(request, finish), *([answers.DONE] if self.nth(10) else [])]


@plant(Kind.STREAM_END, "vllm-project/vllm PR #378", "stream.protocol", "outcomes.normal")
class DoneAfterEveryChunk(Planted):
    """Every chunk is followed by [DONE]."""

    def piece_events(self, request: Request, piece: Piece) -> list[str]:
        return [*super().piece_events(request, piece), answers.DONE]


@plant(Kind.STREAM_END, "vllm-project/vllm PR #378", "stream.protocol", "outcomes.normal")
class EventAfterDone(Planted):
    """The finish reason comes after [DONE]."""

    def last_events(self, request: Request, finish: Finish) -> list[str]:
        events = super().last_events(request, finish)
        return [*events[1:], events[0]]


@plant(Kind.STREAM_END, "ai-dynamo/dynamo #1856", "stream.protocol", "outcomes.normal")
class FinishReasonMissing(Planted):
    """The last chunk of a stream has a null finish reason."""

    def last_events(self, request: Request, finish: Finish) -> list[str]:
        return [edited(data, _finish(None)) for data in super().last_events(request, finish)]


@plant(Kind.STREAM_END, "ollama/ollama #4357", "stream.protocol", "outcomes.normal")
class FinishReasonEmpty(Planted):
    """Every chunk but the last has an empty string for a finish reason."""

    def piece_events(self, request: Request, piece: Piece) -> list[str]:
        return [edited(data, _finish("")) for data in super().piece_events(request, piece)]


@plant(Kind.STREAM_END, "ai-dynamo/dynamo #8549", "stream.content", "stability.output", "stream.protocol")
class FinishReasonWrong(Planted):
    """Every tenth stream that reached its length says that it stopped."""

    def last_events(self, request: Request, finish: Finish) -> list[str]:
        events = super().last_events(request, finish)
        return [edited(data, _finish("stop")) for data in events] if self.nth(10) else events


@plant(Kind.STREAM_END, "ai-dynamo/dynamo #1856", "stream.protocol", "outcomes.normal")
class FinishReasonTwice(Planted):
    """The finish reason comes with two chunks."""

    def last_events(self, request: Request, finish: Finish) -> list[str]:
        events = super().last_events(request, finish)
        return [events[0], *events]


@plant(Kind.STREAM_END, "EricLBuehler/mistral.rs #1874", "outcomes.timeout", "stream.protocol", "progress.stall", "outcomes.normal")
class StreamLeftOpen(Planted):
    """Every tenth stream sends its [DONE] and then leaves its body open."""

    async def close_stream(self, request: Request, send: Send) -> None:
        if self.nth(10):
            await asyncio.Event().wait()
        await super().close_stream(request, send)


@plant(Kind.STREAM_END, "ai-dynamo/dynamo PR #12442", "outcomes.normal")
class ErrorEventAsSuccess(Planted):
    """Every fifteenth stream ends with an error event in place of its finish reason, and counts as completed."""

    def last_events(self, request: Request, finish: Finish) -> list[str]:
        events = super().last_events(request, finish)
        return [answers.compact(unavailable("backend error").body()), *events[1:]] if self.nth(15) else events


@plant(Kind.STREAM_END, "BerriAI/litellm PR #39748", "outcomes.normal", "stream.protocol")
class StreamEndsAnywhere(Planted):
    """Every fifteenth stream just ends after its text: no finish reason, no [DONE]."""

    def last_events(self, request: Request, finish: Finish) -> list[str]:
        return [] if self.nth(15) else super().last_events(request, finish)


@plant(Kind.STREAM_END, "HabanaAI/vllm-fork #1426", "outcomes.normal")
class StreamCut(Planted):
    """Every three hundredth chunk is followed by a cut of its connection."""

    def wrap(self, app: ASGIApp, server: HttpServer) -> ASGIApp:
        async def cutting(scope: Scope, receive: Receive, send: Send) -> None:
            async def sending(message: Message) -> None:
                if message.get("more_body") and self.nth(300):
                    wire.transport(scope).abort()
                await send(message)

            await app(scope, receive, sending)

        return cutting
