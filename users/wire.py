"""One connection, and exactly how it ends.

A plain close is a FIN or a reset depending on what happens to lie in the receive buffer, so that two runs of the same
"disconnect" can test different things. Here each ending is chosen, and what was left unread is counted.
"""

import array
import fcntl
import socket
import ssl
import struct
import termios
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from analysis.vocabulary import Ending

RECEIVE_BYTES = 65536
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server listens. `prefix` is the path before `/v1`, without a slash at its end."""

    host: str
    port: int
    tls: bool
    prefix: str

    @classmethod
    def parse(cls, base_url: str) -> Self:
        """The address in `http://HOST[:PORT][/PREFIX]`. Raises ValueError for anything else."""
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not an http(s) URL: {base_url!r}")
        tls = parts.scheme == "https"
        return cls(host=parts.hostname, port=parts.port or (443 if tls else 80), tls=tls, prefix=parts.path.rstrip("/"))

    @property
    def host_header(self) -> str:
        """Value of the Host header."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Wire:
    """A connected socket. Under Locust the socket module is gevent's, so that waiting here lets other users run."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        """Connect. Raises OSError (TimeoutError after `timeout_s`)."""
        self.address = address
        self.used = False
        """True once an exchange was finished on it: what follows is a reuse."""
        connected = socket.create_connection((address.host, address.port), timeout=timeout_s)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket: socket.socket = connected
        if address.tls:
            self._socket = ssl.create_default_context().wrap_socket(connected, server_hostname=address.host)

    def send(self, data: bytes, timeout_s: float) -> None:
        """Hand everything to the kernel. Raises OSError (TimeoutError after `timeout_s`)."""
        self._socket.settimeout(max(timeout_s, 0.001))
        self._socket.sendall(data)

    def receive(self, timeout_s: float) -> bytes:
        """What has arrived, at once when there is something; empty at the end. Raises OSError (TimeoutError after `timeout_s`)."""
        self._socket.settimeout(max(timeout_s, 0.001))
        return self._socket.recv(RECEIVE_BYTES)

    def unread_bytes(self) -> int:
        """Bytes that lie in the kernel's receive buffer."""
        count = array.array("i", [0])
        fcntl.ioctl(self._socket.fileno(), termios.FIONREAD, count)
        return count[0]

    def close(self) -> None:
        """Close after an answer was read to its end; idempotent."""
        self._socket.close()

    def leave(self, ending: Ending) -> Ending:
        """Close in the middle of an exchange, as asked; returns the ending that the kernel was really told.

        FIN drains what has arrived first, as far as that is possible without waiting. FIN_UNREAD only is one when bytes lie unread.
        """
        if ending is Ending.RST:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        elif ending is Ending.FIN:
            self._drain()
        really = ending
        if ending in (Ending.FIN, Ending.FIN_UNREAD):
            really = Ending.FIN_UNREAD if self.unread_bytes() else Ending.FIN
        self._socket.close()
        return really

    def _drain(self) -> None:
        self._socket.setblocking(False)
        try:
            while self._socket.recv(RECEIVE_BYTES):
                continue
        except (BlockingIOError, ssl.SSLWantReadError, ConnectionError):
            return


@dataclass(slots=True)
class Link:
    """What a user keeps between its requests: the connection, when the last answer left it usable."""

    address: Address
    wire: Wire | None = None
    kept_s: float = 0.0
    """When the last answer on it ended, on the monotonic clock."""

    def drop(self) -> None:
        """Close what is kept."""
        if self.wire is not None:
            self.wire.close()
            self.wire = None
