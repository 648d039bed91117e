"""A reference server as a process of its own, and a client that speaks to it in raw bytes."""

import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MODEL = "tiny"
STAND_IN = "tests.server_launch.reference.standin:build"
DEADLINE_S = 20.0
"""How long a test waits for something that must happen; only a broken server takes this long."""


LONG_NAME = "m" * 20_000
TALKATIVE = ("--served-model-name", LONG_NAME, "--step-interval-ms", "1", "--context-length", "1048576")
"""A server whose every event holds its long name, at a pace at which an answer of millions of tokens cannot end within a test."""
FULL_BUFFERS_TOKENS = 3_000
"""60 MB in events of such a server: more than the sockets hold for a client that does not read, whatever the machine is tuned to."""


def eventually(condition: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """The first true value of `condition`; fails the test if there is none in time."""
    until_s = time.monotonic() + deadline_s
    while time.monotonic() < until_s:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError(f"never happened: {what}")


@dataclass
class Server:
    """One running server."""

    process: subprocess.Popen[str]
    log_path: Path
    port: int = 0
    clients: list["Client"] = field(default_factory=list)

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8")

    def traces(self) -> list[dict[str, Any]]:
        return [json.loads(text) for text in re.findall(r"^\[\S+ INFO  \S+\] pegainfer_http_trace (\{.*\})$", self.log(), re.M)]

    def trace(self, request_id: str) -> dict[str, Any]:
        """The one trace of a request, whose id may come decorated; waits for it."""

        def find() -> list[dict[str, Any]]:
            return [line for line in self.traces() if line["request_id"].removeprefix("chat").removeprefix("cmpl-") == request_id]

        found = eventually(find, f"a trace of {request_id}")
        line: dict[str, Any]
        [line] = found
        return line

    def client(self, **options: Any) -> "Client":
        client = Client(self.port, **options)
        self.clients.append(client)
        return client

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of a GET."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=DEADLINE_S) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def figure(self, name: str) -> float:
        """One series of /metrics, summed over what its labels leave open."""
        lines = [line for line in self.get("/metrics")[1].splitlines() if line.startswith(name)]
        assert lines, name
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def at_rest(self) -> bool:
        return self.figure("vllm:num_requests_running") == 0 and self.figure("vllm:num_requests_waiting") == 0

    def ask(self, **body: Any) -> dict[str, Any]:
        """A whole completion that must succeed."""
        status, _, answer = self.client().exchange(body)
        assert status == 200, answer
        whole: dict[str, Any] = json.loads(answer)
        return whole

    def unread(self, request_id: str) -> "Client":
        """Somebody who does not read a stream of a TALKATIVE server, for whom more was made than all buffers hold."""
        client = self.client(receive_buffer_bytes=2048)
        client.send({"model": LONG_NAME, "prompt": "endless", "max_tokens": 1_000_000, "stream": True, "request_id": request_id})
        eventually(lambda: self.figure("vllm:generation_tokens_total") > FULL_BUFFERS_TOKENS, "more than the buffers hold", 60)
        return client

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        return self.process.wait(deadline_s)


@contextlib.contextmanager
def serving(directory: Path, *options: str, engine: str | None = STAND_IN, env: dict[str, str] | None = None) -> Iterator[Server]:
    """A server that is ready; killed at the end if it still runs."""
    log_path = directory / f"server-{time.monotonic_ns()}.log"
    command = [sys.executable, "-m", "server_launch.reference", "--port", "0", "--served-model-name", MODEL]
    command += ["--engine", engine] if engine else []
    with log_path.open("w") as log:
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, **(env or {})})
    server = Server(process, log_path)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        match = re.fullmatch(r"ready http://127\.0\.0\.1:(\d+) pid=(\d+)\n", ready)
        assert match, f"{ready!r} {server.log()}"
        assert int(match[2]) == process.pid
        server.port = int(match[1])
        yield server
    finally:
        for client in server.clients:
            client.close()
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


class Client:
    """One connection."""

    def __init__(self, port: int, receive_buffer_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(DEADLINE_S)
        self.socket.connect(("127.0.0.1", port))
        self.buffer = b""

    def send(self, body: dict[str, Any] | bytes, *, path: str = "/v1/completions", method: str = "POST", **headers: str) -> None:
        """One request; a dictionary gets the model's name and becomes JSON."""
        raw = body if isinstance(body, bytes) else json.dumps({"model": MODEL, **body}).encode()
        lines = {"host": "test", "content-type": "application/json", "content-length": str(len(raw))}
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.socket.sendall(head.encode("latin-1") + b"\r\n" + raw)

    def read_until(self, mark: bytes, count: int = 1) -> bytes:
        """Everything up to the count-th mark; raises ConnectionError if the server ends first."""
        while self.buffer.count(mark) < count:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError(f"closed after {self.buffer!r}")
            self.buffer += data
        return self.buffer

    def read_to_end(self) -> bytes:
        """Everything until the server closes."""
        while data := self.socket.recv(65536):
            self.buffer += data
        return self.buffer

    def exchange(self, body: dict[str, Any] | bytes, **options: Any) -> tuple[int, dict[str, str], str]:
        """Send a request, read one whole answer with a content length or in chunks; status, headers, text."""
        self.send(body, **options)
        return self.answer()

    def answer(self) -> tuple[int, dict[str, str], str]:
        """The next whole answer of this connection."""
        head, _, _ = self.read_until(b"\r\n\r\n").partition(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.buffer = self.buffer[len(head) + 4 :]
        if "content-length" in headers:
            length = int(headers["content-length"])
            while len(self.buffer) < length:
                self.buffer += self.socket.recv(65536)
            body, self.buffer = self.buffer[:length], self.buffer[length:]
        else:
            body = self._chunks()
        return int(status_line.split()[1]), headers, body.decode()

    def _chunks(self) -> bytes:
        whole = b""
        while True:
            size_line, _, _ = self.read_until(b"\r\n").partition(b"\r\n")
            size = int(size_line, 16)
            needed = len(size_line) + 2 + size + 2
            while len(self.buffer) < needed:
                data = self.socket.recv(65536)
                if not data:
                    raise ConnectionError("closed inside a chunk")
                self.buffer += data
            whole += self.buffer[len(size_line) + 2 : needed - 2]
            self.buffer = self.buffer[needed:]
            if size == 0:
                return whole

    def half_close(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def leave(self, how: str) -> None:
        """`fin`: close. `rst`: reset. `half`: shut down the sending side only."""
        if how == "half":
            self.half_close()
            return
        if how == "rst":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self) -> None:
        self.socket.close()


def events(text: str) -> list[str]:
    """The data of each SSE event of a stream; anything else in it is an error."""
    *parts, rest = text.split("\n\n")
    assert rest == "", rest
    assert all(part.startswith("data: ") and "\n" not in part for part in parts)
    return [part.removeprefix("data: ") for part in parts]


def texts(found: list[str]) -> list[str]:
    """The text of each choice in the events of a stream, chat or not; empty ones left out."""
    choices = [choice for data in found if data != "[DONE]" for choice in json.loads(data).get("choices", [])]
    return [text for choice in choices if (text := choice.get("text") or choice.get("delta", {}).get("content"))]
