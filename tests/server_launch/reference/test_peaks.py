"""The highest value since a moment, against a list of all values."""

from hypothesis import given
from hypothesis import strategies as st

from server_launch.reference.peaks import Peaks


@given(st.lists(st.integers(0, 9), max_size=40))
def test_the_peak_since_any_moment_is_the_maximum_from_there_on(values: list[int]) -> None:
    peaks = Peaks()
    moments = [peaks.now()]
    for value in values:
        peaks.push(value)
        moments.append(peaks.now())
    for index, moment in enumerate(moments):
        assert peaks.since(moment) == max([0, *values][index:])


def test_it_does_not_grow_with_the_number_of_changes() -> None:
    peaks = Peaks()
    for change in range(10_000):
        peaks.push(change % 8)
    assert len(peaks._values) <= 8
