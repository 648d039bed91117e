"""Whether active and pending are back to nothing once everybody has gone, by three witnesses that can lie in different ways.

A trace says what was left when a request ended: a clean follow-up runs alone, so whatever is left beyond requests that other
traces still show as running has leaked. Gauges are read at rest, and again after one tiny request: what is wrong before and
right after was a stale gauge, what stays wrong is a leak. The refill probe needs neither: all slots must be there again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mode

from analysis.checks.capacity import refilled
from analysis.checks.clock import pairs
from analysis.checks.overlap import Crowd
from analysis.checks.requests import shown, where
from analysis.evidence import Evidence
from analysis.finding import Check, Finding, failed, not_applicable, passed, unknown
from analysis.record import RequestRecord
from analysis.trace import TraceEvent
from analysis.vocabulary import Outcome, Role, Status

Pair = tuple[RequestRecord, TraceEvent]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Requests left at the very end of the run, by the best witness there is, and what each witness says."""

    active: int | None
    pending: int | None
    witnesses: dict[str, str]


NO_BASELINE = Baseline(active=None, pending=None, witnesses={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What a witness says of one moment of rest."""

    stage: str
    who: str
    active: int
    pending: int

    @property
    def clean(self) -> bool:
        """Nothing is left."""
        return self.active <= 0 and self.pending <= 0

    def __str__(self) -> str:
        return f"after {self.stage}: {self.active} active and {self.pending} pending by {self.who}"


def by_traces(evidence: Evidence) -> list[Rest]:
    """What was left at the end of the last follow-up of each stage, beyond what a request alone leaves before any load."""
    matched = [pair for pair in pairs(evidence) if pair[1].active_at_terminal is not None and pair[1].pending_at_terminal is not None]
    usual = _alone(matched)
    open_still = Crowd(_open(evidence.traces), -evidence.limit("trace_clock_s"))
    ended = sorted((pair for pair in matched if pair[1].terminal_unix_s is not None), key=lambda pair: pair[1].terminal_unix_s or 0.0)
    last = {
        record.stage: (record, trace) for record, trace in ended if record.role is Role.FOLLOW_UP and record.outcome is Outcome.COMPLETED
    }
    return [_left(record, trace, usual, open_still) for record, trace in last.values()]


def _alone(matched: list[Pair]) -> int:
    """What a server counts as active at the end of a request that is alone: 0, or 1 where it still counts the request itself."""
    solo = [trace.active_at_terminal for record, trace in matched if record.role is Role.REFERENCE and trace.active_at_terminal is not None]
    return min(mode(solo), 1) if solo else 0


def _open(traces: Iterable[TraceEvent]) -> list[tuple[float, float]]:
    """From being queued to the end, once for each request: also of those whose records were lost."""
    each = {trace.raw_id: trace for trace in traces}.values()
    return [(one.queued_unix_s, one.terminal_unix_s) for one in each if one.queued_unix_s is not None and one.terminal_unix_s is not None]


def _left(record: RequestRecord, trace: TraceEvent, usual: int, open_still: Crowd) -> Rest:
    """Minus requests that were still open by their own traces: a late end is not a leak."""
    others = max(open_still.at(trace.terminal_unix_s or 0.0) - 1, 0)
    active, pending = (trace.active_at_terminal or 0) - usual, trace.pending_at_terminal or 0
    beyond = max(active, 0) + pending - others
    return Rest(
        stage=record.stage, who=f"the trace of {where(record)}", active=active if beyond > 0 else 0, pending=pending if beyond > 0 else 0
    )


def by_gauges(evidence: Evidence, moment: str) -> list[Rest]:
    """Readings at rest; `settled` before the follow-up of a stage, `poked` after it (the last one of each counts)."""
    frame = evidence.metrics[(evidence.metrics["moment"] == moment) & evidence.metrics["running"].notna()]
    frame = frame.drop_duplicates("stage", keep="last")
    rows = zip(frame["stage"], frame["running"], frame["waiting"].fillna(0.0), strict=True)
    return [
        Rest(stage=str(stage), who=f"gauges when {moment}", active=int(running), pending=int(waiting)) for stage, running, waiting in rows
    ]


def baseline(evidence: Evidence) -> Baseline:
    """The figures at the end, for verdict.json."""
    traced, gauges = by_traces(evidence), by_gauges(evidence, "poked")
    refill = refilled(evidence)
    witnesses = {"traces": str(traced[-1])} if traced else {}
    witnesses |= {"gauges": str(gauges[-1])} if gauges else {}
    witnesses |= {"refill": f"{refill.status}: {refill.summary}"} if refill.status is not Status.NOT_APPLICABLE else {}
    rests = traced or gauges
    if not rests:
        return Baseline(active=None, pending=None, witnesses=witnesses)
    last = rests[-1]
    return Baseline(active=max(last.active, 0), pending=max(last.pending, 0), witnesses=witnesses)


def _baseline(evidence: Evidence) -> Finding:
    traced, settled, poked = by_traces(evidence), by_gauges(evidence, "settled"), by_gauges(evidence, "poked")
    refill = refilled(evidence)
    said = [f"{len(rests)} moments by {who}" for rests, who in ((traced, "traces"), (settled + poked, "gauges")) if rests]
    said += [f"refill: {refill.summary}"] if refill.status is Status.PASS else []
    dirty = [rest.stage for rest in settled if not rest.clean]
    stale = set(dirty) - {rest.stage for rest in poked if not rest.clean}
    wrong = [str(rest) for rest in (*traced, *_lasting(poked, dirty)) if not rest.clean]
    if wrong:
        return failed(f"requests are left at rest in {len(wrong)} readings", *shown([*wrong, *_stale(stale)]))
    if refill.status is Status.FAIL:
        return failed(f"slots are missing at rest: {refill.summary}", *refill.evidence)
    if evidence.plan.target.trace is not None and not traced:
        return unknown("no follow-up has a trace that says what was left at its end")
    if evidence.plan.target.gauges == "promised" and not poked:
        return unknown("the promised gauges were never read at rest after a follow-up")
    if not said:
        silent = evidence.plan.target.trace is None and evidence.plan.target.gauges != "promised" and refill.status is Status.NOT_APPLICABLE
        return not_applicable("no witness of this server shows its state at rest") if silent else unknown("no witness spoke at rest")
    return passed(f"nothing is left at rest: {'; '.join(said)}", *_stale(stale))


def _lasting(poked: list[Rest], dirty: list[str]) -> list[Rest]:
    """Readings after a follow-up that are wrong for longer than it takes to count the follow-up itself as over."""
    wrong = [rest for rest in poked if not rest.clean]
    lasting = len(wrong) > 1 or any(rest.stage in dirty or rest is poked[-1] for rest in wrong)
    return wrong if lasting else []


def _stale(stages: set[str]) -> list[str]:
    return [f"after {stage}: gauges not at 0 until one more request had run: stale, not a leak" for stage in sorted(stages)]


BASELINE = Check(id="state.baseline", question="Are active and pending back to nothing at rest?", judge=_baseline)
