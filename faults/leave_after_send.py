"""Leave before the first token: a moment after the request was sent, somewhere between nothing and the usual wait."""

from dataclasses import dataclass

from faults.fault import Aim, Dwell, Progress

AT_ONCE = 0.35
"""Share of the clients that do not wait at all: they leave before any server can have answered."""
LATEST = 0.8
"""The longest stay, as a share of the usual wait for a first token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAfterSend:
    """See the module."""

    dwell: Dwell
    name: str = "leave_after_send"

    def leaves(self, progress: Progress) -> bool:
        """When the stay is over, or at the first token if that comes earlier."""
        return progress.tokens > 0 or self.dwell.over(progress)

    def patience_s(self, progress: Progress) -> float | None:
        """Until the stay is over."""
        return self.dwell.left_s(progress)

    def landed(self, progress: Progress) -> bool:
        """No token had come."""
        return progress.tokens == 0 and progress.since_sent_s is not None


def make(aim: Aim) -> LeaveAfterSend:
    """Some at once; the others in the queue, in prefill, or just before the token."""
    share = max(0.0, aim.draw - AT_ONCE) / (1 - AT_ONCE)
    return LeaveAfterSend(dwell=Dwell(seconds=LATEST * share * aim.first_token_s))
