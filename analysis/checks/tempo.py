"""How fast this server is when nobody misbehaves: every time limit of the checks scales with it."""

from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from analysis.checks.requests import completed, most_in_flight
from analysis.evidence import Evidence
from analysis.record import RequestRecord
from analysis.vocabulary import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Tempo:
    """Seconds that the server takes by itself."""

    solo_gap_s: float
    """Between two events with text, alone (median)."""
    gap_s: float
    """Between two events with text: alone or under fault-free load, whichever is longer (median)."""
    prefill_s: float
    """To the first token of the slowest prompt, alone (median)."""
    prefill_by_prompt_s: dict[str, float]
    """The same for each prompt."""
    unit_s: float
    """A whole normal request of the slowest prompt under fault-free load."""
    cap: int
    """Requests at once: as declared, else as many as were in flight under fault-free load."""

    def prefill_of(self, prompt: str) -> float:
        """The same for one prompt; that of the slowest where it never ran alone."""
        return self.prefill_by_prompt_s.get(prompt, self.prefill_s)

    @property
    def serial_prefill_s(self) -> float:
        """Prefill is often one by one: a stream may legally stand still while a whole set of others is admitted."""
        return self.cap * self.prefill_s


def tempo(evidence: Evidence) -> Tempo | None:
    """The server's tempo; None where the run never measured it."""
    if evidence.pace is None:
        return None
    pace = evidence.pace
    control = [record for record in evidence.records if record.role is Role.CONTROL]
    gap_s = max(pace.token_gap_s, median(gaps(control) or [0.0]))
    by_prompt = _first_token_by_prompt(evidence)
    prefill_s = max([pace.first_token_s, *by_prompt.values()])
    cap = evidence.plan.target.active_cap or max(most_in_flight(control), 1)
    unit_s = prefill_s + gap_s * pace.unit_tokens
    return Tempo(
        solo_gap_s=pace.token_gap_s, gap_s=gap_s, prefill_s=prefill_s, prefill_by_prompt_s=by_prompt, unit_s=unit_s, cap=cap
    )  # fmt: skip


def gaps(records: list[RequestRecord]) -> list[float]:
    """Seconds between each two events with text of the same stream."""
    return [after - before for record in records for before, after in zip(record.token_times_s, record.token_times_s[1:], strict=False)]


def first_token_wait_s(record: RequestRecord) -> float | None:
    """Seconds from the request to its first text; None where there was none."""
    return None if record.first_token_s is None else record.first_token_s - (record.sent_s or 0.0)


def _first_token_by_prompt(evidence: Evidence) -> dict[str, float]:
    waits: dict[str, list[float]] = defaultdict(list)
    for record in completed(evidence.records):
        wait = first_token_wait_s(record)
        if record.role is Role.REFERENCE and record.stream and wait is not None:
            waits[record.prompt].append(wait)
    return {prompt: median(each) for prompt, each in waits.items()}
