"""Leave while every slot is certainly held by others, so that the request can only be in the queue."""

from dataclasses import dataclass

from faults.fault import Aim, Dwell, Progress

SHORTEST_S = 0.2
"""A request that was sent so long ago has surely reached the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveInQueue:
    """See the module."""

    dwell: Dwell
    name: str = "leave_in_queue"

    def leaves(self, progress: Progress) -> bool:
        """When the stay is over, or at a token: then it was no queue."""
        return progress.tokens > 0 or self.dwell.over(progress)

    def patience_s(self, progress: Progress) -> float | None:
        """Until the stay is over."""
        return self.dwell.left_s(progress)

    def landed(self, progress: Progress) -> bool:
        """No token had come, and the slots were still held."""
        return progress.tokens == 0 and progress.queue_certain


def make(aim: Aim) -> LeaveInQueue:
    """Some steps of the server, on top of what makes the queue certain."""
    return LeaveInQueue(dwell=Dwell(seconds=SHORTEST_S + (2 + 4 * aim.draw) * aim.token_gap_s))
