"""Bad requests that get the wrong kind of answer, none, or the right one with a hook in it."""

import asyncio
import logging
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from server_launch.reference.errors import ApiError
from server_launch.reference.http import HttpServer
from server_launch.reference.planted import wire
from server_launch.reference.planted.bug import Kind, Planted, plant
from server_launch.reference.planted.wire import Answer
from server_launch.reference.request import Call, Endpoint, Request
from server_launch.reference.scheduler import Scheduler

_log = logging.getLogger("reference::http")


class _Refusing(Planted):
    """Puts every refusal through `change`."""

    def wrap(self, app: ASGIApp, server: HttpServer) -> ASGIApp:
        return wire.refusing(app, self.change)

    async def change(self, scope: Scope, answer: Answer) -> Answer | None:
        """What is sent instead of a refusal."""
        return answer


@plant(Kind.WRONG_VERDICT, "vllm-project/vllm #35438", "outcomes.rejection")
class RefusalIs500(_Refusing):
    """Every request that should be refused with a 4xx gets a 500."""

    async def change(self, scope: Scope, answer: Answer) -> Answer | None:
        return answer.but(status=500)


@plant(Kind.WRONG_VERDICT, "sgl-project/sglang PR #31802", "outcomes.rejection")
class RefusalIs200(_Refusing):
    """The error body of a refused request comes with status 200."""

    async def change(self, scope: Scope, answer: Answer) -> Answer | None:
        return answer.but(status=200)


@plant(Kind.WRONG_VERDICT, "vllm-project/vllm #765", "outcomes.rejection", "outcomes.timeout")
class RefusalHangs(_Refusing):
    """A refusal by the scheduler never reaches the client: the connection stays open without an answer."""

    async def change(self, scope: Scope, answer: Answer) -> Answer | None:
        if b"unsupported_parameter" in answer.body:
            await asyncio.Event().wait()
        return answer


@plant(Kind.WRONG_VERDICT, "sgl-project/sglang #40076", "outcomes.rejection")
class RefusalCut(_Refusing):
    """A bad request is answered by cutting the connection."""

    async def change(self, scope: Scope, answer: Answer) -> Answer | None:
        wire.transport(scope).abort()
        return None


@plant(Kind.WRONG_VERDICT, "ai-dynamo/dynamo #8549", "outcomes.rejection")
class RefusalIsHtml(_Refusing):
    """The body of a refusal is a page of HTML."""

    async def change(self, scope: Scope, answer: Answer) -> Answer | None:
        return answer.but(body=b"<html><body><h1>Bad Request</h1></body></html>", content_type="text/html")


@plant(Kind.WRONG_VERDICT, "vllm-project/vllm #35438", "outcomes.rejection")
class RefusalIsEmpty(_Refusing):
    """A refusal has the right status and no body."""

    async def change(self, scope: Scope, answer: Answer) -> Answer | None:
        return answer.but(body=b"")


@plant(Kind.WRONG_VERDICT, "vllm-project/vllm PR #47494", "outcomes.rejection")
class WholeRefusalIs500(Planted):
    """A bad request gets its 4xx when it asks for a stream, and a 500 when it does not."""

    def validate(self, server: HttpServer, endpoint: Endpoint, body: dict[str, Any]) -> tuple[Call, list[tuple[str, str]]]:
        try:
            return super().validate(server, endpoint, body)
        except ApiError as error:
            raise error if body.get("stream") else ApiError(500, error.message) from None

    def refusal(self, scheduler: Scheduler, request: Request) -> ApiError | None:
        error = super().refusal(scheduler, request)
        return ApiError(500, error.message) if error and not request.call.stream else error


@plant(Kind.WRONG_VERDICT, "llm-d/llm-d PR #1564", "outcomes.rejection", "outcomes.normal", "outcomes.accepted")
class RefusalSpoilsConnection(_Refusing):
    """A refusal is right, and the next request on the same connection is cut."""

    def __init__(self) -> None:
        super().__init__()
        self._spoilt: set[tuple[str, int]] = set()

    def wrap(self, app: ASGIApp, server: HttpServer) -> ASGIApp:
        inner = super().wrap(app, server)

        async def cutting(scope: Scope, receive: Receive, send: Send) -> None:
            if tuple(scope["client"]) in self._spoilt:
                wire.transport(scope).abort()
            else:
                await inner(scope, receive, send)

        return cutting

    async def change(self, scope: Scope, answer: Answer) -> Answer | None:
        self._spoilt.add(tuple(scope["client"]))
        return answer


@plant(Kind.WRONG_VERDICT, "llm-d/llm-d PR #1564", "outcomes.rejection", "outcomes.normal", "outcomes.accepted")
class RefusalResetsEverySecond(_Refusing):
    """Every second connection is reset right after a refusal that promised to keep it."""

    async def change(self, scope: Scope, answer: Answer) -> Answer | None:
        if self.nth(2):
            asyncio.get_running_loop().call_later(0.02, wire.transport(scope).abort)
        return answer


@plant(Kind.WRONG_VERDICT, "vllm-project/vllm #54017", "log.clean")
class RefusalLogsTraceback(_Refusing):
    """Every refusal leaves a traceback in the log."""

    async def change(self, scope: Scope, answer: Answer) -> Answer | None:
        try:
            raise ValueError("request validation failed")
        except ValueError:
            _log.exception("unhandled error in a request")
        return answer
