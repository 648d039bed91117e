"""Leave while the prompt is being read: with a long prompt, in the middle of the usual wait for its first token."""

from dataclasses import dataclass

from faults.fault import Aim, Dwell, Progress

EARLIEST, LATEST = 0.2, 0.7
"""The stay, as a share of the usual wait for the first token of this prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveInPrefill:
    """See the module."""

    dwell: Dwell
    name: str = "leave_in_prefill"

    def leaves(self, progress: Progress) -> bool:
        """When the stay is over, or at the first token if that comes earlier."""
        return progress.tokens > 0 or self.dwell.over(progress)

    def patience_s(self, progress: Progress) -> float | None:
        """Until the stay is over."""
        return self.dwell.left_s(progress)

    def landed(self, progress: Progress) -> bool:
        """No token had come: the prompt was still being read, or waited to be."""
        return progress.tokens == 0 and progress.since_sent_s is not None


def make(aim: Aim) -> LeaveInPrefill:
    """The fault for an item of the plan."""
    return LeaveInPrefill(dwell=Dwell(seconds=(EARLIEST + (LATEST - EARLIEST) * aim.draw) * aim.first_token_s))
