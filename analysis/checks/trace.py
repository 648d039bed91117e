"""Whether every request has one terminal trace and every trace a request, and whether its reason agrees with what the client did.

Two orders are both legal wherever a client cannot know: it left while its first token, or its last one, was on the way. So
`cancelled` and `disconnected` are a set for a client that left, and `completed_…` is legal as long as the answer could have
been finished by the time that the server had to notice.
"""

from analysis.checks.clock import Clock, clock, pairs
from analysis.checks.holding import holds
from analysis.checks.leavers import notice_s
from analysis.checks.requests import end_unix_s, ending, shown
from analysis.checks.tempo import tempo
from analysis.evidence import Evidence, Place
from analysis.finding import Check, Finding, failed, not_applicable, passed, unknown
from analysis.record import RequestRecord
from analysis.trace import TraceEvent
from analysis.vocabulary import Ending, Outcome, Role, TerminalReason

DONE = frozenset({TerminalReason.COMPLETED_LENGTH, TerminalReason.COMPLETED_STOP})
GONE = frozenset({TerminalReason.CANCELLED, TerminalReason.DISCONNECTED})
ALLOWED: dict[Outcome, frozenset[TerminalReason]] = {
    Outcome.COMPLETED: DONE,
    Outcome.REJECTED: frozenset({TerminalReason.REJECTED}),
    Outcome.CANCELLED: GONE | DONE,
    Outcome.DISCONNECTED: GONE | DONE,
    Outcome.FAILED: GONE | {TerminalReason.ERROR, TerminalReason.REJECTED},
    Outcome.TIMEOUT: GONE | DONE | {TerminalReason.ERROR},
    Outcome.HARNESS_STOPPED: frozenset(TerminalReason),
}
"""Reasons that a server may log for what a client saw; `DONE` for one that left only if there was time to finish."""
BY_FINISH = {"length": TerminalReason.COMPLETED_LENGTH, "stop": TerminalReason.COMPLETED_STOP}
CERTAINLY_EMITTED = 3
"""Events with text after which a server knows for certain that its first token was under way."""
NO_TRACE = "this server logs no trace, so nothing is claimed about its own account of requests"


def unjoined(evidence: Evidence) -> Finding | None:
    """Why traces cannot be judged at all; None where they can."""
    if evidence.plan.target.trace is None:
        return not_applicable(NO_TRACE)
    if evidence.ledger.empty:
        return unknown("no trace in the server's log belongs to a request of this run")
    return None


def _coverage(evidence: Evidence) -> Finding:
    evidence.limit("trace_dwell_s")
    silent = _silent(evidence)
    missing = failed(silent) if silent else unjoined(evidence)
    if missing is not None:
        return missing
    wrong, lost = _missing(evidence)
    strangers, others = _orphans(evidence)
    lost += others
    wrong += strangers + _repeated(evidence) + _all_silent(evidence)
    log = evidence.log
    wrong += [f"unreadable trace: {line}" for line in log.unreadable] if log else []
    if wrong:
        return failed(f"the server's account is not one trace a request: {_counted(evidence)}", *shown(wrong))
    if lost:
        return unknown(f"{len(lost)} traces or requests may be missing with lost evidence", *shown(lost))
    return passed(f"one trace a request: {_counted(evidence)}")


def _silent(evidence: Evidence) -> str:
    """Where the log is certainly this server's, since the gate started it, a log without any trace is the server's fault."""
    target, served = evidence.plan.target, sum(record.outcome is Outcome.COMPLETED for record in evidence.records)
    if target.trace is None or not target.launched or evidence.log is None or not evidence.trace_frame.empty or not served:
        return ""
    return f"the server promises a trace of each request, answered {served} and logged none"


