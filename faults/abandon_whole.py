"""Leave a request that is not streamed in the middle of its generation, when nothing of the answer has come."""

from dataclasses import dataclass

from analysis.vocabulary import Phase
from faults.fault import Aim, Dwell, Progress

DECODED = 8
"""The latest token in whose making it leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonWhole:
    """See the module."""

    dwell: Dwell
    name: str = "abandon_whole"

    def leaves(self, progress: Progress) -> bool:
        """When the stay is over."""
        return self.dwell.over(progress)

    def patience_s(self, progress: Progress) -> float | None:
        """Until the stay is over."""
        return self.dwell.left_s(progress)

    def landed(self, progress: Progress) -> bool:
        """The answer was not here."""
        return progress.phase in (Phase.AWAITING_HEADERS, Phase.AWAITING_FIRST_TOKEN)


def make(aim: Aim) -> AbandonWhole:
    """Some tokens into the decode, by the server's own pace."""
    return AbandonWhole(dwell=Dwell(seconds=aim.first_token_s + (1 + (DECODED - 1) * aim.draw) * aim.token_gap_s))
