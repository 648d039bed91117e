"""The life of the server process: bind, build the engine, serve, drain at SIGTERM, leave no rank behind."""

import asyncio
import contextlib
import importlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator

import uvicorn

from server_launch.reference.backends import BackendUnavailable
from server_launch.reference.config import CheckpointError
from server_launch.reference.engine import Engine, RankFailed, Tokenizer
from server_launch.reference.http import HttpServer
from server_launch.reference.options import Options
from server_launch.reference.planted import load
from server_launch.reference.protocol import Protocol
from server_launch.reference.scheduler import Scheduler, State
from server_launch.reference.seams import Seams

KEEP_ALIVE_S = 75
"""Longer than the pools of common clients keep an idle connection, so that they close first."""
LAST_WORDS_S = 1.0
"""How long the last events may take to leave once everything has ended."""
ENGINE_GRACE_S = 2.0
"""How much longer than its own bound an engine call may take before the process stops waiting for it."""


class StartupError(Exception):
    """The server cannot start; the message is one line for a person."""


class Uvicorn(uvicorn.Server):
    """uvicorn without its own signal handling, which would close the listener before the drain."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets)
        self._on_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to `_serve`."""
        yield

    async def hang_up(self) -> None:
        """Let the last answers out for a moment, then cut the connections that still have one open."""
        until_s = time.monotonic() + LAST_WORDS_S
        while self._answering() and time.monotonic() < until_s:
            await asyncio.sleep(0.01)
        for connection in self._answering():
            connection.cut()
        self.should_exit = True

    def _answering(self) -> list[Protocol]:
        return [each for each in self.server_state.connections if isinstance(each, Protocol) and each.answering]


def run(options: Options) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. Raises StartupError."""
    seams = load(options.plant)
    listener = _bind(options)
    engine, tokenizer = _build(options)
    try:
        return asyncio.run(_serve(options, seams, engine, tokenizer, listener))
    finally:
        engine.close()
        listener.close()


async def _serve(options: Options, seams: Seams, engine: Engine, tokenizer: Tokenizer, listener: socket.socket) -> int:
    scheduler = Scheduler(engine=engine, tokenizer=tokenizer, seams=seams, options=options)
    config = uvicorn.Config(
        HttpServer(scheduler).app,
        http=Protocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        backlog=2048,
    )
    http = Uvicorn(config, lambda: _say_ready(options.host, listener))
    stop = _stop_signal(scheduler)
    scheduler.start()
    serving = asyncio.create_task(http.serve(sockets=[listener]))
    await asyncio.wait({serving, asyncio.create_task(stop.wait())}, return_when=asyncio.FIRST_COMPLETED)
    scheduler.drain(options.drain_s)
    ended = await asyncio.to_thread(scheduler.join, options.drain_s + options.rank_timeout_s + ENGINE_GRACE_S)
    if not ended:
        logging.getLogger("reference::serve").error("an engine call does not return; ending its requests without it")
        scheduler.end_all("the server is shutting down")
    await http.hang_up()
    await serving
    return 0 if ended and scheduler.state in (State.STOPPED, State.FAILED) else 1


def _stop_signal(scheduler: Scheduler) -> asyncio.Event:
    """Set by SIGTERM or SIGINT; a second signal ends the drain."""
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            scheduler.drain(0.0)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    return stop


def _bind(options: Options) -> socket.socket:
    """Take the port before the model is loaded, without listening yet."""
    try:
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((options.host, options.port))
    except OSError as error:
        where = f"{options.host} port {options.port}"
        raise StartupError(f"cannot listen on {where}: {error.strerror or error}; choose another --port") from error
    return listener


def _build(options: Options) -> tuple[Engine, Tokenizer]:
    """Make the engine with the function that --engine names."""
    module, _, function = options.engine.partition(":")
    try:
        build = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise StartupError(f"--engine {options.engine}: {error}") from error
    try:
        engine, tokenizer = build(
            checkpoint_dir=options.model_path,
            ep_backend=options.ep_backend,
            rank_timeout_s=options.rank_timeout_s,
            context_limit=options.context_length,
        )
    except (BackendUnavailable, CheckpointError, RankFailed) as error:
        raise StartupError(str(error)) from error
    return engine, tokenizer


def _say_ready(host: str, listener: socket.socket) -> None:
    shown = f"[{host}]" if ":" in host else host
    print(f"ready http://{shown}:{listener.getsockname()[1]} pid={os.getpid()}", flush=True)


def log_to_stderr() -> None:
    """One handler for every logger: `[time LEVEL logger] message`, in UTC; uvicorn only where something is wrong with us."""
    formatter = logging.Formatter("[%(asctime)s %(levelname)-5s %(name)s] %(message)s", datefmt="%Y-%m-%dT%H:%M:%SZ")
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
