"""The two-way join: every request and every trace stands in exactly one place, and none is lost on the way.

A trace is mandatory only where the server cannot but have seen the request: it completed, a token came, or its client
stayed long enough after sending. Refusals by the HTTP layer have none, and who left at once may never have been noticed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pandas as pd

from analysis import ids
from analysis.evidence import Place
from analysis.record import RequestRecord
from analysis.trace import TraceEvent
from analysis.vocabulary import Role

Mandatory = Callable[[RequestRecord], bool]
MOMENTS = ("sent", "headers", "first_token", "last_token", "cut", "ended")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Both sides with their places, and the pairs."""

    requests: pd.DataFrame
    traces: pd.DataFrame
    pairs: pd.DataFrame
    """One row for each request with its first trace; the trace's columns are prefixed `trace_`."""


def join(records: Sequence[RequestRecord], traces: Sequence[TraceEvent], faulty_stages: frozenset[str], must: Mandatory) -> Ledger:
    """Place every request and every trace. Traces may come in any order; the first of a request is its trace."""
    requests = request_frame(records, faulty_stages)
    requests["must"] = [must(record) for record in records]
    logged = trace_frame(traces)
    roles = dict(zip(requests["request_id"], requests["role"], strict=True))
    logged["place"] = _places(traces, roles)
    first = logged[logged["place"] == Place.MATCHED].drop_duplicates("request_id")
    matched = requests["request_id"].isin(first["request_id"])
    requests["place"] = [
        str(Place.MATCHED if has else Place.CLIENT_ONLY if needs else Place.EXCUSED)
        for has, needs in zip(matched, requests.pop("must"), strict=True)
    ]
    prefixed = first.add_prefix("trace_").rename(columns={"trace_request_id": "request_id"})
    pairs = requests.merge(prefixed, on="request_id", how="inner", validate="one_to_one")
    return Ledger(requests=requests, traces=logged, pairs=pairs)


def request_frame(records: Iterable[RequestRecord], faulty_stages: frozenset[str]) -> pd.DataFrame:
    """One row a request, with its moments on the client's wall clock."""
    frame = _frame(RequestRecord, records)
    frame["start_unix_s"] = frame["started_unix_s"].astype(float)
    for moment in MOMENTS:
        frame[f"{moment}_unix_s"] = frame["start_unix_s"] + frame[f"{moment}_s"].astype(float)
    frame["faulty_stage"] = frame["stage"].isin(faulty_stages)
    return frame


def trace_frame(traces: Iterable[TraceEvent]) -> pd.DataFrame:
    """One row a trace."""
    return _frame(TraceEvent, traces)


def _frame(cls: type[Any], rows: Iterable[Any]) -> pd.DataFrame:
    names = [field.name for field in fields(cls)]
    rows = list(rows)
    frame = pd.DataFrame({name: [_encodable(getattr(row, name)) for row in rows] for name in names}, columns=names)
    return frame.astype({"request_id": "str"})  # of no rows, or of absent ids only, pandas would guess a number


def _encodable(value: Any) -> Any:
    """Half characters, which a server may send by their JSON escapes, spelt out: Arrow takes nothing that is not UTF-8."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "backslashreplace").decode()
    return tuple(map(_encodable, value)) if isinstance(value, tuple) else value


def _places(traces: Sequence[TraceEvent], roles: dict[str, str]) -> list[str]:
    """The place of each trace. Children of one request (n > 1) are asked for by rows of the catalogue only."""
    first: dict[tuple[str, str], TraceEvent] = {}
    places = []
    for trace in traces:
        places.append(str(_place(trace, roles, first, ours_seen=bool(first))))
    return places


def _place(trace: TraceEvent, roles: dict[str, str], first: dict[tuple[str, str], TraceEvent], ours_seen: bool) -> Place:
    if trace.request_id is None or trace.request_id not in roles:
        return Place.EXCUSED if _of_before(trace, ours_seen) else Place.SERVER_ONLY
    key = (trace.request_id, trace.child if roles[trace.request_id] == Role.BAD else "")
    if key not in first:
        first[key] = trace
        return Place.MATCHED
    return Place.DUPLICATE if _says(first[key]) == _says(trace) else Place.MULTI_TERMINAL


def _of_before(trace: TraceEvent, ours_seen: bool) -> bool:
    """A trace of another run, or of somebody who was served before our first request ended."""
    return trace.request_id is None and (not ours_seen or ids.find(trace.raw_id) is not None)


def _says(trace: TraceEvent) -> tuple[Any, ...]:
    return (trace.raw_reason, trace.finish_reason, trace.completion_tokens, trace.terminal_unix_s)
