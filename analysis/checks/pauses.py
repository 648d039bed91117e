"""How long streams paused, less what other requests explain: the prefill of whoever began in the meantime.

Many servers prefill one by one between two decode steps, so a stream pauses for each request that is admitted beside it.
That is no harm; what remains of a gap after it is.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from analysis.checks.requests import completed, end_unix_s, sent_unix_s
from analysis.checks.tempo import Tempo
from analysis.evidence import Evidence
from analysis.record import RequestRecord
from analysis.vocabulary import Role

Gap = tuple[float, float]
"""Wall clock of two events with text in a row."""


@dataclass(frozen=True, slots=True)
class Starts:
    """When requests began to be computed, and how long that takes."""

    seen: list[tuple[float, float]]
    """Wall clock of each first token, and seconds of its prefill; in order of time."""
    unseen: list[tuple[float, float, float]]
    """Requests whose first token we do not see: open from, open until, seconds of its prefill."""

    def within_s(self, gap: Gap) -> float:
        """Seconds of prefill that may lie in a gap."""
        low, high = bisect_left(self.seen, (gap[0], 0.0)), bisect_right(self.seen, (gap[1], float("inf")))
        seen = sum(prefill for _, prefill in self.seen[low:high])
        return seen + sum(prefill for begin, end, prefill in self.unseen if begin <= gap[1] and end >= gap[0])


def starts(records: Iterable[RequestRecord], speed: Tempo) -> Starts:
    """All that began among these requests."""
    seen, unseen = [], []
    for record in records:
        prefill = speed.prefill_of(record.prompt)
        if record.stream and record.first_token_s is not None:
            seen.append((record.started_unix_s + record.first_token_s, prefill))
        else:
            unseen.append((sent_unix_s(record), end_unix_s(record), prefill))
    return Starts(seen=sorted(seen), unseen=unseen)


def gaps(record: RequestRecord) -> Iterable[Gap]:
    """Each two events with text in a row."""
    for before, after in pairwise(record.token_times_s):
        yield record.started_unix_s + before, record.started_unix_s + after


def length_s(gap: Gap) -> float:
    """Seconds from one event to the next."""
    return gap[1] - gap[0]


def unexplained_s(evidence: Evidence, gap: Gap, begun: Starts, prefill_factor: float) -> float:
    """Seconds of a gap that neither prefill nor our own side explains. Beside others a prefill takes some time more than alone."""
    left = length_s(gap) - prefill_factor * begun.within_s(gap)
    return max(left - (evidence.ours(*gap) if left > 0 and len(evidence.lags) else 0.0), 0.0)


def usual_worst_s(evidence: Evidence, speed: Tempo, prefill_factor: float) -> float:
    """The longest unexplained pause of a stream under fault-free load, in the median of all such streams."""
    control = [record for record in evidence.records if record.role is Role.CONTROL]
    begun = starts(control, speed)
    streams = [record for record in completed(control) if len(record.token_times_s) > 1]
    worst = [max(unexplained_s(evidence, gap, begun, prefill_factor) for gap in gaps(record)) for record in streams]
    return median(worst or [0.0])
