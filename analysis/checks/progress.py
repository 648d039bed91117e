"""Whether any stream, or the whole server, stopped moving while somebody was waiting for it.

A long gap on one stream is held against the server's own speed and against the prefill of a whole set of other prompts,
which many servers do one by one. Time in which our own side stood still is taken off.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from analysis.checks.requests import EXPECTED, end_unix_s, most_in_flight, sent_unix_s, shown, where
from analysis.checks.tempo import Tempo, tempo
from analysis.evidence import Evidence
from analysis.finding import Check, Finding, failed, passed, unknown
from analysis.record import RequestRecord
from analysis.vocabulary import Ending, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A window in which the whole server gave no sign of life although requests were open."""

    begin_unix_s: float
    end_unix_s: float
    waiting: RequestRecord
    """One of the requests that waited in it."""
    limit_s: float

    @property
    def length_s(self) -> float:
        """Seconds of it."""
        return self.end_unix_s - self.begin_unix_s


def _stall(evidence: Evidence) -> Finding:
    speed = tempo(evidence)
    if speed is None:
        return unknown("the server's own speed was not measured")
    limit = stall_limit_s(evidence, speed)
    streams = [record for record in evidence.records if len(record.token_times_s) > 1]
    if not streams:
        return unknown("no stream had two events to measure between")
    wrong = [line for record in streams for line in _gaps_over(evidence, record, limit)]
    silences = long_silences(evidence, speed)
    wrong += [
        f"no sign from the whole server for {one.length_s:.1f} s while {where(one.waiting)} waited (limit {one.limit_s:.1f} s)"
        for one in silences
    ]
    wrong += [line for record in evidence.records if (line := _kept_waiting(evidence, record, limit))]
    if wrong:
        return failed(f"the server stopped moving {len(wrong)} times", *shown(wrong))
    longest = max(after - before for record in streams for before, after in pairwise(record.token_times_s))
    return passed(f"{len(streams)} streams kept moving; the longest gap was {longest:.2f} s (limit {limit:.1f} s)")


def stall_limit_s(evidence: Evidence, speed: Tempo) -> float:
    """Seconds that a stream may stand still."""
    return evidence.limit("stall_floor_s") + evidence.limit("stall_gaps") * speed.gap_s + speed.serial_prefill_s


def _gaps_over(evidence: Evidence, record: RequestRecord, limit: float) -> Iterable[str]:
    points = list(record.token_times_s)
    if record.ending is not Ending.HALF_CLOSE:  # a server may take a half-closed client for one that left
        points.append(record.ended_s if record.cut_s is None else record.cut_s)
    for before, after in pairwise(points):
        if after - before > limit:
            begin, end = record.started_unix_s + before, record.started_unix_s + after
            theirs = end - begin - evidence.ours(begin, end)
            if theirs > limit:
                yield f"{where(record)}: nothing for {theirs:.1f} s, {before:.2f} s after it began (limit {limit:.1f} s)"


def _kept_waiting(evidence: Evidence, record: RequestRecord, limit: float) -> str | None:
    """A stream whose first token was long in coming although there was a slot for everybody who was there."""
    cap = evidence.plan.target.active_cap
    begin = sent_unix_s(record)
    end = end_unix_s(record) if record.first_token_s is None else record.started_unix_s + record.first_token_s
    if cap is None or not record.stream or record.role is Role.BAD or end - begin <= limit:
        return None
    there = [other for other in evidence.records if sent_unix_s(other) < end and end_unix_s(other) > begin]
    most, theirs = most_in_flight(there), end - begin - evidence.ours(begin, end)
    if most > cap or theirs <= limit:
        return None
    return f"{where(record)}: no token for {theirs:.1f} s, with at most {most} requests on {cap} slots (limit {limit:.1f} s)"


def long_silences(evidence: Evidence, speed: Tempo) -> list[Silence]:
    """Windows of silence of the whole server beyond what it may legally take."""
    signs = _signs_of_life(evidence.records)
    limit = stall_limit_s(evidence, speed)
    found = []
    for begin, end, record in _waits(evidence.records):
        inside = signs[bisect_left(signs, begin) : bisect_right(signs, end)]
        for before, after in zip([begin, *inside], [*inside, end], strict=True):
            if after - before > limit:
                allowed = limit + _unseen_work_s(evidence.records, before, after, speed)
                if after - before - evidence.ours(before, after) > allowed:
                    found.append(Silence(begin_unix_s=before, end_unix_s=after, waiting=record, limit_s=allowed))
    return found


def _signs_of_life(records: Iterable[RequestRecord]) -> list[float]:
    """When anything came from the generation endpoints: headers, text, or the end of an answer."""
    signs = []
    for record in records:
        seen = [record.headers_s, *record.token_times_s]
        if record.cut_s is None:
            seen.append(record.ended_s)
        signs += [record.started_unix_s + at for at in seen if at is not None]
    return sorted(signs)


def _waits(records: Iterable[RequestRecord]) -> list[tuple[float, float, RequestRecord]]:
    """The windows in which at least one client that behaves was waiting, each with the request that opened it."""
    merged: list[tuple[float, float, RequestRecord]] = []
    for record in sorted((one for one in records if one.role in EXPECTED or one.role is Role.HOLDER), key=sent_unix_s):
        begin, end = sent_unix_s(record), end_unix_s(record)
        if merged and begin <= merged[-1][1]:
            first = merged[-1]
            merged[-1] = (first[0], max(first[1], end), first[2])
        else:
            merged.append((begin, end, record))
    return merged


def _unseen_work_s(records: Iterable[RequestRecord], begin: float, end: float, speed: Tempo) -> float:
    """Answers that come whole show nothing while they are made: they may fill every slot for as long as one takes."""
    whole = any(not record.stream and sent_unix_s(record) < end and end_unix_s(record) > begin for record in records)
    return 2 * speed.unit_s if whole else 0.0


STALL = Check(id="progress.stall", question="Did any stream or the whole server stop moving?", judge=_stall)
