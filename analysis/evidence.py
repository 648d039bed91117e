"""All that a judge may look at, in the shape the checks read: typed records, and pandas frames made of them.

Frames have one row a request, trace or reading, columns named after the fields of the class they hold (words as plain
strings, absent values as pandas' missing value). `requests` has these columns more: `start_unix_s`, `sent_unix_s`,
`headers_unix_s`, `first_token_unix_s`, `last_token_unix_s`, `cut_unix_s`, `ended_unix_s` (client's wall clock; NaN where
it did not happen), `faulty_stage` (bool), `place` (class of the request in the ledger). Traces that join a request have
its `request_id`. `ledger` is the inner join of requests and their one trace, with the trace's columns prefixed `trace_`.
"""

from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from analysis.observation import Milestone, Pace, ServerExit, StageMark, WorkerMark
from analysis.plan import Plan
from analysis.record import RequestRecord
from analysis.trace import TraceEvent


class Place(StrEnum):
    """Where a request or a trace stands in the two-way ledger; each stands in exactly one place."""

    MATCHED = "matched"
    """One request, one terminal trace."""
    CLIENT_ONLY = "client_only"
    """A request that must have a trace and has none."""
    EXCUSED = "excused"
    """A request that need not have a trace and has none: refused before the scheduler, never sent whole, or left too early to tell.
    Or a trace of another run, or of somebody who was served before our first request ended."""
    SERVER_ONLY = "server_only"
    """A trace with an id of this run (or of nobody) that no request has: an orphan."""
    DUPLICATE = "duplicate"
    """A further trace of a request that already has one, saying the same."""
    MULTI_TERMINAL = "multi_terminal"
    """A further trace of a request that already has one, saying something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSummary:
    """What the server logged during the run, apart from its traces."""

    line_count: int
    size_bytes: int
    trace_count: int
    unreadable: tuple[str, ...]
    """Lines that announce a trace and cannot be read, shortened."""
    crashes: tuple[str, ...]
    """Lines that start a traceback, a panic, a signal or an abort, shortened, with their line number."""
    error_count: int
    """Lines at error level."""
    repeated: tuple[tuple[str, int], ...]
    """The most frequent line shapes (digits and ids folded) with their counts, most frequent first, at most ten."""
    torn: str = ""
    """What stood after the last newline: a line that was still being written when the log was copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One run, read back from its directory. Checks read it and change nothing."""

    plan: Plan
    records: tuple[RequestRecord, ...]
    traces: tuple[TraceEvent, ...]
    requests: pd.DataFrame
    ledger: pd.DataFrame
    trace_frame: pd.DataFrame
    """One row a trace, with `place`."""
    health: pd.DataFrame
    metrics: pd.DataFrame
    """Columns at_unix_s, stage, moment, running, waiting (NaN where absent), error, and `counters` (a dict a row)."""
    process: pd.DataFrame
    lags: pd.DataFrame
    """Windows in which our own side stood still: begin_unix_s, end_unix_s, worker."""
    stages: tuple[StageMark, ...]
    milestones: tuple[Milestone, ...]
    workers: tuple[WorkerMark, ...]
    exits: tuple[ServerExit, ...]
    pace: Pace | None
    log: LogSummary | None
    """None when there is no server log in the run directory."""
    problems: tuple[str, ...]
    """Evidence that is lost: torn shards, missing footers, gaps in numbers, unreadable files, the collector's own notes."""

    def limit(self, name: str) -> float:
        """The value of a threshold of the plan; KeyError (so: unknown) when the scenario does not state it."""
        return self.plan.thresholds[name].value

    def ours(self, begin_unix_s: float, end_unix_s: float) -> float:
        """Seconds of a window in which our own side stood still, which no server is blamed for."""
        return overlap_s(self.lags, begin_unix_s, end_unix_s)


def overlap_s(lags: pd.DataFrame, begin_unix_s: float, end_unix_s: float) -> float:
    """Seconds of a window that lie in the windows of `lags`."""
    begins = lags["begin_unix_s"].clip(lower=begin_unix_s)
    ends = lags["end_unix_s"].clip(upper=end_unix_s)
    return float((ends - begins).clip(lower=0).sum())
