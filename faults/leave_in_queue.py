"""Leave while every slot is certainly held by others, so that the request can only be in the queue."""

from dataclasses import dataclass

from faults.fault import Aim, Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveInQueue:
    """`dwell_s`: how long it waits in the queue first."""

    dwell_s: float
    name: str = "leave_in_queue"
    timed: bool = True

    def leaves(self, progress: Progress) -> bool:
        """When the dwell is over, or at a token: then it was no queue."""
        return progress.tokens > 0 or (progress.since_sent_s is not None and progress.since_sent_s >= self.dwell_s)

    def landed(self, progress: Progress) -> bool:
        """No token had come, and the slots were still held."""
        return progress.tokens == 0 and progress.queue_certain


def make(aim: Aim) -> LeaveInQueue:
    """Long enough to be certainly in the queue: a few steps, and at least a fifth of a second."""
    return LeaveInQueue(dwell_s=0.2 + (2 + 4 * aim.draw) * aim.token_gap_s)
