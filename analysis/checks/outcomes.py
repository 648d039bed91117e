"""How requests ended: normal ones complete, bad ones are refused, legal ones are served, and none waits for ever."""

from collections import defaultdict

from analysis.checks.golden import exactness
from analysis.checks.refusals import malformed
from analysis.checks.requests import (
    OVERLOAD_STATUS,
    broken_promises,
    completed,
    end_unix_s,
    ending,
    expected,
    mostly_ours,
    planned,
    refused_for_load,
    sent_unix_s,
    shown,
    where,
)
from analysis.checks.tempo import tempo
from analysis.evidence import Evidence
from analysis.finding import Check, Finding, failed, not_applicable, passed, unknown
from analysis.record import RequestRecord
from analysis.vocabulary import Contract, Endpoint, Outcome, Role

LEFT = frozenset({Outcome.CANCELLED, Outcome.DISCONNECTED})
ALIKE = frozenset({400, 422})
"""Two statuses for the same complaint: which one is chosen may differ between code paths."""
UNSUPPORTED = frozenset({501, 505})
"""The 5xx by which HTTP itself says "I never do that": an answer, where a refusal is one of two legal answers."""


def _normal(evidence: Evidence) -> Finding:
    records = expected(evidence)
    wrong: list[str] = []
    ours: list[str] = []
    for record in records:
        if record.outcome is Outcome.COMPLETED or refused_for_load(evidence, record):
            continue
        excused = record.outcome in LEFT or record.outcome is Outcome.HARNESS_STOPPED or mostly_ours(evidence, record)
        (ours if excused else wrong).append(ending(record))
    if wrong:
        return failed(f"{len(wrong)} of {len(records)} requests of well-behaved clients did not complete", *shown(wrong))
    if ours:
        return unknown(f"{len(ours)} of {len(records)} requests of well-behaved clients were stopped from our side", *shown(ours))
    if not completed(records):
        return unknown("no request of a well-behaved client was seen")
    return passed(f"all {len(records)} requests of well-behaved clients completed")


def _bad(evidence: Evidence, *contracts: Contract) -> list[RequestRecord]:
    rows = evidence.plan.rows
    return [
        record for record in evidence.records if record.row is not None and record.row in rows and rows[record.row].contract in contracts
    ]


def _rejection(evidence: Evidence) -> Finding:
    must, either = _bad(evidence, Contract.MUST_REFUSE), _bad(evidence, Contract.EITHER)
    ours = [ending(record) for record in must + either if record.outcome is Outcome.HARNESS_STOPPED or mostly_ours(evidence, record)]
    ours += [ending(record) for record in must if record.outcome in LEFT]
    wrong = [f"{ending(record)}: {why}" for record in must if (why := _not_refused(evidence, record))]
    wrong += [f"{ending(record)}: {why}" for record in either if (why := _not_answered(record))]
    wrong += [f"{where(record)}: {'; '.join(record.problems)}" for record in broken_promises(evidence)]
    wrong += malformed(must + either) + _late(evidence, must + either) + _two_minds(must)
    if wrong:
        return failed(f"{len(wrong)} answers to bad requests are wrong", *shown(wrong))
    if ours:
        return unknown(f"{len(ours)} bad requests got no answer that could be judged", *shown(ours))
    if not must and not planned(evidence, Role.BAD):
        return not_applicable("no bad request is in this scenario")
    if not must:
        return unknown("no request that had to be refused was seen")
    return passed(f"all {len(must)} requests that had to be refused were, and {len(either)} that may be were answered")


def _not_refused(evidence: Evidence, record: RequestRecord) -> str | None:
    if record.outcome is Outcome.COMPLETED:
        return "served, and it had to be refused"
    if record.outcome in (Outcome.FAILED, Outcome.TIMEOUT):
        return "not a refusal"
    if record.outcome is not Outcome.REJECTED:
        return None
    in_stream = record.status is not None and record.status < 300
    if in_stream and evidence.plan.target.stream_refusal == "status":
        return "refused inside a stream, where this server promises a 4xx"
    return None


def _not_answered(record: RequestRecord) -> str | None:
    if record.outcome is Outcome.TIMEOUT:
        return "neither refused nor served"
    if record.outcome is Outcome.FAILED and record.status not in UNSUPPORTED:
        return "neither refused nor served"
    return None


def _late(evidence: Evidence, records: list[RequestRecord]) -> list[str]:
    speed = tempo(evidence)
    if speed is None:
        return []
    limit = evidence.limit("refusal_s") + evidence.limit("refusal_units") * (speed.unit_s + speed.serial_prefill_s)
    late = []
    for record in records:
        took = record.ended_s - (record.sent_s or 0.0)
        if took > limit:
            took -= evidence.ours(sent_unix_s(record), end_unix_s(record))
        if record.outcome is Outcome.REJECTED and took > limit:
            late.append(f"{ending(record)}: refused after {took:.1f} s (limit {limit:.1f} s)")
    return late


