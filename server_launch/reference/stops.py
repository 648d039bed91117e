"""Stop strings in a stream of text pieces: nothing of a stop string, nor what follows it, ever gets out."""

from collections.abc import Sequence


class StopFilter:
    """Holds text back while it may be the beginning of a stop string."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""

    def feed(self, text: str) -> tuple[str, bool]:
        """Add text; return what is safe to send now, and whether a stop string was completed (the rest is then dropped)."""
        buffer = self._held + text
        found = [at for stop in self._stops if (at := buffer.find(stop)) >= 0]
        if found:
            self._held = ""
            return buffer[: min(found)], True
        safe = len(buffer) - self._partial(buffer)
        self._held = buffer[safe:]
        return buffer[:safe], False

    def flush(self) -> str:
        """What was held back, now that no more text comes."""
        held, self._held = self._held, ""
        return held

    def _partial(self, buffer: str) -> int:
        """Length of the longest end of the buffer that begins a stop string."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for length in range(min(longest, len(buffer)), 0, -1):
            if any(stop.startswith(buffer[-length:]) for stop in self._stops):
                return length
        return 0
