"""What the requests that ran alone teach: the server's pace, and the answer and the first wait that each prompt has by itself.

A worker learns from its own records and tells the master; with each round the master tells all workers what any of them learned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Self

from analysis.record import RequestRecord
from analysis.vocabulary import Endpoint, Outcome, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One request that was served alone. Times in seconds, None where nothing was streamed."""

    prompt: str
    endpoint: Endpoint
    text: str | None
    """None for the warm-up, which is shorter than the others."""
    first_token_s: float | None
    token_gap_s: float | None

    def message(self) -> dict[str, Any]:
        """For the wire."""
        return asdict(self)

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """From the wire. Raises TypeError, KeyError or ValueError for anything else."""
        return cls(**{**raw, "endpoint": Endpoint(raw["endpoint"])})


def learned(record: RequestRecord) -> Lesson | None:
    """What a record teaches; None when it did not run alone, or did not go well."""
    if record.outcome is not Outcome.COMPLETED or record.role not in (Role.WARM_UP, Role.REFERENCE):
        return None
    times, sent_s = record.token_times_s, record.sent_s
    streamed = len(times) > 1 and sent_s is not None
    return Lesson(
        prompt=record.prompt,
        endpoint=record.endpoint,
        text=record.text if record.role is Role.REFERENCE else None,
        first_token_s=times[0] - (sent_s or 0.0) if streamed else None,
        token_gap_s=(times[-1] - times[0]) / (len(times) - 1) if streamed else None,
    )


@dataclass(slots=True)
class Book:
    """All lessons so far."""

    lessons: list[Lesson] = field(default_factory=list)

    def text(self, prompt: str, endpoint: Endpoint) -> str | None:
        """The solo answer to a prompt, None where there is none."""
        own = (each.text for each in self.lessons if (each.prompt, each.endpoint) == (prompt, endpoint))
        return next((text for text in own if text is not None), None)

    def first_token_s(self, prompt: str) -> float | None:
        """The usual wait for the first token of a prompt, by itself where it is known."""
        waits = [(each.prompt, each.first_token_s) for each in self.lessons if each.first_token_s is not None]
        own = [wait for key, wait in waits if key == prompt]
        return median(own or [wait for _, wait in waits]) if waits else None


def pace(lessons: Sequence[Lesson]) -> tuple[float, float] | None:
    """Medians of the wait for a first token and of the gap between two, in seconds; None where nothing was streamed."""
    waits = [each.first_token_s for each in lessons if each.first_token_s is not None]
    gaps = [each.token_gap_s for each in lessons if each.token_gap_s is not None]
    return (median(waits), median(gaps)) if waits and gaps else None
