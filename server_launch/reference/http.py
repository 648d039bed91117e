"""The OpenAI-style HTTP side: reads a request, hands it to the scheduler, and writes what comes back.

Each generation has a watcher that awaits the ASGI disconnect message, so a client that leaves is noticed when its FIN or
RST arrives, whatever the request is waiting for. A client that shuts down only its sending side counts as gone.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from server_launch.reference import answers, bodies
from server_launch.reference.errors import ApiError, unavailable
from server_launch.reference.inbox import Inbox
from server_launch.reference.metrics import CONTENT_TYPE
from server_launch.reference.options import Options
from server_launch.reference.request import Call, Endpoint, Finish, Request
from server_launch.reference.scheduler import Scheduler
from server_launch.reference.stops import StopFilter
from server_launch.reference.trace import unix_now_s

BODY_LIMIT_BYTES = 4 * 2**20
BODY_TIMEOUT_S = 30.0
INLINE_ENCODE_CHARS = 20_000
"""A longer prompt is tokenized off the event loop, so that it delays nobody's tokens."""
_PREFIX = {Endpoint.COMPLETIONS: "cmpl-", Endpoint.CHAT: "chatcmpl-"}


class HttpServer:
    """The ASGI application of one scheduler; `app` is what uvicorn serves."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.options: Options = scheduler.options
        self.seams = scheduler.seams
        self.started_unix_s = int(unix_now_s())
        self.app: ASGIApp = self.seams.wrap(self._routes(), self)

    def health(self) -> ApiError | None:
        """None while requests can be served."""
        trouble = self.scheduler.trouble()
        return None if trouble is None else unavailable(trouble)

    def _routes(self) -> Starlette:
        app = Starlette(
            routes=[
                Route("/v1/completions", Generation(self, Endpoint.COMPLETIONS), methods=["POST"]),
                Route("/v1/chat/completions", Generation(self, Endpoint.CHAT), methods=["POST"]),
                Route("/v1/models", self._models),
                Route("/health", self._health),
                *([Route("/metrics", self._metrics)] if self.options.metrics else []),
            ],
            exception_handlers={HTTPException: _http_exception},
        )
        app.router.redirect_slashes = False
        return app

    async def _models(self, _request: HttpRequest) -> Response:
        model = {"id": self.options.served_model_name, "object": "model", "created": self.started_unix_s, "owned_by": "reference"}
        return _json({"object": "list", "data": [{**model, "max_model_len": self.scheduler.context_length}]})

    async def _health(self, _request: HttpRequest) -> Response:
        error = self.seams.health(self)
        return _json({"status": "ok"}) if error is None else _refused(error)

    async def _metrics(self, _request: HttpRequest) -> Response:
        return Response(self.scheduler.metrics.text(), headers={"content-type": CONTENT_TYPE})


class Generation:
    """One generating endpoint, as an ASGI application."""

    def __init__(self, server: HttpServer, endpoint: Endpoint) -> None:
        self._server = server
        self._seams = server.seams
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        events = Inbox(asyncio.get_running_loop())
        try:
            request = await self._submit(HttpRequest(scope, receive), events)
        except ClientDisconnect:
            return
        except ApiError as error:
            await _refused(error)(scope, receive, send)
            return
        async with self._watched(request, receive) as watcher:
            self._seams.accepted(self._server, request)
            if request.call.stream:
                await self._stream(request, events, send, watcher)
            else:
                await self._whole(request, events, scope, receive, send)

    async def _submit(self, http: HttpRequest, events: Inbox) -> Request:
        """From the wire into the queue. Raises ApiError with the answer for anything that does not get there."""
        raw = await _read_body(http)
        call, messages = self._seams.validate(self._server, self._endpoint, bodies.read_json(raw))
        prompt_ids = await self._prompt_ids(call, messages)
        left = self._server.scheduler.context_length - len(prompt_ids)
        max_tokens = max(1, left) if call.max_tokens is None else call.max_tokens
        request = Request(
            id=_PREFIX[self._endpoint] + _request_id(http, call),
            model=self._server.options.served_model_name,
            call=call,
            prompt_ids=prompt_ids,
            max_tokens=max_tokens,
            created_unix_s=int(unix_now_s()),
            deliver=events.put,
            stops=StopFilter(call.stops),
        )
        self._server.scheduler.submit(request)
        return request

    async def _prompt_ids(self, call: Call, messages: list[tuple[str, str]]) -> tuple[int, ...]:
        scheduler = self._server.scheduler
        if isinstance(call.prompt, tuple):
            if any(not 0 <= token < scheduler.engine.vocab_size for token in call.prompt):
                raise ApiError(400, f"prompt: token ids go from 0 to {scheduler.engine.vocab_size - 1}", param="prompt")
            return call.prompt
        text = self._render(messages) if messages else call.prompt
        if len(text) <= INLINE_ENCODE_CHARS:
            return tuple(scheduler.tokenizer.encode(text))
        return tuple(await asyncio.to_thread(scheduler.tokenizer.encode, text))

    def _render(self, messages: list[tuple[str, str]]) -> str:
        try:
            return self._server.scheduler.tokenizer.render_chat(messages)
        except ValueError as error:
            raise ApiError(400, f"messages: {error}", param="messages") from None

    @asynccontextmanager
    async def _watched(self, request: Request, receive: Receive) -> AsyncIterator["asyncio.Task[None]"]:
        """While inside, a client that leaves is reported, which ends the task; on the way out nothing is left running."""
        watcher = asyncio.create_task(self._watch(request, receive))
        try:
            yield watcher
        finally:
            watcher.cancel()
            self._server.scheduler.abort(request)

    async def _watch(self, request: Request, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            continue
        self._seams.client_gone(self._server, request)

    async def _stream(self, request: Request, events: Inbox, send: Send, watcher: "asyncio.Task[None]") -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if request.call.endpoint is Endpoint.CHAT:
            await self._write(request, send, [answers.role_chunk(request)])
        while not isinstance(event := await events.get(), Finish):
            if not watcher.done():
                await self._write(request, send, self._seams.piece_events(request, event))
                await asyncio.sleep(0)  # sending alone does not yield, and a backlog must hide neither a reset nor other streams
        if event.error is not None:
            await self._write(request, send, self._seams.error_events(request, unavailable(event.error)))
        elif event.finish_reason is not None:
            await self._write(request, send, self._seams.last_events(request, event))
        await self._seams.close_stream(request, send)

    async def _write(self, request: Request, send: Send, events: list[str]) -> None:
        for data in events:
            await self._seams.write(request, send, self._seams.frame(request, data))

    async def _whole(self, request: Request, events: Inbox, scope: Scope, receive: Receive, send: Send) -> None:
        texts: list[str] = []
        while not isinstance(event := await events.get(), Finish):
            texts.append(event.text)
        if event.error is not None:
            response = _refused(unavailable(event.error))
        elif event.finish_reason is not None:
            response = _json(self._seams.whole(request, "".join(texts), event))
        else:
            return
        await response(scope, receive, send)


async def _read_body(http: HttpRequest) -> bytes:
    """The whole body. Raises ApiError (415, 413, 408), or ClientDisconnect if the client left before its end."""
    kind, _, parameters = http.headers.get("content-type", "").partition(";")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    if kind.strip().lower() != "application/json" or charset not in ("", "utf-8", "utf8"):
        raise ApiError(415, "send the body as content-type application/json in UTF-8", code="unsupported_media_type")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in http.stream():
                body += part
                if len(body) > BODY_LIMIT_BYTES:
                    raise ApiError(413, f"the body is larger than {BODY_LIMIT_BYTES} bytes", code="body_too_large")
    except TimeoutError:
        raise ApiError(408, f"the body did not arrive within {BODY_TIMEOUT_S:g} s", code="request_timeout") from None
    return bytes(body)


def _request_id(http: HttpRequest, call: Call) -> str:
    """The body's id, else the header's, else a new one."""
    header = http.headers.get("x-request-id", "")
    if len(header) > bodies.ID_LIMIT_CHARS:
        raise ApiError(400, f"the X-Request-Id header is longer than {bodies.ID_LIMIT_CHARS} characters", param="request_id")
    return call.request_id or header or uuid.uuid4().hex


def _json(value: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(answers.compact(value), status_code=status, headers=headers, media_type="application/json")


def _refused(error: ApiError) -> Response:
    """The answer for an error; a body that was not read to its end cannot be followed by another request."""
    return _json(error.body(), error.status, {"connection": "close"} if error.status in (408, 413) else None)


async def _http_exception(_request: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    told = ApiError(error.status_code, error.detail, code={404: "not_found", 405: "method_not_allowed"}.get(error.status_code))
    return _json(told.body(), error.status_code, dict(error.headers or {}))
