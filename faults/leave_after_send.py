"""Leave before the first token: a moment after the request was sent, somewhere between nothing and the usual wait."""

from dataclasses import dataclass

from faults.fault import Aim, Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAfterSend:
    """`dwell_s` may be 0: leave at once."""

    dwell_s: float
    name: str = "leave_after_send"
    timed: bool = True

    def leaves(self, progress: Progress) -> bool:
        """When the dwell is over, or at the first token if that comes earlier."""
        return progress.tokens > 0 or (progress.since_sent_s is not None and progress.since_sent_s >= self.dwell_s)

    def landed(self, progress: Progress) -> bool:
        """No token had come."""
        return progress.tokens == 0 and progress.since_sent_s is not None


def make(aim: Aim) -> LeaveAfterSend:
    """A dwell of up to 0.8 of the usual wait for a first token: in the queue, in prefill, or just before the token."""
    return LeaveAfterSend(dwell_s=0.8 * aim.draw * aim.first_token_s)
