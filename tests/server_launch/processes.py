"""What the tests ask about processes."""

import time
from collections.abc import Callable

import psutil

LIMIT_S = 30.0


def until(true: Callable[[], bool], what: str) -> None:
    """Wait for a condition, within a bound."""
    end_s = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < end_s, f"not within {LIMIT_S:.0f} s: {what}"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process runs; a dead one that nobody buried does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
