"""Whether a clean request, alone after each stage, gets the right answer as fast as before anybody misbehaved."""

from statistics import median

from analysis.checks.golden import difference, exactness, goldens
from analysis.checks.requests import completed, end_unix_s, ending, mostly_ours, shown, where
from analysis.checks.tempo import Tempo, first_token_wait_s, gaps, tempo
from analysis.evidence import Evidence
from analysis.finding import Check, Finding, failed, not_applicable, passed, unknown
from analysis.record import RequestRecord
from analysis.vocabulary import Outcome, Role


def _follow_up(evidence: Evidence) -> Finding:
    planned = {stage.name: stage.follow_ups for stage in evidence.plan.stages if stage.follow_ups}
    if not planned:
        return not_applicable("no stage of this scenario is followed by a clean request")
    records = [record for record in evidence.records if record.role is Role.FOLLOW_UP]
    broken = [
        one for one in records if one.outcome in (Outcome.FAILED, Outcome.TIMEOUT, Outcome.REJECTED) and not mostly_ours(evidence, one)
    ]
    wrong = list(map(ending, broken)) + _other_text(evidence, records) + _slower(evidence, records)
    if wrong:
        return failed(f"{len(wrong)} signs that the server did not recover", *shown(wrong))
    done = completed(records)
    short = [name for name, count in planned.items() if sum(record.stage == name for record in done) < count]
    if short:
        return unknown(f"not all follow-ups were carried out after: {', '.join(short)}")
    if evidence.pace is None:
        return unknown("the server's own speed was not measured, so follow-ups cannot be called as fast as before")
    return passed(f"{len(done)} follow-ups after {len(planned)} stages got the right answer, as fast as before")


def _other_text(evidence: Evidence, records: list[RequestRecord]) -> list[str]:
    """Follow-ups with another text than their reference, or with none at all."""
    known, exact = goldens(evidence), exactness(evidence).exact
    wrong = []
    for record in completed(records):
        reference = known.of(record)
        how = difference(record, reference) if reference is not None and exact else None
        if how is None and not record.text and not (reference is not None and not reference.text):
            how = "no text at all"
        if how is not None:
            wrong.append(f"{where(record)}, prompt {record.prompt!r}: {how}")
    return wrong


def _slower(evidence: Evidence, records: list[RequestRecord]) -> list[str]:
    """Follow-ups that took much longer than the same prompt alone before; one by a lot, or all of them by less."""
    speed = tempo(evidence)
    if speed is None:
        return []
    wrong, factors = [], []
    for record in completed(records):
        before = _before_s(evidence, record, speed)
        took = _took_s(record)
        limit = evidence.limit("recovery_factor") * before + evidence.limit("recovery_floor_s")
        theirs = took - (evidence.ours(record.started_unix_s, end_unix_s(record)) if took > limit else 0.0)
        factors.append(max(theirs - evidence.limit("recovery_noise_s"), 0.0) / before)
        if theirs > limit:
            wrong.append(f"{where(record)}: {theirs:.2f} s, and {before:.2f} s before anybody misbehaved (limit {limit:.2f} s)")
    if len(factors) >= evidence.limit("recovery_samples") and median(factors) > evidence.limit("recovery_median_factor"):
        wrong.append(f"follow-ups took {median(factors):.1f} times as long as before, in the median of {len(factors)}")
    return wrong + _dragging(evidence, records, speed)


def _dragging(evidence: Evidence, records: list[RequestRecord], speed: Tempo) -> list[str]:
    """Stages after which tokens come much more slowly than before."""
    limit = evidence.limit("recovery_median_factor") * speed.solo_gap_s + evidence.limit("recovery_gap_s")
    wrong = []
    for stage in evidence.plan.stages:
        between = gaps([record for record in completed(records) if record.stage == stage.name])
        if len(between) >= evidence.limit("recovery_gaps") and median(between) > limit:
            wrong.append(f"after {stage.name} a token came every {median(between):.3f} s, and every {speed.solo_gap_s:.3f} s before")
    return wrong


def _took_s(record: RequestRecord) -> float:
    """To the first token of a stream, to the end of a whole answer."""
    wait = first_token_wait_s(record)
    return record.ended_s - (record.sent_s or 0.0) if wait is None else wait


def _before_s(evidence: Evidence, record: RequestRecord, speed: Tempo) -> float:
    """The same for the reference of the same prompt and mode; by the server's tempo where it has none."""
    reference = goldens(evidence).of(record)
    if reference is not None and reference.stream is record.stream:
        return max(_took_s(reference), 1e-3)
    return max(speed.prefill_s if record.stream else speed.unit_s, 1e-3)


FOLLOW_UP = Check(id="recovery.follow_up", question="Does a clean request work after each stage, as fast as before?", judge=_follow_up)
