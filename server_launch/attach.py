"""What can be learned about a server that somebody else started: is it there, which models, which process, what it logs."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import requests

TIMEOUT_S = 10.0
LOOPBACK = ("127.", "localhost", "::1")


class NotReachable(Exception):
    """Nobody answers there; one line."""


class AttachError(Exception):
    """The server or its log is not what was said; one line that says what to do."""


def models(base_url: str, headers: Mapping[str, str]) -> list[str]:
    """Names that /v1/models lists; empty where there is no such list. Raises NotReachable."""
    url = base_url.rstrip("/") + "/v1/models"
    try:
        answer = requests.get(url, headers=dict(headers), timeout=TIMEOUT_S)
    except requests.RequestException as error:
        raise NotReachable(f"no server answers at {base_url} ({type(error).__name__}): start it, or correct --host") from error
    try:
        return [str(entry["id"]) for entry in answer.json()["data"]]
    except (ValueError, KeyError, TypeError):
        return []


def check_model(base_url: str, model: str | None, headers: Mapping[str, str]) -> str:
    """The model to ask for: the one that was named, if it is served, or the only one there is. Raises NotReachable, AttachError."""
    known = models(base_url, headers)
    if model is None:
        if len(known) == 1:
            return known[0]
        raise AttachError(f"say which model with --model: {base_url} serves {', '.join(known) or 'a list that cannot be read'}")
    if known and model not in known:
        raise AttachError(f"model {model!r} is not served at {base_url}: it serves {', '.join(known)}")
    return model


def find_pid(base_url: str) -> int | None:
    """The process that listens there, if it is on this machine and may be looked at."""
    parts = urlsplit(base_url)
    if not (parts.hostname or "").startswith(LOOPBACK) or parts.port is None:
        return None
    try:
        listening = [
            each.pid for each in psutil.net_connections("tcp") if each.status == psutil.CONN_LISTEN and each.laddr.port == parts.port
        ]
    except psutil.AccessDenied:
        return None
    owners = [pid for pid in listening if pid is not None]
    return min(owners, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMark:
    """A place in a log: what was written after it belongs to the run."""

    path: Path
    inode: int
    size_bytes: int


def mark_log(path: Path) -> LogMark:
    """The end of a log as it is now. Raises AttachError."""
    try:
        with path.open("rb"):
            state = path.stat()
    except OSError as error:
        raise AttachError(f"cannot read the server log {path}: {error.strerror}; give the file that the server writes with --server-log") from error
    if not path.is_file():
        raise AttachError(f"the server log {path} is not a file; give the file that the server writes with --server-log")
    return LogMark(path=path, inode=state.st_ino, size_bytes=state.st_size)


def copy_log(mark: LogMark, into: Path) -> list[str]:
    """Copy what was written since the mark; the answer names what may be missing. A replaced or cut log is copied from its start."""
    problems = []
    try:
        state = os.stat(mark.path)
        start = mark.size_bytes
        if state.st_ino != mark.inode:
            problems.append("the server log was replaced during the run: what the old file got last may be missing")
            start = 0
        elif state.st_size < mark.size_bytes:
            problems.append("the server log was cut during the run: what it held may be missing")
            start = 0
        with mark.path.open("rb") as source, into.open("wb") as out:
            source.seek(start)
            while block := source.read(1 << 20):
                out.write(block)
    except OSError as error:
        problems.append(f"the server log could not be copied: {error.strerror}")
    return problems


def wait_for_log(mark: LogMark, enough: Callable[[bytes], bool], limit_s: float, sleep: Callable[[float], None]) -> bool:
    """Until what was written since the mark is enough, within a limit: servers may log behind."""
    until = time.monotonic() + limit_s
    while True:
        try:
            with mark.path.open("rb") as source:
                source.seek(mark.size_bytes)
                if enough(source.read()):
                    return True
        except OSError:
            return False
        if time.monotonic() >= until:
            return False
        sleep(0.2)
