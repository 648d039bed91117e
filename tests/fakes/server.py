"""An OpenAI-like server that shares no code with the project: the unseen server of the tests, fast and able to misbehave.

    python -m tests.fakes.server --port 0 --cap 8 --token-ms 10 --log FILE [--bug NAME]...

It prints `listening on PORT` when it is ready, and ends on SIGTERM or SIGINT.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.asks import Ask, Refusal, admit, parse
from tests.fakes.engine import Engine, Task
from tests.fakes.http11 import Connection, Message

BUGS = {
    "leak_slot": "the slot of each client that leaves in mid-stream is never used again",
    "compute_for_the_gone": "clients that leave are computed to their end",
    "damage_neighbours": "a client that leaves spoils the next token of the others",
    "lose_traces": "requests that were not completed leave no trace",
    "double_traces": "a cancelled request is traced twice",
    "no_done": "streams end without their terminator",
    "cut": "every fifth stream is closed after three tokens",
    "double_finish": "the finish reason is sent twice",
    "five_hundred": "a bad value gives a 500",
    "hang": "every seventh request never gets an answer",
    "drop_token": "every fifth stream loses its third token",
    "crash": "a client that leaves before its first token ends the process",
}
STYLES = {
    "late_headers": "headers come with the first token",
    "role_event": "a chat stream begins with an event that has a role and no text",
    "finish_apart": "the finish reason comes in an event of its own, without text",
    "pairs": "two tokens ride in one event",
    "crlf": "lines of the event stream end in CR LF",
    "comments": "comments keep the stream alive",
    "close_each": "the connection is closed after each answer",
}


@dataclass(slots=True, kw_only=True)
class Fake:
    """The server. `refuse_as_event`: a stream that the scheduler refuses gets 200 and an error event."""

    engine: Engine
    model: str
    context: int
    gauges: bool
    refuse_as_event: bool
    bugs: frozenset[str] = frozenset()
    styles: frozenset[str] = frozenset()
    count: int = 0
    began_unix_s: int = field(default_factory=lambda: int(time.time()))

    async def handle(self, connection: Connection, message: Message) -> None:
        """Answer one request."""
        routes: dict[str, tuple[str, Callable[[Connection, Message], Any]]] = {
            "/health": ("GET", self._health), "/metrics": ("GET", self._metrics), "/v1/models": ("GET", self._models),
            "/v1/completions": ("POST", self._generate), "/v1/chat/completions": ("POST", self._generate),
        }  # fmt: skip
        method, answer = routes.get(message.path.partition("?")[0], ("", None))
        try:
            if answer is None:
                raise Refusal(status=404, message=f"no such path {message.path}")
            if method != message.method:
                raise Refusal(status=405, message=f"{message.method} is not for {message.path}")
            await answer(connection, message)
        except Refusal as refusal:
            connection.whole(refusal.status, _error(refusal))
        if "close_each" in self.styles:
            connection.close()

    async def _health(self, connection: Connection, message: Message) -> None:
        connection.whole(200, b"{}")

    async def _models(self, connection: Connection, message: Message) -> None:
        connection.whole(200, _json({"object": "list", "data": [{"id": self.model, "object": "model"}]}))

    async def _metrics(self, connection: Connection, message: Message) -> None:
        engine, label = self.engine, f'{{model_name="{self.model}"}}'
        lines = [f"vllm:generation_tokens_total{label} {engine.tokens}"]
        lines += [f'vllm:request_success_total{{finished_reason="{reason}"}} {count}' for reason, count in engine.finished.items()]
        if self.gauges:
            lines += [f"vllm:num_requests_running{label} {len(engine.active)}", f"vllm:num_requests_waiting{label} {len(engine.pending)}"]
        connection.whole(200, ("\n".join(lines) + "\n").encode(), "text/plain; version=0.0.4")

    async def _generate(self, connection: Connection, message: Message) -> None:
        ask: Ask | None = None
        self.count += 1
        try:
            if "five_hundred" in self.bugs and b"-5" in message.body:
                raise Refusal(status=500, message="internal error", kind="server_error")
            ask = parse(message, self.model, self.count)
            if self.count % 7 == 0 and "hang" in self.bugs:
                await asyncio.sleep(3600)
            admit(ask, message, self.context)
        except Refusal as refusal:
            if ask is not None and refusal.seen_by_engine:
                self.engine.reject(self._task(ask, lambda text, finish: None), refusal.message)
                if ask.stream and self.refuse_as_event:
                    connection.head(200, "text/event-stream", None)
                    connection.chunk(b"data: " + _error(refusal) + b"\n\ndata: [DONE]\n\n")
                    connection.chunk(b"")
                    return
            raise
        await self._serve(connection, ask)

    async def _serve(self, connection: Connection, ask: Ask) -> None:
        made: asyncio.Queue[tuple[str, str | None] | None] = asyncio.Queue()
        task = self._task(ask, lambda text, finish: made.put_nowait((text, finish)))

        def left() -> None:
            if "crash" in self.bugs and not task.made:
                os._exit(70)
            self.engine.leave(task)
            made.put_nowait(None)

        connection.on_gone = left
        if connection.gone:
            left()
        else:
            self.engine.submit(task)
        try:
            tokens = self._tokens(made)
            await (self._stream(connection, ask, tokens) if ask.stream else self._whole(connection, ask, task, tokens))
        finally:
            connection.on_gone = None

    async def _tokens(self, made: "asyncio.Queue[tuple[str, str | None] | None]") -> AsyncIterator[tuple[str, str | None, int]]:
        """Text, finish reason and number of tokens of each event; ends early when the client left."""
        size = 2 if "pairs" in self.styles else 1
        texts: list[str] = []
        while (each := await made.get()) is not None:
            texts.append(each[0])
            if len(texts) == size or each[1] is not None:
                yield "".join(texts), each[1], len(texts)
                texts = []
            if each[1] is not None:
                return

    async def _stream(self, connection: Connection, ask: Ask, tokens: AsyncIterator[tuple[str, str | None, int]]) -> None:
        events, number, bad = _Events(self, connection, ask), self.count, self.bugs
        if "late_headers" not in self.styles:
            events.begin()
        made = seen = 0
        async for text, finish, count in tokens:
            made, seen = made + count, seen + 1
            if seen == 4 and number % 5 == 0 and "cut" in bad:
                connection.close()
                return
            if seen == 3 and number % 5 == 0 and "drop_token" in bad:
                continue
            events.token(text, finish)
        if connection.gone:
            return
        events.end(made, done="no_done" not in bad)

    async def _whole(self, connection: Connection, ask: Ask, task: Task, tokens: AsyncIterator[tuple[str, str | None, int]]) -> None:
        text, reason, made = "", None, 0
        async for part, finish, count in tokens:
            text, reason, made = text + part, finish, made + count
        choice: dict[str, Any] = {"index": 0, "finish_reason": reason}
        choice |= {"message": {"role": "assistant", "content": text}} if ask.chat else {"text": text}
        made = task.made
        connection.whole(200, _json({**self.envelope(ask, stream=False), "choices": [choice], "usage": _usage(ask, made)}))

    def envelope(self, ask: Ask, stream: bool) -> dict[str, Any]:
        """What every answer and event carries."""
        kind = ("chat.completion.chunk" if stream else "chat.completion") if ask.chat else "text_completion"
        return {"id": ask.id, "object": kind, "created": self.began_unix_s, "model": self.model}

    def _task(self, ask: Ask, emit: Callable[[str, str | None], None]) -> Task:
        return Task(id=ask.id, prompt=ask.prompt, prompt_tokens=ask.prompt_tokens, max_tokens=ask.max_tokens, emit=emit, stops=ask.stops)


@dataclass(slots=True)
class _Events:
    """Writes one event stream in the server's style."""

    server: Fake
    connection: Connection
    ask: Ask
    begun: bool = False

    def begin(self) -> None:
        """Headers, and the role where that is the style."""
        self.begun = True
        self.connection.head(200, "text/event-stream; charset=utf-8", None)
        if self.ask.chat and "role_event" in self.server.styles:
            self._send({"role": "assistant", "content": ""}, None)

    def token(self, text: str, finish: str | None) -> None:
        """One event; two where the finish reason comes apart."""
        if not self.begun:
            self.begin()
        if "comments" in self.server.styles:
            self._raw(": still here")
        apart = finish is not None and "finish_apart" in self.server.styles
        self._choice(text, None if apart else finish)
        if apart or (finish and "double_finish" in self.server.bugs):
            self._choice("", finish)

    def end(self, made: int, *, done: bool) -> None:
        """Usage where it was asked for, the terminator, and the end of the body."""
        if self.ask.usage:
            self._raw(f"data: {_json({**self.server.envelope(self.ask, True), 'choices': [], 'usage': _usage(self.ask, made)}).decode()}")
        if done:
            self._raw("data: [DONE]")
        self.connection.chunk(b"")

    def _choice(self, text: str, finish: str | None) -> None:
        if self.ask.chat:
            self._send({"content": text}, finish)
        else:
            self._send(text, finish)

    def _send(self, content: object, finish: str | None) -> None:
        choice = {"index": 0, "delta" if self.ask.chat else "text": content, "finish_reason": finish}
        self._raw(f"data: {_json({**self.server.envelope(self.ask, True), 'choices': [choice]}).decode()}")

    def _raw(self, line: str) -> None:
        end = "\r\n" if "crlf" in self.server.styles else "\n"
        self.connection.chunk((line + end + end).encode())


