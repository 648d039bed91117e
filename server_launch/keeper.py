"""Stands between us and a server that we started, so that nothing of it is left behind, whatever becomes of us.

It runs the server in a process group of its own, adopts whatever that server orphans, and ends all of it when it is asked to,
when the server ends, or when whoever started the keeper is gone. It ends as the server ended: same code, same signal.
A program of its own, on the standard library alone: `python -I keeper.py PARENT_PID PIPE STOP_S MEMORY_BYTES COMMAND...`.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_WAKES = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_ROUND_S = 0.05


def main(argv: list[str]) -> int:
    """Run a server to its end. The pipe gets its pid, or why it could not be started; 127 then."""
    parent, pipe, stop_s, memory_bytes = int(argv[0]), int(argv[1]), float(argv[2]), int(argv[3])
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAKES)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        return 0  # whoever asked was gone before we could be told of it

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if memory_bytes:
            resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))

    try:
        server = subprocess.Popen(argv[4:], stdin=subprocess.DEVNULL, process_group=0, preexec_fn=prepare)
    except OSError as error:
        os.write(pipe, f"{argv[4]}: {error.strerror}\n".encode())
        return 127
    os.write(pipe, f"{server.pid}\n".encode())
    os.close(pipe)
    status = _until_over(server.pid, stop_s)
    _end_all(server.pid)
    return _like(status)


def _until_over(pid: int, stop_s: float) -> int:
    """Wait for the server; once asked to stop, ask it too, and end it after `stop_s`. Its wait status."""
    until_s: float | None = None
    while True:
        if (status := _reaped(pid)) is not None:
            return status
        if until_s is not None and time.monotonic() >= until_s:
            os.kill(pid, signal.SIGKILL)
        got = signal.sigtimedwait(_WAKES, stop_s if until_s is None else _ROUND_S)
        if got is not None and got.si_signo != signal.SIGCHLD and until_s is None:
            os.kill(pid, signal.SIGTERM)
            until_s = time.monotonic() + stop_s


def _reaped(pid: int) -> int | None:
    """Bury everybody who is dead; the status of `pid` if it is among them."""
    found = None
    with suppress(ChildProcessError):
        while (dead := os.waitpid(-1, os.WNOHANG))[0]:
            found = dead[1] if dead[0] == pid else found
    return found


def _end_all(group: int) -> None:
    """Kill what is left of the server, in its group or outside, until nobody is: the orphans of the dead come to us."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    while (children := _children()) or _alive():
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        signal.sigtimedwait({signal.SIGCHLD}, _ROUND_S)


def _alive() -> bool:
    """Whether we have a child, after all dead ones are buried."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return False
    return True


def _children() -> list[int]:
    """Processes whose parent we are."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            after_name = entry.read_text(errors="replace").rpartition(")")[2].split()
            if int(after_name[1]) == os.getpid() and after_name[0] != "Z":
                found.append(int(entry.parent.name))
    return found


def _like(status: int) -> int:
    """The exit code of a wait status; for a signal, die of it too."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.kill(os.getpid(), number)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
