"""HTTP/1.1 for the fake server: requests in, bytes out, and who hung up. Small on purpose, and nobody else's code."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

MAX_HEAD_BYTES = 65_536
MAX_BODY_BYTES = 4_000_000
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Payload Too Large",
    500: "Internal Server Error",
}


@dataclass(slots=True, kw_only=True)
class Message:
    """A request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class BadMessage(Exception):
    """Not HTTP; the text is for the answer."""


@dataclass(eq=False, slots=True)
class Connection(asyncio.Protocol):
    """One connection. `handle` answers a request; `on_gone` of the request under way is called when the client hangs up."""

    handle: Callable[["Connection", Message], Awaitable[None]]
    on_gone: Callable[[], None] | None = None
    gone: bool = False
    _buffer: bytearray = field(default_factory=bytearray)
    _transport: asyncio.Transport | None = None
    _task: asyncio.Task[None] | None = None
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._task = asyncio.ensure_future(self._serve())

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        self._buffer += data
        self._arrived.set()

    def eof_received(self) -> bool:
        """A FIN: the client will say no more, and this server takes that for leaving."""
        self._left()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """A reset, or our own close."""
        self._left()

    def write(self, data: bytes) -> None:
        """Send, unless nobody listens."""
        if self._transport is not None and not self.gone:
            self._transport.write(data)

    def head(self, status: int, kind: str, length: int | None) -> None:
        """Status line and headers; without a length the body goes out in chunks."""
        how = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
        self.write(f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}\r\ncontent-type: {kind}\r\n{how}\r\n\r\n".encode())

    def chunk(self, data: bytes) -> None:
        """One chunk of a body; an empty one ends it."""
        self.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def whole(self, status: int, body: bytes, kind: str = "application/json") -> None:
        """An answer in one piece."""
        self.head(status, kind, len(body))
        self.write(body)

    def close(self) -> None:
        """Hang up, politely."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Hang up with a reset."""
        if self._transport is not None:
            self._transport.abort()

    def _left(self) -> None:
        self.gone = True
        self._arrived.set()
        if self.on_gone is not None:
            self.on_gone()

    async def _serve(self) -> None:
        try:
            while not self.gone:
                message = await self._message()
                if message is None:
                    break
                await self.handle(self, message)
        except BadMessage as error:
            self.whole(400, str(error).encode(), "text/plain")
        self.close()

    async def _message(self) -> Message | None:
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > MAX_HEAD_BYTES:
                raise BadMessage("head too long")
            if not await self._more():
                return None
        head, _, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        method, path, headers = _head(head)
        self._buffer[:] = rest
        if "transfer-encoding" in headers:
            return Message(method=method, path=path, headers=headers, body=await self._chunked())
        try:
            length = int(headers.get("content-length", "0"))
        except ValueError as error:
            raise BadMessage("content-length is not a number") from error
        if not 0 <= length <= MAX_BODY_BYTES:
            raise BadMessage("content-length is impossible")
        body = await self._take(length)
        return None if body is None else Message(method=method, path=path, headers=headers, body=body)

    async def _take(self, length: int) -> bytes | None:
        while len(self._buffer) < length:
            if not await self._more():
                return None
        taken = bytes(self._buffer[:length])
        del self._buffer[:length]
        return taken

    async def _chunked(self) -> bytes:
        body = b""
        while True:
            while b"\r\n" not in self._buffer:
                if not await self._more():
                    raise BadMessage("chunks ended early")
            line, _, _ = bytes(self._buffer).partition(b"\r\n")
            del self._buffer[: len(line) + 2]
            try:
                size = int(line.split(b";")[0], 16)
            except ValueError as error:
                raise BadMessage("bad chunk size") from error
            data = await self._take(size + 2)
            if data is None or len(body) > MAX_BODY_BYTES:
                raise BadMessage("chunks ended early or never")
            body += data[:size]
            if not size:
                return body

    async def _more(self) -> bool:
        if self.gone:
            return False
        self._arrived.clear()
        await self._arrived.wait()
        return not self.gone


def _head(head: bytes) -> tuple[str, str, dict[str, str]]:
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadMessage("not a request line")
    headers = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise BadMessage("not a header")
        headers[name.strip().lower()] = value.strip()
    return parts[0], parts[1], headers
