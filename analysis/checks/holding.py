"""Stages in which some requests hold slots while others have to wait behind them, as the plan meant it and as it went."""

from dataclasses import dataclass

from analysis.checks.requests import end_unix_s, sent_unix_s
from analysis.evidence import Evidence
from analysis.record import RequestRecord
from analysis.vocabulary import Role

SURE_SHARE = 0.5
"""A stream may be read behind its making: only for this share of the time that all its tokens take at the server's own pace is it
sure to be in the making still. A server so fast that its holders end before their clients leave frees their slots, and rightly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """One such stage."""

    stage: str
    holders: tuple[RequestRecord, ...]
    behind: tuple[RequestRecord, ...]
    """Requests of groups that were sent once all holders had their first token."""
    begin_unix_s: float | None
    """When the last holder got its first token; None if one never did."""
    end_unix_s: float
    """When the first of them left, was ended, or could have been made to its end."""

    @property
    def length_s(self) -> float:
        """Seconds in which all of them held a slot, as their clients saw it; 0 if they never did."""
        return 0.0 if self.begin_unix_s is None else max(self.end_unix_s - self.begin_unix_s, 0.0)

    def fills(self, cap: int | None) -> bool:
        """Whether all slots of the server were certainly taken in that time."""
        return cap is not None and len(self.holders) >= cap and self.length_s > 0

    def spans(self, record: RequestRecord) -> bool:
        """Whether a request came and left again within that time."""
        return self.begin_unix_s is not None and self.begin_unix_s <= sent_unix_s(record) and end_unix_s(record) <= self.end_unix_s


def holds(evidence: Evidence) -> list[Hold]:
    """All stages with holders, in order of the plan."""
    found = []
    for stage in evidence.plan.stages:
        waiting = {group.name for group in stage.groups if group.waits_for}
        here = [record for record in evidence.records if record.stage == stage.name]
        holders = tuple(record for record in here if record.role is Role.HOLDER)
        if holders:
            firsts = [record.started_unix_s + record.first_token_s for record in holders if record.first_token_s is not None]
            found.append(
                Hold(
                    stage=stage.name, holders=holders, behind=tuple(record for record in here if record.group in waiting),
                    begin_unix_s=max(firsts) if len(firsts) == len(holders) else None,
                    end_unix_s=min(_sure_until(evidence, one) for one in holders),
                )
            )  # fmt: skip
    return found


def _sure_until(evidence: Evidence, holder: RequestRecord) -> float:
    """When a holder may have given its slot back: it left or ended, or all of its tokens could have been made."""
    end = end_unix_s(holder)
    if evidence.pace is None or holder.max_tokens is None or holder.first_token_s is None:
        return end
    making_s = holder.max_tokens * evidence.pace.token_gap_s
    return min(end, holder.started_unix_s + holder.first_token_s + SURE_SHARE * making_s)
