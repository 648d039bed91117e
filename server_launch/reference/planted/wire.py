"""Between the honest answer and the wire: helpers for bugs that change an HTTP answer, drop it, or cut its connection."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer that is not a stream."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def but(self, *, status: int | None = None, body: bytes | None = None, content_type: str | None = None) -> "Answer":
        """The same answer with something else in it, and a content length that fits."""
        told = self.body if body is None else body
        kept = [(name, value) for name, value in self.headers if name not in (b"content-length", b"content-type")]
        kind = dict(self.headers)[b"content-type"] if content_type is None else content_type.encode()
        headers = (*kept, (b"content-type", kind), (b"content-length", b"%d" % len(told)))
        return replace(self, status=self.status if status is None else status, headers=headers, body=told)


def generating(scope: Scope) -> bool:
    """Whether a request goes to one of the two endpoints that generate."""
    return str(scope["path"]).endswith("/completions")


def transport(scope: Scope) -> Any:
    """The connection of a request."""
    return scope["extensions"]["transport"]["transport"]


def refusing(app: ASGIApp, change: Callable[[Scope, Answer], Awaitable[Answer | None]]) -> ASGIApp:
    """An application that puts every refusal (4xx) of a generation request through `change`; None: nothing is sent."""

    async def changed(scope: Scope, receive: Receive, send: Send) -> None:
        head: list[Message] = []

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and 400 <= message["status"] < 500:
                head.append(message)
                return
            if not head:
                await send(message)
                return
            told = Answer(status=head[0]["status"], headers=tuple(head[0]["headers"]), body=message.get("body", b""))
            answer = await change(scope, told)
            if answer is not None:
                await send({"type": "http.response.start", "status": answer.status, "headers": list(answer.headers)})
                await send({"type": "http.response.body", "body": answer.body})

        await app(scope, receive, sending if generating(scope) else send)

    return changed


def answering(path: str, app: ASGIApp, before: Callable[[Scope], Awaitable[int | None]]) -> ASGIApp:
    """An application that awaits `before` ahead of each request to a path, and answers with the status that it returns, if any."""

    async def changed(scope: Scope, receive: Receive, send: Send) -> None:
        status = await before(scope) if scope["path"] == path else None
        if status is None:
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    return changed
