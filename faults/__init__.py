"""What is done to a request. One fault a file; the file's name is the fault's name, and the catalogue is this list."""

from collections.abc import Callable, Mapping

from faults import abandon_whole, cancel_after_tokens, hold, leave_after_headers, leave_after_send, leave_in_prefill, leave_in_queue, none
from faults.fault import Aim, Fault

FAULTS: Mapping[str, Callable[[Aim], Fault]] = {
    "none": none.make,
    "cancel_after_tokens": cancel_after_tokens.make,
    "leave_after_send": leave_after_send.make,
    "leave_after_headers": leave_after_headers.make,
    "leave_in_prefill": leave_in_prefill.make,
    "abandon_whole": abandon_whole.make,
    "leave_in_queue": leave_in_queue.make,
    "hold": hold.make,
}