def _counted(evidence: Evidence) -> str:
    requests, traces = evidence.requests["place"].value_counts(), evidence.trace_frame["place"].value_counts()
    facts = [(requests, Place.MATCHED, "matched"), (requests, Place.CLIENT_ONLY, "without a trace"), (traces, Place.SERVER_ONLY, "orphans")]
    facts += [(traces, Place.DUPLICATE, "written twice"), (traces, Place.MULTI_TERMINAL, "ended twice")]
    unreadable = len(evidence.log.unreadable) if evidence.log else 0
    words = [f"{int(counts.get(str(place), 0))} {word}" for counts, place, word in facts]
    return ", ".join([*words, f"{unreadable} unreadable", f"{int(requests.get(str(Place.EXCUSED), 0))} need none"])


def _missing(evidence: Evidence) -> tuple[list[str], list[str]]:
    """Requests that must have a trace and have none: the server's fault, or lost with the end of a log that is torn."""
    without = set(evidence.requests.loc[evidence.requests["place"] == Place.CLIENT_ONLY, "request_id"])
    torn = bool(evidence.log and evidence.log.torn)
    last = evidence.ledger["ended_unix_s"].astype(float).max() if torn else float("inf")
    wrong: list[str] = []
    lost: list[str] = []
    for record in evidence.records:
        if record.request_id in without:
            (lost if record.started_unix_s + record.ended_s > last else wrong).append(f"no trace of {ending(record)}")
    return wrong, lost


def _all_silent(evidence: Evidence) -> list[str]:
    """Clients that left the queue so early that any single one may have gone unnoticed: most of them cannot."""
    spans = [(hold, record) for hold in holds(evidence) for record in hold.behind if record.outcome is Outcome.DISCONNECTED]
    stayed = [
        record
        for hold, record in spans
        if hold.spans(record) and record.sent_s is not None and _stay_s(record) >= evidence.limit("trace_stay_s")
    ]
    places = dict(zip(evidence.requests["request_id"], evidence.requests["place"], strict=True))
    silent = [record for record in stayed if places[record.request_id] == Place.EXCUSED]
    if len(stayed) < evidence.limit("retire_samples") or len(silent) <= len(stayed) / 2:
        return []
    return [f"{len(silent)} of {len(stayed)} clients that stayed a while in the queue and left have no trace", *map(ending, silent)]


def _stay_s(record: RequestRecord) -> float:
    left = record.ended_s if record.cut_s is None else record.cut_s
    return left - (record.sent_s or 0.0)


def _orphans(evidence: Evidence) -> tuple[list[str], list[str]]:
    """Traces of no request: invented by the server, or of requests whose record was lost."""
    frame = evidence.trace_frame[evidence.trace_frame["place"] == Place.SERVER_ONLY]
    wrong: list[str] = []
    lost: list[str] = []
    for line, raw_id, request_id in zip(frame["line"], frame["raw_id"], frame["request_id"], strict=True):
        ours = isinstance(request_id, str) and bool(evidence.problems)
        (lost if ours else wrong).append(f"line {line}: a trace of no request: {raw_id[:80]}")
    return wrong, lost


def _repeated(evidence: Evidence) -> list[str]:
    frame = evidence.trace_frame
    again = frame[frame["place"].isin([Place.DUPLICATE, Place.MULTI_TERMINAL])]
    return [
        f"line {line}: {place.replace('_', ' ')} of {request_id}: {reason}"
        for line, place, request_id, reason in zip(again["line"], again["place"], again["request_id"], again["raw_reason"], strict=True)
    ]


def _agreement(evidence: Evidence) -> Finding:
    missing = unjoined(evidence)
    if missing is not None:
        return missing
    speed, offset = tempo(evidence), clock(evidence)
    if speed is None or offset is None:
        return unknown("no fault-free request bounds the server's clock and pace")
    queued = _certainly_queued(evidence)
    limit = notice_s(evidence, speed)
    wrong = []
    matched = pairs(evidence)
    for record, trace in matched:
        why = _pair(evidence, record, trace, certainly_queued=record.request_id in queued) or _too_late(
            evidence, record, trace, offset, limit
        )
        if why:
            wrong.append(f"{ending(record)}: the server says {trace.raw_reason!r}: {why}")
    if wrong:
        return failed(f"the server's reason contradicts the client in {len(wrong)} of {len(matched)} requests", *shown(wrong))
    return passed(
        f"the server's reason agrees with the client in {len(matched)} requests, {len(queued)} of them certainly queued when left"
    )


