"""Whether the health endpoint is true in both directions: well and quick while the server serves, and not well while it does not.

One slow or lost poll is this machine; a status other than 200 is the server speaking, and speaking twice is no accident.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from analysis.checks.progress import long_silences
from analysis.checks.requests import end_unix_s, expected, mostly_ours, shown
from analysis.checks.tempo import Tempo, tempo
from analysis.evidence import Evidence
from analysis.finding import Check, Finding, failed, not_applicable, passed, unknown
from analysis.vocabulary import Outcome

Window = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """One reading of the health endpoint; `at_unix_s` is when it was asked."""

    at_unix_s: float
    stage: str
    status: int | None
    latency_s: float
    error: str

    @property
    def window(self) -> Window:
        """From the question to the answer, or to giving up."""
        return (self.at_unix_s, self.at_unix_s + self.latency_s)

    def __str__(self) -> str:
        answer = self.status if self.status is not None else f"no answer ({self.error})"
        return f"{self.stage} at {self.at_unix_s:.3f}: {answer} in {self.latency_s:.3f} s"


def _honest(evidence: Evidence) -> Finding:
    if evidence.plan.target.health_path is None:
        return not_applicable("this server has no health endpoint")
    polls = list(_polls(evidence))
    speed = tempo(evidence)
    if len(polls) < evidence.limit("health_polls") or speed is None:
        return unknown(f"{len(polls)} polls of the health endpoint are too few to judge it, or the server's own speed was not measured")
    down = _down(evidence)
    well = [poll for poll in polls if not any(begin <= poll.at_unix_s <= end for begin, end in down)]
    wrong = _unwell(evidence, well) + _slow(evidence, well, speed) + _blind(evidence, polls, speed) + _cheerful(evidence, polls, down)
    if wrong:
        return failed("the health endpoint does not tell how the server is", *shown(wrong))
    odd = sum(poll.status != 200 for poll in well)
    middle = median(poll.latency_s for poll in polls)
    return passed(f"{len(polls)} polls agree with what clients saw ({odd} single ones did not answer 200); median {middle * 1000:.0f} ms")


def _polls(evidence: Evidence) -> Iterable[Poll]:
    for row in evidence.health.to_dict("records"):
        status = row["status"]
        known = status is not None and status == status  # NaN stands for "no status line"
        yield Poll(
            at_unix_s=float(row["at_unix_s"]), stage=str(row["stage"]), status=int(status) if known else None,
            latency_s=float(row["latency_s"]), error=str(row["error"]),
        )  # fmt: skip


def _down(evidence: Evidence) -> list[Window]:
    """Windows in which well-behaved clients failed one after the other, up to the next that completed (or for ever)."""
    windows: list[Window] = []
    begin: float | None = None
    count = 0
    for record in sorted(expected(evidence), key=end_unix_s):
        if record.outcome in (Outcome.FAILED, Outcome.TIMEOUT) and not mostly_ours(evidence, record):
            begin = record.started_unix_s if begin is None else min(begin, record.started_unix_s)
            count += 1
        elif record.outcome is Outcome.COMPLETED:
            if begin is not None and count >= evidence.limit("health_failures"):
                windows.append((begin, record.started_unix_s))
            begin, count = None, 0
    if begin is not None and count >= evidence.limit("health_failures"):
        windows.append((begin, float("inf")))
    return windows


def _unwell(evidence: Evidence, well: list[Poll]) -> list[str]:
    """Polls that say the server is not well while it is: a wrong status twice, or no answer several times."""
    spoken = [poll for poll in well if poll.status not in (200, None)]
    silent = [poll for poll in well if poll.status is None and not evidence.ours(*poll.window)]
    in_a_row = any(one.status is None and other.status is None for one, other in pairwise(well))
    often = len(silent) >= evidence.limit("health_silent_share") * len(well) and len(silent) >= evidence.limit("health_odd_polls")
    wrong = list(map(str, spoken)) if len(spoken) >= evidence.limit("health_odd_polls") else []
    return wrong + (list(map(str, silent)) if often or (in_a_row and len(silent) >= evidence.limit("health_odd_polls")) else [])


def _slow(evidence: Evidence, well: list[Poll], speed: Tempo) -> list[str]:
    limit = evidence.limit("health_slow_s") + 2 * speed.gap_s + speed.prefill_s
    answered = [poll for poll in well if poll.status is not None]
    slow = [one for one in answered if one.latency_s > limit and one.latency_s - evidence.ours(*one.window) > limit]
    many = len(slow) >= max(evidence.limit("health_slow_polls"), evidence.limit("health_slow_share") * len(answered))
    return [f"{poll} (limit {limit:.1f} s)" for poll in slow] if many else []


def _blind(evidence: Evidence, polls: list[Poll], speed: Tempo) -> list[str]:
    """Windows of silence whose later half was still called healthy."""
    wrong = []
    for silence in long_silences(evidence, speed):
        half = (silence.begin_unix_s + silence.end_unix_s) / 2
        fine = [poll for poll in polls if half <= poll.at_unix_s <= silence.end_unix_s and poll.status == 200]
        if silence.length_s > evidence.limit("health_blind_factor") * silence.limit_s and len(fine) >= evidence.limit("health_odd_polls"):
            wrong.append(f"{len(fine)} polls said 200 while the server showed no sign of life for {silence.length_s:.1f} s")
    return wrong


def _cheerful(evidence: Evidence, polls: list[Poll], down: list[Window]) -> list[str]:
    """Windows in which every request failed and the endpoint went on saying 200 beyond the time to notice."""
    notice = evidence.limit("health_notice_s")
    wrong = []
    for begin, end in down:
        fine = [poll for poll in polls if begin + notice <= poll.at_unix_s <= end and poll.status == 200]
        if len(fine) >= evidence.limit("health_odd_polls"):
            wrong.append(f"{len(fine)} polls said 200 while every request failed from {begin:.3f} on, the last {fine[-1]}")
    return wrong


HONEST = Check(id="health.honest", question="Is the health endpoint true?", judge=_honest)
