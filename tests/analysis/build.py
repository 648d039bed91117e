"""Tiny hand-made runs for the tests of the judge: a good run of every role, and helpers to spoil one thing in it.

Nothing here is measured. The imaginary server makes a token every 10 ms, its first after 20 ms, and has a cap of 2; `GOOD`
texts are its answers. A test changes records, traces or observations of `good()` and asks a check for its finding.
"""

import dataclasses
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from analysis.evidence import Evidence, LogSummary
from analysis.load import assemble
from analysis.observation import (
    HealthReading,
    MetricsReading,
    Milestone,
    Observation,
    Pace,
    ProcessReading,
    StageMark,
    WorkerMark,
)
from analysis.plan import Group, Item, Plan, Row, Stage, Target, Threshold
from analysis.record import RequestRecord
from analysis.trace import TraceEvent
from analysis.vocabulary import Contract, Ending, Endpoint, ErrorKind, Outcome, Phase, Role, TerminalReason

THRESHOLDS = Path(__file__).resolve().parents[2] / "scenarios" / "thresholds.toml"
NONCE = "00112233aabbccdd"
BEGIN_UNIX_S = 1_000.0
STAGE_S = 10.0
GAP_S = 0.01
FIRST_S = 0.02
TOKENS = 6
PROMPTS = {"red": "Tell of red things", "blue": "Tell of blue things", "long": "Tell of many things " * 40}
GOOD = {
    "red": (" cherry", " tomato", " ruby", " brick", " rust", " wine"),
    "blue": (" river", " sky", " denim", " cobalt", " lapis", " azure"),
    "long": (" catalogue", " of", " everything", " known", " hitherto", " onwards"),
}
STAGES = ("reference", "control", "cancel", "bad_requests", "overload", "drain")


def target(**changes: Any) -> Target:
    """A server with every promise made."""
    facts: dict[str, Any] = dict(
        profile="reference", base_url="http://127.0.0.1:1", model="toy", active_cap=2, context_length=4096,
        request_id_in_body=True, ignore_eos=True, batch_invariant=True, stream_refusal="status_or_event", queue="queued",
        queued_leaver="at_once", health_path="/health", metrics_path="/metrics", running_gauge="running",
        waiting_gauge="waiting", gauges="promised", trace="pegainfer", launched=True,
    )  # fmt: skip
    return Target(**{**facts, **changes})


def item(**changes: Any) -> Item:
    """One normal streamed completion of the prompt `red`."""
    facts: dict[str, Any] = dict(
        role=Role.NORMAL, endpoint=Endpoint.COMPLETIONS, stream=True, prompt="red", size="unit", fault="none",
        ending=Ending.NORMAL, tokens=0, row=None,
    )  # fmt: skip
    return Item(**{**facts, **changes})


def group(name: str, *items: Item, **changes: Any) -> Group:
    """A group of one user that works through its items."""
    facts: dict[str, Any] = dict(
        user="NormalUser", users=1, min_count=0, loop=False, waits_for=None, spacing_s=0.0, released_by=(), hold_tokens=0,
        hold_s=0.0, needs=0,
    )  # fmt: skip
    return Group(**{"name": name, "items": items, **facts, **changes})


def stage(name: str, *groups: Group, **changes: Any) -> Stage:
    """A stage with one follow-up."""
    facts: dict[str, Any] = dict(budget_s=10.0, limit_units=3.0, follow_ups=1, watch_s=0.0, faulty=name not in ("reference", "control"))
    return Stage(**{"name": name, "groups": groups, **facts, **changes})


def plan(**changes: Any) -> Plan:
    """The plan that `good()` carried out."""
    rows = {
        "negative_max_tokens": Row(contract=Contract.MUST_REFUSE, why="a number of tokens is not negative", traced=False),
        "temperature_zero": Row(contract=Contract.MUST_SERVE, why="greedy, in so many words", traced=True),
        "top_k_minus_two": Row(contract=Contract.EITHER, why="servers differ", traced=True),
    }
    facts: dict[str, Any] = dict(
        schema_version=1, scenario="tiny", seed=1, nonce=NONCE, deadline_s=None, target=target(), prompts=PROMPTS, rows=rows,
        thresholds=thresholds(), stages=_stages(),
    )  # fmt: skip
    return Plan(**{**facts, **changes})


def thresholds() -> dict[str, Threshold]:
    """The numbers that a real run would take."""
    return {name: Threshold(**entry) for name, entry in tomllib.loads(THRESHOLDS.read_text(encoding="utf-8")).items()}


