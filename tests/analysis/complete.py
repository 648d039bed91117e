"""A good run in which every witness of the server's state speaks: `build.good()` with a refill at its end and gauges that move.

The imaginary server has a cap of 2. In `overload` and in `drain` two holders hold from 0.03 s to 3 s of the stage; whoever
comes behind them waits. `sequence` restarts nothing: records keep the order in which they were added.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from analysis import manifest, observation, shard
from analysis.finding import Check, Finding
from analysis.finding import run as ask
from analysis.observation import MetricsReading, StageMark
from analysis.plan import Stage
from analysis.record import RequestRecord
from analysis.trace import TraceEvent
from analysis.traces import pegainfer
from analysis.vocabulary import Ending, Role
from tests.analysis import build

HOLD_S = (0.03, 3.0)
PER_STAGE = 30


def run() -> build.Run:
    """The run. Records, traces and observations may be changed before `evidence()` is asked for."""
    made = build.good()
    made.plan = dataclasses.replace(made.plan, stages=tuple(map(_with_needs, made.plan.stages)))
    _refill(made)
    _leave_the_queue(made)
    made.observations = [one for one in made.observations if not isinstance(one, MetricsReading)]
    made.observations += [reading for index, name in enumerate(build.STAGES) for reading in _gauges(index, name)]
    _remember(made)
    return made


def _with_needs(stage: Stage) -> Stage:
    groups = [dataclasses.replace(group, needs=3) if group.name in ("cancelling", "malformed") else group for group in stage.groups]
    if stage.name == "overload":
        leaver = build.item(role=Role.FAULTY, fault="leave_in_queue", ending=Ending.FIN)
        groups.append(build.group("leavers", leaver, waits_for="holders:first_token", needs=2))
    if stage.name == "drain":
        groups.append(build.group("extra", build.item(), waits_for="holders:first_token"))
    return dataclasses.replace(stage, groups=tuple(groups))


def _refill(made: build.Run) -> None:
    holder = dict(role=Role.HOLDER, group="holders", fault="hold", cut_s=3.0, ended_s=3.0)
    for index in range(2):
        made.add(build.left("drain", 0.01 * index, tokens=5, **{**holder, "item": index}))  # type: ignore[arg-type]
    begin, first = 0.3, 2.75
    times = tuple(round(first + build.GAP_S * step, 6) for step in range(build.TOKENS))
    late = dict(first_token_s=times[0], last_token_s=times[-1], token_times_s=times, ended_s=times[-1] + 0.001)
    record = made.add(build.completed("drain", begin, group="extra", **late), traced=False)  # type: ignore[arg-type]
    made.traces.append(build.trace(record, scheduled_unix_s=record.started_unix_s + first - 0.01))


def _leave_the_queue(made: build.Run) -> None:
    gone = dict(group="leavers", fault="leave_in_queue", cut_s=0.6, ended_s=0.6)
    for index in range(3):
        record = made.add(build.left("overload", 1.0 + 0.4 * index, tokens=0, item=index, **gone), traced=False)  # type: ignore[arg-type]
        never = dict(scheduled_unix_s=None, prefill_done_unix_s=None, first_token_unix_s=None, queue_wait_ms=None, prefill_ms=None)
        made.traces.append(build.trace(record, scheduled_to_terminal_ms=None, active_at_terminal=2, active_max=2, **never))


def _gauges(index: int, name: str) -> list[MetricsReading]:
    """Nothing runs at rest; while two hold, two run and those behind them wait."""
    begin = build.BEGIN_UNIX_S + index * build.STAGE_S
    readings = []
    for step in range(20):
        at = begin + step * 0.25
        held = name in ("overload", "drain") and HOLD_S[0] < step * 0.25 < HOLD_S[1]
        waiting = _waiting(name, step * 0.25) if held else 0
        readings.append(reading(name, "sample", at, running=2 if held else 1, waiting=waiting))
    rest = [reading(name, moment, begin + build.STAGE_S - early) for moment, early in (("settled", 1.5), ("poked", 0.5))]
    return readings + rest


def _waiting(name: str, at: float) -> int:
    if name == "drain":
        return int(at > 0.3)
    return sum(0.3 + 0.3 * index < at for index in range(4)) + sum(1.0 + 0.4 * index < at < 1.6 + 0.4 * index for index in range(3))


def reading(stage: str, moment: str, at: float, running: float = 0.0, waiting: float = 0.0, **counters: float) -> MetricsReading:
    """One reading of the gauges."""
    return MetricsReading(at_unix_s=at, stage=stage, moment=moment, gauges={"running": running, "waiting": waiting}, counters=counters)


def _remember(made: build.Run) -> None:
    """Traces say how many were active and pending while holders held, and nothing was, at the end of a follow-up."""
    held = {"overload": range(2), "drain": range(2)}
    stages = {record.request_id: (record.stage, record.role, record.item) for record in made.records}
    for index, trace in enumerate(made.traces):
        stage, role, item = stages[trace.request_id or ""]
        if stage in held and role is Role.HOLDER:
            changes: dict[str, Any] = dict(
                active_max=2, pending_max=4, active_at_terminal=1 - item, pending_at_terminal=_left_waiting(stage)
            )
            changes["healthy_baseline"] = False
        elif stage in held and role is not Role.FOLLOW_UP:
            pending = 4 if trace.scheduled_unix_s is None else 0
            changes = dict(active_max=2, pending_max=4, pending_at_terminal=pending, healthy_baseline=False)
            changes["active_at_terminal"] = trace.active_at_terminal or 1
        else:
            changes = {}
        made.traces[index] = dataclasses.replace(trace, line=index + 1, **changes)


def _left_waiting(stage: str) -> int:
    return 4 if stage == "overload" else 1


def retrace(made: build.Run, record: RequestRecord, **changes: Any) -> TraceEvent:
    """Change fields of the trace of a request."""
    for index, trace in enumerate(made.traces):
        if trace.request_id == record.request_id:
            made.traces[index] = dataclasses.replace(trace, **changes)
            return made.traces[index]
    raise AssertionError("no such trace")


def find(made: build.Run, stage: str, role: Role, item: int = 0) -> RequestRecord:
    """The first record of a role in a stage."""
    return next(record for record in made.records if (record.stage, record.role, record.item) == (stage, role, item))


def judge(check: Check, made: build.Run) -> Finding:
    """What a check says of a run, as the judge would ask it."""
    return ask(check, made.evidence())


def write(made: build.Run, run_dir: Path, log_lines: list[str] | None = None) -> None:
    """The run as a directory, sealed."""
    run_dir.mkdir(parents=True, exist_ok=True)
    (run_dir / manifest.PLAN).write_text(made.plan.to_json(), encoding="utf-8")
    header = shard.Header(nonce=made.plan.nonce, worker=0, revision="r", host="h", pid=1)
    shard.append(run_dir / shard.name(0), shard.lines(header, made.records))
    seen = sorted(made.observations, key=lambda one: (one.at_unix_s, not isinstance(one, StageMark)))
    (run_dir / manifest.OBSERVATIONS).write_text("".join(observation.line(one) + "\n" for one in seen), encoding="utf-8")
    lines = [trace_line(trace) for trace in made.traces] if log_lines is None else log_lines
    (run_dir / manifest.SERVER_LOG).write_text("INFO ready\n" + "".join(line + "\n" for line in lines), encoding="utf-8")
    manifest.seal(run_dir, {"command": "test"})


def trace_line(trace: TraceEvent) -> str:
    """The line that a server would have logged for a trace."""

    names = {**pegainfer._FLOATS, **pegainfer._COUNTS}

    raw = {theirs: getattr(trace, ours) for ours, theirs in names.items()}
    raw |= {"request_id": trace.raw_id, "terminal_reason": str(trace.reason), "finish_reason": trace.finish_reason, "error": trace.error}
    return "INFO pegainfer_http_trace " + json.dumps({**raw, "healthy_baseline_after_terminal": trace.healthy_baseline})