def _certainly_queued(evidence: Evidence) -> set[str]:
    """Requests whose clients came and left while holders had every slot: no first token can have been made for them."""
    cap = evidence.plan.target.active_cap
    return {
        record.request_id
        for hold in holds(evidence)
        if hold.fills(cap)
        for record in hold.behind
        if record.outcome is Outcome.DISCONNECTED and hold.spans(record)
    }


def _pair(evidence: Evidence, record: RequestRecord, trace: TraceEvent, certainly_queued: bool) -> str | None:
    allowed = ALLOWED[record.outcome]
    if record.outcome in (Outcome.CANCELLED, Outcome.DISCONNECTED) and evidence.plan.target.queue == "queued_or_refused":
        allowed = allowed | {TerminalReason.REJECTED}
    if certainly_queued:
        allowed = allowed - DONE - {TerminalReason.CANCELLED}
    if record.outcome is Outcome.COMPLETED and record.finish_reason in BY_FINISH:
        allowed = frozenset({BY_FINISH[record.finish_reason]})
    if record.role is Role.BAD and record.outcome is Outcome.COMPLETED and record.finish_reason == "stop":
        allowed = DONE | {TerminalReason.CANCELLED, TerminalReason.DISCONNECTED}  # a frontend may find the stop string and end the engine
    if trace.reason not in allowed:
        return f"only {', '.join(sorted(allowed))} would do"
    if record.outcome in (Outcome.CANCELLED, Outcome.DISCONNECTED, Outcome.TIMEOUT):
        return _words(evidence, record, trace)
    return None


def _words(evidence: Evidence, record: RequestRecord, trace: TraceEvent) -> str | None:
    """What the word for the end of a request whose client left cannot mean."""
    if trace.reason is TerminalReason.DISCONNECTED and record.token_events >= CERTAINLY_EMITTED:
        return f"its client had {record.token_events} pieces of text"
    if trace.reason is TerminalReason.COMPLETED_STOP and evidence.plan.target.ignore_eos and record.role is not Role.BAD:
        return "nothing could stop it but its length"
    if trace.reason is TerminalReason.COMPLETED_LENGTH and _short(evidence, record, trace):
        return f"{trace.completion_tokens} of {record.max_tokens} tokens were made"
    return None


def _short(evidence: Evidence, record: RequestRecord, trace: TraceEvent) -> bool:
    """Whether neither the length that was asked for nor the end of the context had been reached."""
    made, asked, context = trace.completion_tokens, record.max_tokens, evidence.plan.target.context_length
    if made is None or asked is None or record.role is Role.BAD or made >= asked:
        return False
    return context is None or trace.prompt_tokens is None or trace.prompt_tokens + made < context - 1


def _too_late(evidence: Evidence, record: RequestRecord, trace: TraceEvent, offset: Clock, limit: float) -> str | None:
    """A whole answer for a client that had left long before it was finished."""
    left = record.outcome in (Outcome.CANCELLED, Outcome.DISCONNECTED)
    served = record.role is Role.BAD or record.ending is Ending.HALF_CLOSE  # a half-closed client may well be served to the end
    if not left or served or trace.reason not in DONE or trace.terminal_unix_s is None:
        return None
    gone, over = end_unix_s(record), offset.at_earliest(trace.terminal_unix_s)
    late = over - gone
    if late <= limit or late - evidence.ours(gone, over) <= limit:
        return None
    return f"it was finished {late:.1f} s after its client had left (limit {limit:.1f} s)"


COVERAGE = Check(id="trace.coverage", question="Has every request one terminal record, and every record a request?", judge=_coverage)
AGREEMENT = Check(id="trace.agreement", question="Does the server's reason agree with what the client did?", judge=_agreement)
