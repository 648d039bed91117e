"""A run directory to Evidence. What is missing, torn or changed becomes a problem in it; nothing is repaired or guessed."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from analysis import ledger, log, manifest, shard
from analysis.evidence import Evidence, LogSummary, overlap_s
from analysis.observation import (
    HealthReading,
    LoopLag,
    MetricsReading,
    Milestone,
    Observation,
    Pace,
    Problem,
    ProcessReading,
    ServerExit,
    StageMark,
    WorkerMark,
    parse,
)
from analysis.plan import Plan
from analysis.record import RequestRecord
from analysis.trace import TraceEvent
from analysis.traces import PARSERS
from analysis.vocabulary import Role

_T = TypeVar("_T")


class NoRun(Exception):
    """The directory is not one of a run; the text is one line that says what to do."""


class NoPlan(Exception):
    """The run has no plan that can be read, so there is nothing to judge it by; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    """What the server's log gave."""

    summary: LogSummary | None
    traces: tuple[TraceEvent, ...]
    problems: tuple[str, ...]


def load(run_dir: Path, server_log: Path | None = None) -> Evidence:
    """The evidence of a run; `server_log` stands in for the run's own copy. Raises NoRun, NoPlan."""
    plan = _plan(run_dir)
    records, record_problems = _records(run_dir, plan)
    seen, seen_problems = _observations(run_dir)
    logged = _log(server_log or run_dir / manifest.SERVER_LOG, server_log is not None, plan)
    replaced = frozenset({manifest.SERVER_LOG} if server_log else ())
    problems = (*manifest.broken_seals(run_dir, but=replaced), *record_problems, *seen_problems, *logged.problems)
    return assemble(plan, records, logged.traces, seen, log=logged.summary, problems=problems)


def assemble(
    plan: Plan,
    records: Sequence[RequestRecord],
    traces: Sequence[TraceEvent],
    seen: Sequence[Observation],
    *,
    log: LogSummary | None,
    problems: Sequence[str] = (),
) -> Evidence:
    """Evidence from its parts, joined."""
    faulty = frozenset(stage.name for stage in plan.stages if stage.faulty)
    pace = _last(seen, Pace)
    dwell_s = dwell(plan, records, pace)
    stalls = [(one.at_unix_s - one.lag_s, one.at_unix_s, one.worker) for one in _all(seen, LoopLag)]
    lags = pd.DataFrame(stalls, columns=["begin_unix_s", "end_unix_s", "worker"])

    def must(record: RequestRecord) -> bool:
        if plan.target.trace is None or not record.needs_trace(dwell_s):
            return False
        ours = 0.0 if record.first_token_s else overlap_s(lags, record.started_unix_s, record.started_unix_s + record.ended_s)
        return record.needs_trace(dwell_s + ours)

    joined = ledger.join(records, traces, faulty, must)
    return Evidence(
        plan=plan,
        records=tuple(records),
        traces=tuple(traces),
        requests=joined.requests,
        ledger=joined.pairs,
        trace_frame=joined.traces,
        health=_frame(HealthReading, seen),
        metrics=_metrics(seen),
        process=_frame(ProcessReading, seen),
        lags=lags,
        stages=_all(seen, StageMark),
        milestones=_all(seen, Milestone),
        workers=_all(seen, WorkerMark),
        exits=_all(seen, ServerExit),
        pace=pace,
        log=log,
        problems=(*problems, *(one.detail for one in _all(seen, Problem))),
    )


def dwell(plan: Plan, records: Sequence[RequestRecord], pace: Pace | None) -> float:
    """Seconds that a client has to stay after sending before the server must know of it; infinite where nobody can say."""
    floor = plan.thresholds.get("trace_dwell_s")
    if pace is None or floor is None:
        return math.inf
    alone = [record.first_token_s for record in records if record.role is Role.REFERENCE and record.first_token_s is not None]
    return floor.value + 3 * pace.token_gap_s + max([pace.first_token_s, *alone])


