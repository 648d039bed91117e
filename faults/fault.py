"""What a fault is: a rule that says when a client leaves, and whether it left in the phase that the fault is named after.

A fault sees a request's progress and nothing else; it owns no socket and no clock. Whoever drives a request knows no fault.
"""

from dataclasses import dataclass
from typing import Protocol

from analysis.vocabulary import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a request is, as its client sees it."""

    phase: Phase
    tokens: int
    """Events with text so far."""
    since_sent_s: float | None
    """Seconds since the whole request was sent; None before that."""
    released_s: float | None
    """Seconds since the stage released its holders; None before that."""
    released_tokens: int
    """Events with text since then."""
    queue_certain: bool
    """Every slot is held by a request that the stage has not released yet."""


class Fault(Protocol):
    """One way in which a client leaves."""

    @property
    def name(self) -> str:
        """As in the plan: the name of its file."""

    def leaves(self, progress: Progress) -> bool:
        """True when it is time to leave."""

    def patience_s(self, progress: Progress) -> float | None:
        """How long at most to wait for bytes before it is asked again; None while only bytes can make it leave."""

    def landed(self, progress: Progress) -> bool:
        """For the moment of leaving: whether this was the phase that the fault aims at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dwell:
    """A stay of so many seconds after the request was sent."""

    seconds: float

    def over(self, progress: Progress) -> bool:
        """The stay is over."""
        return progress.since_sent_s is not None and progress.since_sent_s >= self.seconds

    def left_s(self, progress: Progress) -> float | None:
        """What is left of it; None before the request was sent."""
        return None if progress.since_sent_s is None else max(0.0, self.seconds - progress.since_sent_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What a fault is made of: the plan's figures, and the server's pace where it is known (seconds)."""

    tokens: int
    hold_tokens: int
    hold_s: float
    first_token_s: float
    """From sending to the first token, alone, for this very prompt where that is known."""
    token_gap_s: float
    draw: float
    """Drawn for this request: 0 <= draw < 1."""
