"""The server's log, in one pass: its traces, and a summary of everything else in it.

Only what was written during the run is in the file; an end without a newline is a line that was still being written, so it
is reported apart and blamed on nobody.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from analysis.evidence import LogSummary
from analysis.trace import TraceEvent
from analysis.traces import Parser

_SHOWN = 200
_KEPT = 200
"""Crashes kept word by word."""
_UNREADABLE = 10_000
"""Unreadable lines kept word by word."""
_SHAPES = 20_000
"""Distinct shapes of lines that are counted at once; rare ones are forgotten beyond that."""
_COLOUR = re.compile(rb"\x1b\[[0-9;:]*[A-Za-z]")
_CRASH = re.compile(
    rb"Traceback \(most recent call last\)|panicked at|Segmentation fault|SIGSEGV|SIGABRT|SIGBUS|CUDA error|core dumped"
    rb"|Fatal Python error|(?<![-\w])fatal (?:runtime )?error\b|[Uu]ncaught exception|[Uu]nhandled exception|terminate called"
    rb"|stack backtrace:|double free|AddressSanitizer"
)
_ERROR = re.compile(rb"(?<![\w.\-/])(?:ERROR|CRITICAL|FATAL)(?![\w\-/])|\blevel=(?:error|fatal)|\"level\":\s*\"(?:error|fatal)\"")
_WORD_WITH_DIGIT = re.compile(rb"\b[^\W\d]*+\d\w*")
_DIGITS = bytes.maketrans(b"123456789", b"000000000")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """What lines that differ in digits only have in common."""

    crash: bool
    error: bool
    shape: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReading:
    """Everything in a log."""

    summary: LogSummary
    traces: tuple[TraceEvent, ...]


@dataclass(slots=True)
class _Tally:
    """What a pass over a log collects."""

    line_count: int = 0
    size_bytes: int = 0
    traces: list[TraceEvent] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)
    error_count: int = 0
    shapes: Counter[bytes] = field(default_factory=Counter)
    kinds: dict[bytes, _Kind] = field(default_factory=dict)
    torn: str = ""

    def note(self, line: bytes) -> None:
        """Count a line that holds no trace."""
        kind = self._kind(line)
        if kind.crash and len(self.crashes) < _KEPT:
            self.crashes.append(f"line {self.line_count}: {_short(_COLOUR.sub(b'', line))}")
        self.error_count += kind.error
        self.shapes[kind.shape] += 1
        if len(self.shapes) > _SHAPES:
            self.shapes = Counter(dict(self.shapes.most_common(_SHAPES // 10)))

    def _kind(self, line: bytes) -> _Kind:
        """Found once for all lines that differ in digits only: patterns are dear, and logs repeat themselves."""
        folded = line.translate(_DIGITS)
        known = self.kinds.get(folded)
        if known is None:
            plain = _COLOUR.sub(b"", folded)
            start = plain[:_SHOWN].strip()
            shape = _WORD_WITH_DIGIT.sub(b"#", start)
            known = _Kind(crash=_CRASH.search(plain) is not None, error=_ERROR.search(start) is not None, shape=shape)
            if len(self.kinds) < _SHAPES:
                self.kinds[folded] = known
        return known


def read(path: Path, parser: Parser | None, nonce: str) -> LogReading:
    """A server log. Without a parser it has no traces. Raises OSError."""
    with path.open("rb") as lines:
        return scan(lines, parser, nonce)


def scan(lines: Iterable[bytes], parser: Parser | None, nonce: str) -> LogReading:
    """`read` for lines that still carry their newline."""
    tally = _Tally()
    for line in lines:
        tally.line_count += 1
        tally.size_bytes += len(line)
        if not line.endswith(b"\n"):
            tally.torn = _short(line)
        if parser is not None and parser.mark in line:
            _take(tally, line, parser, nonce)
        else:
            tally.note(line)
    shapes = sorted(tally.shapes.items(), key=lambda each: (-each[1], each[0]))[:10]
    summary = LogSummary(
        line_count=tally.line_count, size_bytes=tally.size_bytes, trace_count=len(tally.traces), unreadable=tuple(tally.unreadable),
        crashes=tuple(tally.crashes), error_count=tally.error_count, repeated=tuple((_short(shape), count) for shape, count in shapes),
        torn=tally.torn,
    )  # fmt: skip
    return LogReading(summary=summary, traces=tuple(tally.traces))


def _take(tally: _Tally, line: bytes, parser: Parser, nonce: str) -> None:
    traces, unreadable = parser.parse(line.decode(errors="replace"), tally.line_count, nonce)
    tally.traces += traces
    if unreadable and not line.endswith(b"\n"):
        unreadable.pop()  # it may have been whole a moment later
    elif not line.endswith(b"\n"):
        tally.torn = ""
    tally.unreadable += unreadable[: _UNREADABLE - len(tally.unreadable)]
    if not traces and not unreadable:
        tally.note(line)


def _short(line: bytes) -> str:
    return line[:_SHOWN].decode(errors="replace").strip()