def _plan(run_dir: Path) -> Plan:
    if not run_dir.is_dir():
        raise NoRun(f"{run_dir} is no directory; give the directory of a run (runs/<time>)")
    path = run_dir / manifest.PLAN
    ours = (manifest.PLAN, manifest.OBSERVATIONS, manifest.NAME, manifest.RECORDS, manifest.SERVER_LOG, "verdict.json")
    if any(run_dir.iterdir()) and not any((run_dir / name).exists() for name in ours):
        raise NoRun(f"{run_dir} is not the directory of a run: it has no {manifest.PLAN}")
    try:
        return Plan.from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NoPlan(f"{manifest.PLAN} is missing or unreadable: {error.__class__.__name__}") from error


def _records(run_dir: Path, plan: Plan) -> tuple[list[RequestRecord], list[str]]:
    """All rows of all shards, in order of their ids, so that the order of files says nothing."""
    paths = sorted((run_dir / manifest.RECORDS).glob("worker-*.jsonl"))
    if not paths:
        return [], [f"{manifest.RECORDS}/ holds no shard, so no request is known"]
    records: list[RequestRecord] = []
    problems: list[str] = []
    for path in paths:
        try:
            found = shard.read(path, plan.nonce)
        except OSError as error:
            problems.append(f"{path.name} cannot be read: {error.__class__.__name__}")
            continue
        records += found.records
        problems += found.problems
    unique = {record.request_id: record for record in records}
    if len(unique) < len(records):
        problems.append(f"{len(records) - len(unique)} request ids came in more than one row; the last row of each is used")
    return [unique[key] for key in sorted(unique)], problems


def _observations(run_dir: Path) -> tuple[list[Observation], list[str]]:
    try:
        text = (run_dir / manifest.OBSERVATIONS).read_bytes()
    except OSError:
        return [], [f"{manifest.OBSERVATIONS} is missing or cannot be read"]
    rows = text.split(b"\n")
    problems = [f"{manifest.OBSERVATIONS}: its last line is torn"] if rows.pop() else []
    seen: list[Observation] = []
    for number, row in enumerate(rows, start=1):
        try:
            seen.append(parse(row.decode()))
        except ValueError as error:
            problems.append(f"{manifest.OBSERVATIONS}: line {number}: {str(error)[:200]}")
    return seen, problems


def _log(path: Path, asked_for: bool, plan: Plan) -> _Log:
    """The server's log. None was promised where the target has no trace and nobody named a file."""
    name = plan.target.trace
    parser = PARSERS.get(name) if name is not None else None
    problems = [f"no parser is called {name!r}; there are {', '.join(sorted(PARSERS))}"] if name is not None and parser is None else []
    try:
        reading = log.read(path, parser, plan.nonce)
    except OSError as error:
        missing = name is not None or asked_for or plan.target.launched
        problems += [f"the server's log cannot be read: {error.__class__.__name__}"] if missing else []
        return _Log(summary=None, traces=(), problems=tuple(problems))
    return _Log(summary=reading.summary, traces=reading.traces, problems=tuple(problems))


def _metrics(seen: Sequence[Observation]) -> pd.DataFrame:
    rows = [
        {
            "at_unix_s": one.at_unix_s, "stage": one.stage, "moment": one.moment, "running": one.gauges.get("running"),
            "waiting": one.gauges.get("waiting"), "error": one.error, "counters": one.counters,
        }
        for one in _all(seen, MetricsReading)
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["at_unix_s", "stage", "moment", "running", "waiting", "error", "counters"])
    return frame.astype({"at_unix_s": float, "running": float, "waiting": float})


def _frame(cls: type[Any], seen: Sequence[Observation]) -> pd.DataFrame:
    return pd.DataFrame([asdict(one) for one in _all(seen, cls)], columns=[field.name for field in fields(cls)])


def _all(seen: Sequence[Observation], cls: type[_T]) -> tuple[_T, ...]:
    return tuple(one for one in seen if isinstance(one, cls))


def _last(seen: Sequence[Observation], cls: type[_T]) -> _T | None:
    found = _all(seen, cls)
    return found[-1] if found else None
