"""Leave a request that is not streamed in the middle of its generation, when nothing of the answer has come."""

from dataclasses import dataclass

from analysis.vocabulary import Phase
from faults.fault import Aim, Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonWhole:
    """`dwell_s`: when to leave, counted from the moment the request was sent."""

    dwell_s: float
    name: str = "abandon_whole"
    timed: bool = True

    def leaves(self, progress: Progress) -> bool:
        """When the dwell is over."""
        return progress.since_sent_s is not None and progress.since_sent_s >= self.dwell_s

    def landed(self, progress: Progress) -> bool:
        """The answer was not here."""
        return progress.phase in (Phase.AWAITING_HEADERS, Phase.AWAITING_FIRST_TOKEN)


def make(aim: Aim) -> AbandonWhole:
    """Some tokens into the decode, by the server's own pace."""
    return AbandonWhole(dwell_s=aim.first_token_s + (1 + 8 * aim.draw) * aim.token_gap_s)