def _stages() -> tuple[Stage, ...]:
    waiters = group("waiters", item(), waits_for="holders:first_token", spacing_s=0.3)
    holders = group("holders", item(role=Role.HOLDER, size="endless", fault="hold", ending=Ending.FIN), released_by=("waiters:sent",))
    bystanders = group("bystanders", item(role=Role.BYSTANDER), loop=True)
    leavers = group("cancelling", item(role=Role.FAULTY, fault="cancel", ending=Ending.FIN, tokens=2))
    bad = group("malformed", item(role=Role.BAD, row="negative_max_tokens"))
    return (
        stage("reference", group("reference", item(role=Role.REFERENCE)), follow_ups=0),
        stage("control", group("control", item(role=Role.CONTROL))),
        stage("cancel", bystanders, leavers),
        stage("bad_requests", bystanders, bad),
        stage("overload", holders, waiters),
        stage("drain", holders, watch_s=1.0),
    )


@dataclass(slots=True, kw_only=True)
class Run:
    """A run in the making; lists may be changed until `evidence()` is asked for."""

    plan: Plan = field(default_factory=plan)
    records: list[RequestRecord] = field(default_factory=list)
    traces: list[TraceEvent] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    log: LogSummary | None = None
    problems: tuple[str, ...] = ()

    def retarget(self, **changes: Any) -> None:
        """Change facts of the target."""
        self.plan = dataclasses.replace(self.plan, target=dataclasses.replace(self.plan.target, **changes))

    def spoil(self, match: Callable[[RequestRecord], bool], count: int = 10_000, **changes: Any) -> list[RequestRecord]:
        """Change fields of the first `count` matching records; the records as they are now. A match of none is the test's mistake."""
        spoilt: list[RequestRecord] = []
        for index, record in enumerate(self.records):
            if len(spoilt) < count and match(record):
                self.records[index] = dataclasses.replace(record, **changes)
                spoilt.append(self.records[index])
        assert spoilt, "nothing matched"
        return spoilt

    def drop(self, match: Callable[[RequestRecord], bool]) -> None:
        """Take matching records out."""
        self.records = [record for record in self.records if not match(record)]

    def unobserve(self, *kinds: type[Any]) -> None:
        """Take all observations of these kinds out."""
        self.observations = [one for one in self.observations if not isinstance(one, kinds)]

    def add(self, record: RequestRecord, traced: bool = True) -> RequestRecord:
        """Add a record, with an honest trace where it has one."""
        sequence = max((each.sequence for each in self.records), default=-1) + 1
        record = dataclasses.replace(record, sequence=sequence, request_id=request_id(sequence))
        self.records.append(record)
        if traced:
            self.traces.append(trace(record, line=len(self.traces) + 1))
        return record

    def evidence(self) -> Evidence:
        """What a judge would read from it."""
        return evidence(self)


def request_id(sequence: int, worker: int = 0) -> str:
    """An id of the run."""
    return f"r{NONCE}w{worker:03d}n{sequence:08d}x"


def completed(stage_name: str, offset_s: float, **changes: Any) -> RequestRecord:
    """A streamed request that began `offset_s` into its stage and got the good text of its prompt."""
    prompt = changes.get("prompt", "red")
    stream = changes.get("stream", True)
    tokens = GOOD[prompt][: changes.get("max_tokens", TOKENS)]
    times = tuple(round(FIRST_S + GAP_S * index, 6) for index in range(len(tokens)))
    facts: dict[str, Any] = dict(
        request_id="", worker=0, sequence=0, stage=stage_name, group="normal", item=0, role=Role.NORMAL,
        endpoint=Endpoint.COMPLETIONS, stream=stream, prompt=prompt, max_tokens=TOKENS, fault="none", row=None,
        started_unix_s=BEGIN_UNIX_S + STAGES.index(stage_name) * STAGE_S + offset_s, connected_s=0.001, sent_s=0.002,
        headers_s=0.003 if stream else times[-1], first_token_s=times[0] if stream else None,
        last_token_s=times[-1] if stream else None, ended_s=times[-1] + 0.001, phase=Phase.FINISHED, outcome=Outcome.COMPLETED,
        status=200, content_type="text/event-stream; charset=utf-8" if stream else "application/json", text="".join(tokens),
        finish_reason="length", prompt_tokens=len(PROMPTS[prompt].split()), completion_tokens=len(tokens),
        token_events=len(tokens) if stream else 1, token_times_s=times if stream else (),
        token_chars=tuple(accumulate(map(len, tokens))) if stream else (),
    )  # fmt: skip
    return RequestRecord(**{**facts, **changes})


