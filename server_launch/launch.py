"""Start a server of a profile, know when it is ready, and leave nothing of it behind."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from server_launch.profile import Profile

ROOT = Path(__file__).resolve().parent.parent
STOP_S = 15.0
_PR_SET_PDEATHSIG = 1


class LaunchError(Exception):
    """The server did not come up; one line, with the end of its log."""


@dataclass(slots=True)
class Server:
    """A server that we started. `url` is where it listens, `log` where its output goes."""

    process: "subprocess.Popen[bytes]"
    url: str
    log: Path

    @property
    def pid(self) -> int:
        """Its process, which leads its own group."""
        return self.process.pid

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.process.poll()

    def stop(self) -> None:
        """Ask politely, wait, then end the whole group; idempotent."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # nothing of the group is left
        self.process.wait()


def launch(profile: Profile, model: str, log: Path, extra: tuple[str, ...], sleep: Callable[[float], None]) -> Server:
    """Start it and wait until it says `ready URL`. Raises LaunchError."""
    if not profile.launch:
        raise LaunchError(f"the profile {profile.name} cannot be started from here: start the server and give its address with --host")
    names = {"python": sys.executable, "model": model}
    command = [part.format(**names) for part in profile.launch] + list(extra)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=_die_with_us
        )
    server = Server(process=process, url="", log=log)
    try:
        server.url = _wait_ready(server, profile, sleep)
    except BaseException:
        server.stop()
        raise
    return server


def _die_with_us() -> None:
    """Even when we are killed outright, the server must not stay."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _wait_ready(server: Server, profile: Profile, sleep: Callable[[float], None]) -> str:
    until = time.monotonic() + profile.ready_s
    while time.monotonic() < until:
        lines = server.log.read_text(errors="replace").splitlines()
        for line in lines:
            if line.startswith("ready http"):
                return line.split()[1]
        if server.exit_code() is not None:
            raise LaunchError(f"the {profile.name} server ended with code {server.exit_code()} before it was ready: {_end(lines)}")
        sleep(0.1)
    raise LaunchError(f"the {profile.name} server was not ready after {profile.ready_s:.0f} s: {_end(server.log.read_text(errors='replace').splitlines())}")


def _end(lines: list[str]) -> str:
    return " | ".join(line.strip()[:200] for line in lines[-3:]) or "it logged nothing"
