"""Leave once n events with text have come."""

from dataclasses import dataclass

from analysis.vocabulary import Phase
from faults.fault import Aim, Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAfterTokens:
    """`tokens` at least 1."""

    tokens: int
    name: str = "cancel_after_tokens"

    def leaves(self, progress: Progress) -> bool:
        """At the n-th event with text."""
        return progress.tokens >= self.tokens

    def patience_s(self, progress: Progress) -> float | None:
        """Only tokens count."""
        return None

    def landed(self, progress: Progress) -> bool:
        """The answer was not over yet."""
        return progress.phase is Phase.STREAMING


def make(aim: Aim) -> CancelAfterTokens:
    """The fault for an item of the plan."""
    return CancelAfterTokens(tokens=max(1, aim.tokens))
