"""How far the server's clock may be from the client's, bounded by cause and effect.

A server cannot have queued a request before its client began it, and a client cannot have received a first token before
the server made it. Each fault-free request gives one bound of either kind; their medians are valid bounds that no single
false stamp can move.
"""

import math
from dataclasses import dataclass

from analysis.checks.requests import traces_by_id
from analysis.evidence import Evidence
from analysis.record import RequestRecord
from analysis.trace import TraceEvent
from analysis.vocabulary import Outcome, Role

CLEAN = (Role.WARM_UP, Role.REFERENCE, Role.CONTROL, Role.FOLLOW_UP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Bounds of server minus client, in seconds."""

    low_s: float
    high_s: float

    def at_earliest(self, server_unix_s: float) -> float:
        """The earliest moment on the client's clock that a stamp of the server can mean."""
        return server_unix_s - self.high_s

    def at_latest(self, server_unix_s: float) -> float:
        """The latest one; infinite where no stream bounds it."""
        return server_unix_s - self.low_s


def clock(evidence: Evidence) -> Clock | None:
    """The bounds; None where no fault-free request has a trace with a time of arrival."""
    clean = evidence.ledger[evidence.ledger["role"].isin(CLEAN) & (evidence.ledger["outcome"] == Outcome.COMPLETED)]
    high = (clean["trace_queued_unix_s"].astype(float) - clean["start_unix_s"]).median()
    low = (clean["trace_first_token_unix_s"].astype(float) - clean["first_token_unix_s"].astype(float)).median()
    if math.isnan(high):
        return None
    return Clock(low_s=-math.inf if math.isnan(low) else float(low), high_s=float(high))


def pairs(evidence: Evidence) -> list[tuple[RequestRecord, TraceEvent]]:
    """Requests with their one trace, in the order of the records."""
    first = traces_by_id(evidence)
    return [(record, first[record.request_id]) for record in evidence.records if record.request_id in first]