def _usage(ask: Ask, made: int) -> dict[str, int]:
    return {"prompt_tokens": ask.prompt_tokens, "completion_tokens": made, "total_tokens": ask.prompt_tokens + made}


def _error(refusal: Refusal) -> bytes:
    return _json({"error": {"message": refusal.message, "type": refusal.kind, "param": None, "code": refusal.status}})


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.server", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--cap", type=int, default=8)
    parser.add_argument("--token-ms", type=float, default=10)
    parser.add_argument("--prefill-token-ms", type=float, default=0.05)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--model", default="fake")
    parser.add_argument("--log", default=None, help="file for the log lines; standard error without it")
    parser.add_argument("--no-gauges", action="store_true")
    parser.add_argument("--refuse-as-event", action="store_true")
    parser.add_argument("--bug", action="append", default=[], choices=sorted(BUGS))
    parser.add_argument("--style", action="append", default=[], choices=sorted(STYLES))
    return parser.parse_args(arguments)


async def main(options: argparse.Namespace) -> None:
    """Serve until a signal comes."""
    log = open(options.log, "a", buffering=1, encoding="utf-8") if options.log else sys.stderr
    engine = Engine(
        cap=options.cap, token_s=options.token_ms / 1e3, prefill_token_s=options.prefill_token_ms / 1e3,
        write=lambda line: print(f"{time.strftime('%H:%M:%S')} {line}", file=log), bugs=frozenset(options.bug),
    )  # fmt: skip
    fake = Fake(
        engine=engine, model=options.model, context=options.context, gauges=not options.no_gauges,
        refuse_as_event=options.refuse_as_event, bugs=frozenset(options.bug), styles=frozenset(options.style),
    )  # fmt: skip
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server = await loop.create_server(lambda: Connection(fake.handle), "127.0.0.1", options.port, backlog=512)
    running = asyncio.ensure_future(engine.run())
    print(f"listening on {server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.wait([asyncio.ensure_future(stopped.wait()), running], return_when=asyncio.FIRST_COMPLETED)
    server.close()
    if running.done():
        running.result()


if __name__ == "__main__":
    asyncio.run(main(_options(None)))
