"""Leave as soon as the status line and headers are here, before any token was seen."""

from dataclasses import dataclass

from analysis.vocabulary import Phase
from faults.fault import Aim, Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAfterHeaders:
    """Servers that send headers together with the first token cannot be hit: that is not `landed`."""

    name: str = "leave_after_headers"

    def leaves(self, progress: Progress) -> bool:
        """At the headers."""
        return progress.phase not in (Phase.CONNECTING, Phase.SENDING, Phase.AWAITING_HEADERS)

    def patience_s(self, progress: Progress) -> float | None:
        """Only headers count."""
        return None

    def landed(self, progress: Progress) -> bool:
        """Headers had come and no token."""
        return progress.phase is Phase.AWAITING_FIRST_TOKEN


def make(aim: Aim) -> LeaveAfterHeaders:
    """The fault; the aim means nothing to it."""
    return LeaveAfterHeaders()
