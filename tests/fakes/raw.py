"""A server of bytes: it says what a script tells it to, and records what came and how each connection ended."""

import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

PATIENCE_S = 10.0
"""Nothing in a test takes this long; a script that waits longer than that is stuck."""


@dataclass(slots=True)
class Peer:
    """One accepted connection, from the server's side."""

    socket: socket.socket
    requests: list[bytes] = field(default_factory=list)
    end: str = ""
    """`fin`, `reset`, or empty while the client is there."""

    def request(self) -> bytes:
        """The next whole request (head, and as much body as it announces); empty when the client left first."""
        data = b""
        while b"\r\n\r\n" not in data:
            more = self.receive()
            if not more:
                return b""
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
        while len(body) < length:
            body += self.receive()
        self.requests.append(head + b"\r\n\r\n" + body)
        return self.requests[-1]

    def receive(self) -> bytes:
        """Some bytes; empty at the end, which is then noted."""
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            self.end = "reset"
            return b""
        if not data:
            self.end = "fin"
        return data

    def send(self, data: bytes) -> None:
        """Bytes, as they are."""
        self.socket.sendall(data)

    def until_end(self) -> str:
        """Wait for the client to hang up, and say how it did."""
        while not self.end:
            self.receive()
        return self.end

    def close(self) -> None:
        """A FIN."""
        self.socket.close()

    def reset(self) -> None:
        """A reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


Script = Callable[[Peer], None]


class RawServer:
    """Runs one script for each connection, in order; further connections are turned away with a reset."""

    def __init__(self, *scripts: Script) -> None:
        self.peers: list[Peer] = []
        self.errors: list[Exception] = []
        self._scripts = scripts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        accepting = threading.Thread(target=self._accept, daemon=True)
        accepting.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # closing alone would leave the port open for as long as a thread waits in accept
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        if kind is None and self.errors:
            raise self.errors[0]

    def join(self, count: int = 1) -> None:
        """Wait until that many more scripts are over."""
        for _ in range(count):
            assert self._over.acquire(timeout=PATIENCE_S), "a script is stuck, or was never begun"

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            accepted.settimeout(PATIENCE_S)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = Peer(accepted)
            self.peers.append(peer)
            number = len(self.peers) - 1
            script = self._scripts[number] if number < len(self._scripts) else Peer.reset
            thread = threading.Thread(target=self._play, args=(script, peer), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _play(self, script: Script, peer: Peer) -> None:
        try:
            script(peer)
        except Exception as error:  # noqa: BLE001 - raised again in the test that runs it
            self.errors.append(error)
        finally:
            peer.socket.close()
            self._over.release()


def response(body: bytes, status: str = "200 OK", kind: str = "application/json", extra: str = "") -> bytes:
    """A whole answer with its length."""
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{extra}\r\n".encode() + body


STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One chunk of a body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(data: str) -> bytes:
    """One server-sent event in a chunk of its own."""
    return chunk(f"data: {data}\n\n".encode())
