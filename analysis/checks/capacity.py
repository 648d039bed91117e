"""Whether as many requests as the server can hold do run at once, and one more has to wait: a lost slot shows here and nowhere else.

Everything is ordered by cause: holders keep their slots until told, and only those who come behind a full set must wait. A
slot that is lost keeps a holder from its first token for as long as the others hold.
"""

from analysis.checks.holding import Hold, holds
from analysis.checks.overlap import certain_overlap
from analysis.checks.requests import ending, planned, shown, where
from analysis.checks.tempo import Tempo, tempo
from analysis.evidence import Evidence
from analysis.finding import Check, Finding, failed, not_applicable, passed, unknown
from analysis.record import RequestRecord
from analysis.vocabulary import Outcome, Role


def refilled(evidence: Evidence) -> Finding:
    """The finding of `state.capacity`, which is also a witness of the state at rest."""
    found = holds(evidence)
    if not planned(evidence, Role.HOLDER):
        return not_applicable("no stage of this scenario fills all slots")
    if not found:
        return unknown("no request that was to hold a slot was sent")
    ours = [ending(one) for hold in found for one in hold.holders if one.outcome is Outcome.HARNESS_STOPPED]
    cap = evidence.plan.target.active_cap
    speed = tempo(evidence)
    if speed is None:
        return unknown("the server's own speed was not measured")
    needed = cap if cap is not None else _fault_free_at_once(evidence, speed)
    wrong = [line for hold in found for line in _lost(evidence, hold, needed, speed)]
    if cap is not None:
        wrong += [line for hold in found for line in _let_in(evidence, hold, cap, speed)]
    if wrong:
        return failed(f"not {needed} slots as before: {len(wrong)} signs", *shown(wrong))
    short = [
        hold.stage
        for hold in found
        if _held_at_once(hold, speed) < min(needed, len(hold.holders)) or (cap is not None and len(hold.holders) < cap)
    ]
    if ours or short:
        return unknown(f"slots were not filled in: {', '.join(short) or 'no stage that could be judged'}", *shown(ours))
    sets = ", ".join(f"{_held_at_once(hold, speed)} at once in {hold.stage} for {hold.length_s:.1f} s" for hold in found)
    waited = sum(len(hold.behind) for hold in found)
    return passed(f"{sets}; {waited} more had to wait" if cap is not None else f"{sets}; before any fault, {needed} at once")


def text_span(record: RequestRecord) -> tuple[float, float]:
    """From the first to the last piece of text that reached the client: in between, the request was active."""
    return record.started_unix_s + record.token_times_s[0], record.started_unix_s + record.token_times_s[-1]


def _fault_free_at_once(evidence: Evidence, speed: Tempo) -> int:
    """Where nobody says what the cap is: as many streams as certainly ran at once before anybody misbehaved."""
    spans = [text_span(one) for one in evidence.records if one.role is Role.CONTROL and len(one.token_times_s) > 1]
    return certain_overlap(spans, 2 * speed.gap_s)


def _held_at_once(hold: Hold, speed: Tempo) -> int:
    """As many holders as certainly ran at once: one that got the slot of another which ended by itself does not count."""
    spans = [text_span(one) for one in hold.holders if len(one.token_times_s) > 1]
    return certain_overlap(spans, speed.gap_s)


def _lost(evidence: Evidence, hold: Hold, needed: int, speed: Tempo) -> list[str]:
    """Holders that got no slot while the others held theirs."""
    wanted = min(needed, len(hold.holders))
    lost = wanted - _held_at_once(hold, speed)
    stopped = sum(one.outcome is Outcome.HARNESS_STOPPED for one in hold.holders)
    turned_away = evidence.plan.target.queue == "queued_or_refused" and _refused(hold)
    if lost <= stopped or turned_away:
        return []
    without = [f"no first token: {ending(one)}" for one in hold.holders if one.first_token_s is None]
    return [f"{hold.stage}: {wanted - lost} of {wanted} holders ran at once: {lost} slots are lost", *without]


def _refused(hold: Hold) -> bool:
    return any(one.outcome is Outcome.REJECTED for one in hold.holders)


def _let_in(evidence: Evidence, hold: Hold, cap: int, speed: Tempo) -> list[str]:
    """Requests that got a first token while a full set of others held, well before the first of these left."""
    if not hold.fills(cap) or hold.begin_unix_s is None:
        return []
    grace = evidence.limit("slot_overlap_s") + 2 * speed.gap_s
    early = []
    for one in hold.behind:
        first = None if one.first_token_s is None else one.started_unix_s + one.first_token_s
        if first is not None and first < hold.end_unix_s - grace:
            early.append(
                f"{where(one)}: a first token {hold.end_unix_s - first:.2f} s before any of {len(hold.holders)} holders left (cap {cap})"
            )
    return early


CAPACITY = Check(id="state.capacity", question="Can as many requests as the cap says run at once afterwards, and no more?", judge=refilled)
