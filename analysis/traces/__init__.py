"""Parsers of servers' per-request log lines, by the name that a profile gives. To add one, write it beside and name it here."""

from collections.abc import Callable
from dataclasses import dataclass

from analysis.trace import TraceEvent
from analysis.traces import pegainfer


@dataclass(frozen=True, slots=True, kw_only=True)
class Parser:
    """How to read one kind of trace."""

    mark: bytes
    """Lines without these bytes hold no trace."""
    parse: Callable[[str, int, str], tuple[list[TraceEvent], list[str]]]
    """(line, its number, nonce of the run) to its traces, and to what it announces but cannot be read (shortened)."""


PARSERS: dict[str, Parser] = {"pegainfer": Parser(mark=pegainfer.MARK.encode(), parse=pegainfer.parse)}
