"""uvicorn's HTTP/1.1 protocol, made to notice a client that leaves in every case, and to speak OpenAI's error form.

uvicorn alone does not see the end of a connection that has pipelined a second request (it stops reading, and later tells
the wrong request), nor a half-close behind an answer that is not being read.
"""

import asyncio

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from server_launch.reference import answers
from server_launch.reference.errors import ApiError

PIPELINE_LIMIT = 32


class Protocol(HttpToolsProtocol):
    """One connection. An application finds its transport in `scope["extensions"]["transport"]["transport"]`."""

    _running: RequestResponseCycle | None = None

    @property
    def answering(self) -> bool:
        """Whether a request of this connection is being answered."""
        return self._running is not None and not self._running.response_complete

    def cut(self) -> None:
        """Drop the connection and what was still to be sent."""
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Keep reading behind a pipelined request, or the end of the connection would go unseen."""
        super().data_received(data)
        if len(self.pipeline) > PIPELINE_LIMIT:
            self.cut()
        elif self.pipeline:
            self.flow.resume_reading()

    def eof_received(self) -> None:
        """A client that stops sending while it is being answered has left."""
        if self.answering:
            self.cut()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that is being answered, whichever came last."""
        super().connection_lost(exc)
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()

    def on_message_begin(self) -> None:
        """Put the transport where an application finds it."""
        super().on_message_begin()
        self.scope["extensions"] = {"transport": {"transport": self.transport}}

    def send_400_response(self, msg: str) -> None:
        """Answer what does not parse; behind the beginning of another answer only the connection can be closed."""
        if self._running is None or self._running.response_complete or not self._running.response_started:
            body = answers.compact(ApiError(400, msg, code="invalid_http").body()).encode()
            head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[400] + head + body)
        self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)
