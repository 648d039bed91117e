"""The part of a server's log that belongs to a run: what was written after the run began, even if the file is rotated meanwhile."""

import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from analysis import ids

POLL_S = 0.2
BLOCK_BYTES = 1 << 20
BEFORE_BYTES = 64
"""So much of what stands before the run is remembered: where it changed, the file was cut and written anew."""


class LogError(Exception):
    """A log that cannot be read; one line that says what to do."""


@dataclass(slots=True)
class _Mark:
    """A place in an open file. The handle stays with that file when another one takes its name."""

    file: BinaryIO
    at_bytes: int
    before: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.read_before()

    def read_before(self) -> bytes:
        """The last bytes before the mark, as they are now."""
        start = max(0, self.at_bytes - BEFORE_BYTES)
        return os.pread(self.file.fileno(), self.at_bytes - start, start)


class ServerLog:
    """Follows one log from the moment it is made.

    `mark` is in each line that is a trace; `sleep` waits so many seconds, in the caller's way.
    """

    def __init__(self, path: Path, mark: bytes, sleep: Callable[[float], None]) -> None:
        """Raises LogError."""
        self._path = path
        self._mark_of_trace = mark
        self._sleep = sleep
        try:
            if path.is_dir():
                raise LogError(f"the server log {path} is a folder: give the file that the server writes with --server-log")
            self._mark = _end_of(path)
        except OSError as error:
            raise LogError(
                f"cannot read the server log {path}: {error.strerror}; give the file that the server writes with --server-log"
            ) from error

    def wait(self, requests: Collection[str], limit_s: float) -> None:
        """Until each of these requests has a trace in it, or the limit is over."""
        until_s = time.monotonic() + limit_s
        missing = set(requests)
        read_bytes = 0
        while True:
            written = self._written()
            end = written.rfind(b"\n") + 1
            for line in written[read_bytes:end].split(b"\n"):
                if self._mark_of_trace in line and (found := ids.find(line.decode(errors="replace"))):
                    missing.discard(found.request_id)
            read_bytes = max(read_bytes, end)
            if not missing or time.monotonic() >= until_s:
                return
            self._sleep(POLL_S)

    def copy(self, into: Path) -> list[str]:
        """Copy what was written since the beginning, or since the last copy; the answer names what may be missing. Raises nothing."""
        problems: list[str] = []
        try:
            with into.open("wb") as out:
                for block in self._blocks(problems):
                    out.write(block)
            self._mark = _end_of(self._path)
        except OSError as error:
            problems.append(f"the server log {self._path.name} could not be copied: {error.strerror}")
        return problems

    def _written(self) -> bytes:
        try:
            return b"".join(self._blocks([]))
        except OSError:
            return b""  # `copy` says so

    def _blocks(self, problems: list[str]) -> Iterator[bytes]:
        """What the followed file got since the mark, then, where another file has its name now, all of that."""
        mark = self._mark
        was_cut = os.fstat(mark.file.fileno()).st_size < mark.at_bytes or mark.read_before() != mark.before
        if was_cut:
            problems.append(f"the server log {self._path.name} was cut during the run: what it held before may be missing")
        mark.file.seek(0 if was_cut else mark.at_bytes)
        yield from _rest(mark.file)
        try:
            with self._path.open("rb") as now:
                if not os.path.sameopenfile(now.fileno(), mark.file.fileno()):
                    problems.append(f"the server log {self._path.name} was rotated during the run: its old and its new file were read")
                    yield from _rest(now)
        except FileNotFoundError:
            problems.append(f"the server log {self._path.name} was removed during the run: what was written later is missing")


def _end_of(path: Path) -> _Mark:
    file = path.open("rb")
    return _Mark(file=file, at_bytes=os.fstat(file.fileno()).st_size)


def _rest(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(BLOCK_BYTES):
        yield block
