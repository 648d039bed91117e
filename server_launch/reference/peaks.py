"""The highest value of a changing number since any past moment, without keeping every change."""

from bisect import bisect_left


class Peaks:
    """Remembers only the changes that can still be a maximum: never more than there are distinct values."""

    def __init__(self) -> None:
        self._moments = [0]
        self._values = [0]
        self._moment = 0

    def push(self, value: int) -> None:
        """The number has this value from now on."""
        self._moment += 1
        while self._values and self._values[-1] <= value:
            self._values.pop()
            self._moments.pop()
        self._values.append(value)
        self._moments.append(self._moment)

    def now(self) -> int:
        """A moment to ask about later; the value at that moment counts."""
        return self._moment

    def since(self, moment: int) -> int:
        """The highest value that the number had at `moment` or later."""
        return self._values[bisect_left(self._moments, moment)]