def left(stage_name: str, offset_s: float, tokens: int, **changes: Any) -> RequestRecord:
    """An endless streamed request that its client left after some tokens (0: before the first)."""
    whole = completed(stage_name, offset_s, **{key: changes[key] for key in ("prompt",) if key in changes})
    times = whole.token_times_s[:tokens]
    cut = times[-1] + 0.001 if times else 0.010
    facts: dict[str, Any] = dict(
        role=Role.FAULTY, group="cancelling", fault="cancel", max_tokens=4000,
        outcome=Outcome.CANCELLED if tokens else Outcome.DISCONNECTED,
        phase=Phase.STREAMING if tokens else Phase.AWAITING_FIRST_TOKEN, ending=Ending.FIN, landed=True, cut_s=cut, ended_s=cut,
        first_token_s=times[0] if times else None, last_token_s=times[-1] if times else None, token_times_s=times, token_events=tokens,
        token_chars=whole.token_chars[:tokens],
        text="".join(GOOD[whole.prompt][:tokens]), finish_reason=None, prompt_tokens=None, completion_tokens=None,
    )  # fmt: skip
    return dataclasses.replace(whole, **{**facts, **changes})


def refused(stage_name: str, offset_s: float, **changes: Any) -> RequestRecord:
    """A bad request that was refused with an OpenAI error body."""
    whole = completed(stage_name, offset_s)
    facts: dict[str, Any] = dict(
        role=Role.BAD, group="malformed", fault="malformed", row="negative_max_tokens", max_tokens=None, outcome=Outcome.REJECTED,
        status=400, content_type="application/json", landed=True, headers_s=0.004, ended_s=0.005, first_token_s=None, last_token_s=None,
        token_times_s=(), token_events=0, text="", finish_reason=None, prompt_tokens=None, completion_tokens=None,
        error_body='{"error":{"message":"max_tokens must be at least 1","type":"invalid_request_error"}}',
        error_type="invalid_request_error",
    )  # fmt: skip
    return dataclasses.replace(whole, **{**facts, **changes})


def trace(record: RequestRecord, **changes: Any) -> TraceEvent:
    """What an honest server logs on this record."""
    begin = record.started_unix_s + (record.sent_s or 0.0)
    first = None if record.first_token_s is None and record.stream else record.started_unix_s + (record.first_token_s or FIRST_S)
    end = record.started_unix_s + (record.ended_s if record.cut_s is None else record.cut_s)
    count = record.completion_tokens if record.completion_tokens is not None else record.token_events
    facts: dict[str, Any] = dict(
        line=1, raw_id=f"cmpl-{record.request_id}", request_id=record.request_id, child="", reason=_reason(record), raw_reason="",
        finish_reason=record.finish_reason, error=None, queued_unix_s=begin, scheduled_unix_s=begin + 0.0005,
        prefill_done_unix_s=first, first_token_unix_s=first, terminal_unix_s=end, scheduled_to_first_token_ms=None,
        prefill_ms=10.0, first_decode_ms=None, decode_total_ms=None, decode_mean_ms=None,
        decode_step_count=max(count - 1, 0), batch_decode_steps=0, singleton_decode_steps=max(count - 1, 0), decode_batch_size_max=1,
        prompt_tokens=len(PROMPTS.get(record.prompt, record.prompt).split()),
        completion_tokens=count, active_max=1, pending_max=0, active_at_terminal=0,
        pending_at_terminal=0, healthy_baseline=True,
    )  # fmt: skip
    facts |= changes
    for name, before, after in (("queue_wait_ms", "queued", "scheduled"), ("scheduled_to_terminal_ms", "scheduled", "terminal")):
        one, other = facts[f"{before}_unix_s"], facts[f"{after}_unix_s"]
        facts.setdefault(name, None if one is None or other is None else (other - one) * 1000)
    return TraceEvent(**facts)


def _reason(record: RequestRecord) -> TerminalReason:
    words = {Outcome.CANCELLED: TerminalReason.CANCELLED, Outcome.DISCONNECTED: TerminalReason.DISCONNECTED}
    words |= {Outcome.REJECTED: TerminalReason.REJECTED, Outcome.FAILED: TerminalReason.ERROR}
    return words.get(record.outcome, TerminalReason.COMPLETED_LENGTH)


