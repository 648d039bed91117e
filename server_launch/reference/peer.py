"""Rank 1 seen from rank 0: a child process, and a thread that starts it, listens for its signs of life and buries it.

The watcher alone decides that rank 1 is gone: at once when it ended, after `timeout_s` without a beat when it is stopped
or stuck. It then kills the process, which also ends every wait on the exchange, so no step needs a clock of its own and a
long prefill cannot be mistaken for a failure.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from server_launch.reference import control
from server_launch.reference.engine import RankFailed

_TICKS = 5
_BEATS_PER_TICK = 2
_START_LIMIT_S = 120.0
_EXIT_LIMIT_S = 5.0
_VERDICT_LIMIT_S = 1.0
_REPOSITORY = Path(__file__).resolve().parents[2]


class Peer:
    """The second rank. Thread safe."""

    def __init__(self, arguments: Sequence[str], *, timeout_s: float) -> None:
        """Start `server_launch.reference.rank1` with `arguments`; do not wait for it. Raises RankFailed where it cannot be started."""
        self._timeout_s = timeout_s
        self._tick_s = timeout_s / _TICKS
        self._mine, self._theirs = control.socket_pair()
        self._mine.settimeout(self._tick_s)
        self._started = threading.Event()
        self._settled = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: control.Ready | None = None
        self._failure: str | None = None
        self._gone = threading.Event()
        self._on_failure: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._watch, args=(list(arguments),), name="rank1-watcher", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._process is None:
            raise RankFailed(self.fail("cannot start rank 1"))

    @property
    def failure(self) -> str | None:
        """Why rank 1 is gone, in one line; None while it is there."""
        return self._failure

    @property
    def pid(self) -> int:
        """Process id of rank 1."""
        assert self._process is not None
        return self._process.pid

    def wait_ready(self) -> control.Ready:
        """Block until rank 1 has loaded its weights. Raises RankFailed."""
        self._settled.wait()
        if self._ready is None:
            raise RankFailed(self.fail("rank 1 did not start"))
        return self._ready

    def on_failure(self, act: Callable[[], None]) -> None:
        """Have the watcher call `act` once rank 1 is gone; at once if it is."""
        with self._lock:
            self._on_failure = act
        if self._gone.is_set():
            act()

    def call(self, layer: int, row_count: int) -> None:
        """Tell rank 1 to expect rows for a layer. Raises OSError."""
        self._mine.send(control.pack_call(layer, row_count))

    def lost(self) -> str:
        """The exchange broke: give rank 1 up; returns why it is gone, in the watcher's words where it knows more."""
        self._gone.wait(_VERDICT_LIMIT_S)
        return self.fail("the exchange with rank 1 broke")

    def fail(self, reason: str) -> str:
        """Give rank 1 up, for `reason` unless it had failed before; returns the reason that holds."""
        with self._lock:
            self._failure = self._failure or reason
        if self._process is not None:
            self._process.kill()
        return self._failure

    def close(self) -> None:
        """End rank 1, stopped or not. Idempotent; bounded."""
        self.fail("the engine is closed")
        self._thread.join(_EXIT_LIMIT_S)

    def _watch(self, arguments: list[str]) -> None:
        # The kernel ties rank 1 to the thread that started it, so that thread must stay: it is this one.
        try:
            self._process = self._spawn(arguments)
        except OSError as error:
            self.fail(f"cannot start rank 1: {error}")
            return
        finally:
            self._theirs.close()
            self._started.set()
        reason = "the watcher of rank 1 broke"
        try:
            reason = self._listen(self._process)
        finally:
            self.fail(reason)
            self._gone.set()
            self._settled.set()
            with self._lock:
                act = self._on_failure
            act()
            self._process.wait()
            self._mine.close()

    def _spawn(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        fd = self._theirs.fileno()
        beat_s = self._tick_s / _BEATS_PER_TICK
        command = [sys.executable, "-P", "-m", "server_launch.reference.rank1", f"--control-fd={fd}", f"--parent-pid={os.getpid()}"]
        paths = [str(_REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
        return subprocess.Popen(
            [*command, f"--beat-s={beat_s}", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(fd,),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )

    def _listen(self, process: subprocess.Popen[bytes]) -> str:
        """Until rank 1 is gone; returns why.

        Silence is counted in ticks that this process itself lived through, so being stopped does not count against rank 1.
        """
        silent_ticks = 0
        limit = round(_START_LIMIT_S / self._tick_s)
        while silent_ticks < limit:
            try:
                message = self._mine.recv(control.MESSAGE_LIMIT_BYTES)
            except TimeoutError:
                silent_ticks += 1
                continue
            except ConnectionError:
                message = b""  # a reset, because the dead rank had left a call unread
            if not message:
                return f"rank 1 ended {_how(process)}"
            silent_ticks, limit = 0, _TICKS
            if message != control.BEAT:
                self._ready = control.unpack_ready(message)
                self._settled.set()
        return f"rank 1 gave no sign of life for {self._timeout_s:g} s"


def _how(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(_EXIT_LIMIT_S)
    except subprocess.TimeoutExpired:
        return "its control connection"
    return f"by signal {-code}" if code < 0 else f"with exit code {code}"
