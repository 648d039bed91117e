"""The engine of the self-test: text as a pure function of the tokens so far, so that a matrix of servers fits on two cores.

What is judged here is the judge; the planted bugs sit in the scheduler and the HTTP side, which are the reference server's own.
The real two-rank engine runs in `make gate` and in the end-to-end tests.
"""

from collections.abc import Sequence

from server_launch.reference.engine import Cache
from tests.server_launch.reference.standin import StandInCache, StandInEngine, StandInTokenizer


class TextEngine(StandInEngine):
    """A stand-in that no word makes misbehave, and that remembers nothing of what it did."""

    def prefill(self, prompt: Sequence[int]) -> tuple[StandInCache, int]:
        """See Engine."""
        cache = StandInCache()
        cache.add(prompt)
        cache.special.clear()
        return cache, cache.next()

    def decode(self, caches: Sequence[Cache], tokens: Sequence[int]) -> list[int]:
        """See Engine."""
        rows = [cache for cache in caches if isinstance(cache, StandInCache)]
        for cache, token in zip(rows, tokens, strict=True):
            cache.add([token])
        return [cache.next() for cache in rows]


def build(*, context_limit: int, **_options: object) -> tuple[TextEngine, StandInTokenizer]:
    """What `--engine` names."""
    return TextEngine(context_limit), StandInTokenizer()
