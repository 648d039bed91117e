"""Start a server of a profile, know when it is ready, and leave nothing of it behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import requests

from server_launch.profile import Profile

ROOT = Path(__file__).resolve().parent.parent
KEEPER = Path(__file__).with_name("keeper.py")
MARGIN_S = 10.0
"""What the keeper may take beyond the server's own time to stop."""
POLL_S = 0.1
GIB = 1 << 30


class LaunchError(Exception):
    """The server did not come up; one line, with the end of its log."""


@dataclass(slots=True)
class Server:
    """A server that we started. `pid` is its own process, `url` where it listens, `log` where its output goes."""

    keeper: "subprocess.Popen[bytes]"
    pid: int
    log: Path
    stop_s: float
    url: str = ""

    def exit_code(self) -> int | None:
        """None while it runs; negative for a signal."""
        return self.keeper.poll()

    def wait(self) -> int:
        """Until it ends by itself; then as `exit_code`."""
        return self.keeper.wait()

    def stop(self) -> None:
        """Ask politely, wait, then end all of it; idempotent."""
        if self.keeper.poll() is not None:
            return
        self.keeper.terminate()
        try:
            self.keeper.wait(self.stop_s + MARGIN_S)
        except subprocess.TimeoutExpired:
            self.keeper.kill()  # the server dies with it
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.keeper.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a start is asked for beyond its profile; `port` 0 takes a free one, `options` are names of the profile's launch options."""

    model: str
    log: Path
    model_path: str | None = None
    port: int = 0
    options: dict[str, int | None] = field(default_factory=dict)
    extra: tuple[str, ...] = ()


def command(profile: Profile, asked: Asked, port: int) -> list[str]:
    """The command line of a server. Raises LaunchError when the profile has none, or wants what was not given."""
    if not profile.launch:
        raise LaunchError(f"the profile {profile.name} cannot be started from here: start the server and give its address with --host")
    words = {"python": sys.executable, "model": asked.model, "port": str(port), "model_path": asked.model_path}
    if asked.model_path is None and any("{model_path}" in part for part in profile.launch):
        raise LaunchError(
            f"the profile {profile.name} needs a checkpoint: start it with python -m server_launch {profile.name} --model-path PATH, "
            "and give its address with --host"
        )
    line = [part.format(**words) for part in profile.launch]
    for name, value in asked.options.items():
        if value is None:
            continue
        if name not in profile.launch_options:
            raise LaunchError(f"the profile {profile.name} does not say how to set {name}: leave it out, or add it to launch_options")
        line += [part.format(value=value) for part in profile.launch_options[name]]
    return [*line, *asked.extra]


def launch(profile: Profile, asked: Asked, sleep: Callable[[float], None]) -> Server:
    """Start it and wait until it is ready. Raises LaunchError; nothing is left running then."""
    port = asked.port or (_free_port() if any("{port}" in part for part in profile.launch) else 0)
    server = _start(profile, command(profile, asked, port), asked.log)
    try:
        _wait_ready(server, profile, f"http://127.0.0.1:{port}", sleep)
    except BaseException:
        server.stop()
        raise
    return server


def _start(profile: Profile, line: list[str], log: Path) -> Server:
    memory_bytes = int((profile.memory_limit_gib or 0) * GIB)
    reading, writing = os.pipe()
    keeper = [sys.executable, "-I", str(KEEPER), str(os.getpid()), str(writing), str(profile.stop_s), str(memory_bytes)]
    with log.open("wb") as out, os.fdopen(reading, "rb") as pipe:
        process = subprocess.Popen(
            keeper + line, cwd=ROOT, env=os.environ | profile.env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            start_new_session=True, pass_fds=(writing,),
        )  # fmt: skip
        os.close(writing)
        said = pipe.readline().decode().strip()
    if not said.isdigit():
        process.wait()
        raise LaunchError(f"the {profile.name} server cannot be started: {said or _end(log)}")
    return Server(keeper=process, pid=int(said), log=log, stop_s=profile.stop_s)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_ready(server: Server, profile: Profile, url: str, sleep: Callable[[float], None]) -> None:
    until_s = time.monotonic() + profile.ready_s
    while time.monotonic() < until_s:
        ready = _announced(server.log, profile.ready_line) if profile.ready_line else _answers(url, profile.ready_path)
        if ready is not None:
            server.url = ready
            return
        code = server.exit_code()
        if code is not None:
            raise LaunchError(f"the {profile.name} server ended with {_said(code)} before it was ready: {_end(server.log)}")
        sleep(POLL_S)
    raise LaunchError(f"the {profile.name} server was not ready after {profile.ready_s:.0f} s: {_end(server.log)}")


def _announced(log: Path, pattern: str) -> str | None:
    """What the first group of the pattern found in a whole line of the log."""
    for line in log.read_text(errors="replace").splitlines(keepends=True):
        if line.endswith("\n") and (match := re.search(pattern, line)):
            return match[1]
    return None


def _answers(url: str, path: str) -> str | None:
    try:
        return url if requests.get(url + path, timeout=2).status_code == 200 else None
    except requests.RequestException:
        return None


def _said(code: int) -> str:
    return f"code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


def _end(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    said = " | ".join(line[:200] for line in lines[-3:])
    return f"{said} (all of it: {log})" if said else "it logged nothing"