def good() -> Run:
    """A whole run in which the server did everything right."""
    run = Run(
        log=LogSummary(
            line_count=80, size_bytes=8_000, trace_count=0, unreadable=(), crashes=(), error_count=0, repeated=(("INFO request", 40),)
        )
    )
    _fault_free(run)
    _faulty(run)
    _overload(run)
    for index, name in enumerate(STAGES[1:], start=1):
        run.add(completed(name, STAGE_S - 1.0, role=Role.FOLLOW_UP, group="follow_up", item=index))
    run.observations = list(_watched())
    return run


def _fault_free(run: Run) -> None:
    for index, prompt in enumerate(PROMPTS):
        run.add(completed("reference", index, prompt=prompt, role=Role.REFERENCE, group="reference"))
        run.add(completed("reference", index + 0.5, prompt=prompt, stream=False, role=Role.REFERENCE, group="reference"))
    for index in range(24):
        changes = {"prompt": tuple(PROMPTS)[index % 3], "stream": index % 4 != 3, "item": index}
        run.add(completed("control", index * 0.05, role=Role.CONTROL, group="control", **changes))


def _faulty(run: Run) -> None:
    for name in ("cancel", "bad_requests"):
        for index in range(24):
            changes = {"prompt": tuple(PROMPTS)[index % 3], "item": index}
            run.add(completed(name, index * 0.3, role=Role.BYSTANDER, group="bystanders", **changes))
    for index in range(12):
        run.add(left("cancel", 0.03 + index * 0.6, tokens=index % 3, item=index))
        run.add(refused("bad_requests", 0.03 + index * 0.6, item=index, stream=index % 2 == 0), traced=False)


def _overload(run: Run) -> None:
    holder = dict(role=Role.HOLDER, group="holders", fault="hold", cut_s=3.0, ended_s=3.0)
    for index in range(2):
        run.add(left("overload", 0.01 * index, tokens=5, **{**holder, "item": index}))
    for index in range(4):
        begin = 0.3 + 0.3 * index
        first = 3.05 + 0.1 * index - begin
        times = tuple(round(first + GAP_S * step, 6) for step in range(TOKENS))
        late = dict(first_token_s=times[0], last_token_s=times[-1], token_times_s=times, ended_s=times[-1] + 0.001)
        record = run.add(completed("overload", begin, group="waiters", item=index, **late), traced=False)
        run.traces.append(trace(record, line=len(run.traces) + 1, scheduled_unix_s=record.started_unix_s + first - 0.01))


def _watched() -> Iterable[Observation]:
    yield Pace(at_unix_s=BEGIN_UNIX_S + 9.0, first_token_s=FIRST_S, token_gap_s=GAP_S, unit_tokens=TOKENS)
    yield WorkerMark(at_unix_s=BEGIN_UNIX_S + 60.0, worker=0, event="closed")
    for index, name in enumerate(STAGES):
        begin = BEGIN_UNIX_S + index * STAGE_S
        yield StageMark(at_unix_s=begin, stage=name, edge="begin")
        yield StageMark(at_unix_s=begin + STAGE_S - 2.0, stage=name, edge="end")
        for step in range(20):
            at = begin + step * 0.5
            yield HealthReading(at_unix_s=at, stage=name, status=200, latency_s=0.003)
            yield MetricsReading(at_unix_s=at, stage=name, moment="sample", gauges={"running": 1.0, "waiting": 0.0}, counters={})
        for moment, at in (("settled", begin + STAGE_S - 1.5), ("poked", begin + STAGE_S - 0.5)):
            yield MetricsReading(at_unix_s=at, stage=name, moment=moment, gauges={"running": 0.0, "waiting": 0.0}, counters={})
            yield process(name, moment, at)
    for name in ("holders:first_token", "waiters:sent"):
        yield Milestone(at_unix_s=BEGIN_UNIX_S + 41.0, stage="overload", name=name, forced=False)


def process(stage_name: str, moment: str, at_unix_s: float, **changes: Any) -> ProcessReading:
    """Figures of a process that does not grow."""
    facts: dict[str, Any] = dict(
        pid=77, started_unix_s=900.0, rss_bytes=300_000_000, fd_count=30, thread_count=12, socket_count=6, child_count=1
    )
    return ProcessReading(**{"at_unix_s": at_unix_s, "stage": stage_name, "moment": moment, **facts, **changes})


def evidence(run: Run) -> Evidence:
    """The evidence in a run."""
    return assemble(run.plan, run.records, run.traces, run.observations, log=run.log, problems=run.problems)


__all__ = ["ErrorKind", "Run", "completed", "good", "left", "refused", "trace"]
