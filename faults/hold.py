"""Hold a slot until the stage lets go: it takes a milestone, then so many more tokens, then so many seconds."""

from dataclasses import dataclass

from analysis.vocabulary import Phase
from faults.fault import Aim, Progress

LOOK_S = 0.02
"""How often it looks whether the stage has let go, while no token comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Tokens make the hold mean something on slow servers, seconds on fast ones."""

    tokens: int
    seconds: float
    name: str = "hold"

    def leaves(self, progress: Progress) -> bool:
        """When it was released and has held on for long enough after that."""
        return progress.released_s is not None and progress.released_s >= self.seconds and progress.released_tokens >= self.tokens

    def patience_s(self, progress: Progress) -> float | None:
        """A short while."""
        return LOOK_S

    def landed(self, progress: Progress) -> bool:
        """It held a slot to the end of its hold."""
        return progress.phase is Phase.STREAMING


def make(aim: Aim) -> Hold:
    """The fault for an item of the plan."""
    return Hold(tokens=aim.hold_tokens, seconds=aim.hold_s)