def _two_minds(records: list[RequestRecord]) -> list[str]:
    """Rows whose refusal has another status when streamed: a client cannot write one error path for both."""
    seen: dict[tuple[str | None, Endpoint], dict[bool, set[int]]] = defaultdict(lambda: {True: set(), False: set()})
    for record in records:
        if record.outcome is Outcome.REJECTED and record.status is not None and record.status >= 400:
            seen[record.row, record.endpoint][record.stream].add(record.status)
    return [
        f"{row} on {endpoint}: status {sorted(modes[True])} when streamed, {sorted(modes[False])} when not"
        for (row, endpoint), modes in seen.items()
        if modes[True] and modes[False] and modes[True] != modes[False] and not modes[True] | modes[False] <= ALIKE
    ]


def _accepted(evidence: Evidence) -> Finding:
    legal, either = _bad(evidence, Contract.MUST_SERVE), _bad(evidence, Contract.EITHER)
    ours = [ending(one) for one in legal if one.outcome in LEFT or one.outcome is Outcome.HARNESS_STOPPED or mostly_ours(evidence, one)]
    refused = [
        one for one in legal if one.outcome in (Outcome.REJECTED, Outcome.FAILED, Outcome.TIMEOUT) and not refused_for_load(evidence, one)
    ]
    wrong = [f"{ending(one)}: legal, and not served {one.error_body[:120]}".rstrip() for one in refused if not mostly_ours(evidence, one)]
    wrong += [f"{ending(one)}: accepted, but {one.proof}" for one in completed(legal + either) if _disproved(evidence, one)]
    wrong += [f"{ending(one)}: {why}" for one in evidence.records if (why := _turned_away(evidence, one))]
    if wrong:
        return failed(f"{len(wrong)} legal requests were refused or not honoured", *shown(wrong))
    if ours:
        return unknown(f"{len(ours)} legal corner cases were stopped from our side", *shown(ours))
    if not completed(evidence.records):
        return unknown("nothing was served at all")
    proofs = sum(one.proof == "ok" for one in completed(legal + either))
    return passed(
        f"{len(legal)} legal corner cases were served, {proofs} parameters were proved to be honoured, none was turned away with slots free"
    )


def _disproved(evidence: Evidence, record: RequestRecord) -> bool:
    """True where the answer shows that a parameter was ignored. Rows are sent beside others: where batches change texts, a text
    that is not the reference shows nothing."""
    if record.proof in (None, "ok"):
        return False
    return "reference" not in str(record.proof) or exactness(evidence).exact


def _turned_away(evidence: Evidence, record: RequestRecord) -> str | None:
    """Why a 429 or 503 was wrong; None where it was not one, or may have been right."""
    cap = evidence.plan.target.active_cap
    if record.status not in OVERLOAD_STATUS or record.role is Role.BAD:
        return None
    if evidence.plan.target.queue != "queued_or_refused":
        return "turned away, where this server promises to queue"
    if cap is None:
        return None
    busy = _busy_with(evidence, record)
    return f"turned away with at most {busy} of {cap} slots taken" if busy < cap else None


def _busy_with(evidence: Evidence, record: RequestRecord) -> int:
    """How many others may have held a slot: open at the time, or gone so shortly before that the server may not know yet."""
    begin, end = record.started_unix_s, end_unix_s(record)
    grace = evidence.limit("slot_grace_s")
    return sum(
        other.started_unix_s < end and end_unix_s(other) + grace > begin and other.outcome is not Outcome.REJECTED
        for other in evidence.records
        if other is not record
    )


def _timeout(evidence: Evidence) -> Finding:
    if not evidence.records:
        return unknown("no request was seen")
    late = [record for record in evidence.records if record.outcome is Outcome.TIMEOUT]
    theirs = [ending(record) for record in late if not mostly_ours(evidence, record)]
    if theirs:
        return failed(f"{len(theirs)} of {len(evidence.records)} requests ran into their deadline", *shown(theirs))
    if late:
        return unknown(f"{len(late)} requests ran into their deadline while our own side stood still", *shown(list(map(ending, late))))
    cut = [mark.stage for mark in evidence.stages if mark.edge == "cut"]
    if cut:
        return unknown(f"time ran out before the requests of these stages had ended: {', '.join(cut)}")
    longest = max(record.ended_s for record in evidence.records)
    return passed(f"none of {len(evidence.records)} requests ran into its deadline; the longest was open for {longest:.1f} s")


NORMAL = Check(id="outcomes.normal", question="Did every normal request complete?", judge=_normal)
REJECTION = Check(id="outcomes.rejection", question="Was every bad request refused in time and in the right form?", judge=_rejection)
ACCEPTED = Check(id="outcomes.accepted", question="Was nothing legal refused or silently ignored?", judge=_accepted)
TIMEOUT = Check(id="outcomes.timeout", question="Did nothing run into its deadline?", judge=_timeout)
