"""Leave while the prompt is being read: with a long prompt, in the middle of the usual wait for its first token."""

from faults.fault import Aim, Dwell
from faults.leave_after_send import LeaveAfterSend

EARLIEST, LATEST = 0.2, 0.7
"""The stay, as a share of the usual wait for the first token of this prompt."""


def make(aim: Aim) -> LeaveAfterSend:
    """The rule of leave_after_send, with a stay that ends inside the prefill."""
    stay_s = (EARLIEST + (LATEST - EARLIEST) * aim.draw) * aim.first_token_s
    return LeaveAfterSend(dwell=Dwell(seconds=stay_s), name="leave_in_prefill")
