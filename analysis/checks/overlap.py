"""How many intervals cover a moment, when their ends are only known to some tenths of a second."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

Interval = tuple[float, float]


def certain_overlap(intervals: Iterable[Interval], margin_s: float) -> int:
    """The most intervals that cover one moment, each shrunk on both sides, so that late news of an end counts for nothing."""
    shrunk = [(begin + margin_s, end - margin_s) for begin, end in intervals]
    steps = sorted((at, step) for begin, end in shrunk if begin < end for at, step in ((begin, 1), (end, -1)))
    count = most = 0
    for _, step in steps:
        count += step
        most = max(most, count)
    return most


class Crowd:
    """How many intervals cover a given moment, each shrunk by a margin on both sides (widened by a negative one)."""

    def __init__(self, intervals: Iterable[Interval], margin_s: float) -> None:
        shrunk = [(begin + margin_s, end - margin_s) for begin, end in intervals]
        self._begins = sorted(begin for begin, end in shrunk if begin < end)
        self._ends = sorted(end for begin, end in shrunk if begin < end)

    def at(self, moment: float) -> int:
        """The count at a moment."""
        return bisect_right(self._begins, moment) - bisect_left(self._ends, moment)
