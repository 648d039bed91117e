"""The two-way join loses nothing: every request and every trace is in exactly one place."""

import dataclasses

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import ids, ledger
from analysis.evidence import Place
from analysis.record import RequestRecord
from analysis.trace import TraceEvent
from analysis.vocabulary import Outcome, Role, TerminalReason
from tests.analysis import build

RECORD = build.completed("control", 0.0)
TRACE = build.trace(RECORD)


def record(number: int, **changes: object) -> RequestRecord:
    return dataclasses.replace(RECORD, request_id=ids.make(build.NONCE, 0, number), sequence=number, **changes)  # type: ignore[arg-type]


def trace(number: int | None, **changes: object) -> TraceEvent:
    request_id = None if number is None else ids.make(build.NONCE, 0, number)
    return dataclasses.replace(TRACE, request_id=request_id, raw_id=request_id or "cmpl-77", **changes)  # type: ignore[arg-type]


def join(records: list[RequestRecord], traces: list[TraceEvent]) -> ledger.Ledger:
    return ledger.join(records, traces, frozenset({"cancel"}), lambda one: one.needs_trace(0.3))


numbers = st.integers(0, 6)
some_records = st.lists(
    st.tuples(numbers, st.sampled_from(Outcome), st.sampled_from([Role.NORMAL, Role.BAD, Role.FAULTY]), st.booleans()),
    unique_by=lambda row: row[0],
)
some_traces = st.lists(
    st.tuples(st.none() | numbers, st.sampled_from(["", "-0", "-1"]), st.sampled_from([TerminalReason.CANCELLED, TerminalReason.ERROR]))
)


@settings(max_examples=200, deadline=None)
@given(some_records, some_traces)
def test_counts_are_conserved_on_both_sides(
    rows: list[tuple[int, Outcome, Role, bool]], lines: list[tuple[int | None, str, TerminalReason]]
) -> None:
    records = [record(number, outcome=outcome, role=role, first_token_s=0.1 if token else None) for number, outcome, role, token in rows]
    traces = [trace(number, child=child, reason=reason, raw_reason=str(reason)) for number, child, reason in lines]
    joined = join(records, traces)
    own, theirs = joined.requests["place"].value_counts(), joined.traces["place"].value_counts()
    assert set(own.index) <= {Place.MATCHED, Place.CLIENT_ONLY, Place.EXCUSED} and own.sum() == len(records)
    assert set(theirs.index) <= set(Place) - {Place.CLIENT_ONLY} and theirs.sum() == len(traces)
    assert len(joined.pairs) == own.get(Place.MATCHED, 0) == len({one.request_id for one in traces} & {one.request_id for one in records})
    assert list(joined.requests["request_id"]) == [one.request_id for one in records]
    assert (joined.pairs["request_id"] == joined.pairs["trace_raw_id"]).all()


@settings(max_examples=50, deadline=None)
@given(some_records, some_traces, st.randoms())
def test_the_order_of_records_says_nothing(
    rows: list[tuple[int, Outcome, Role, bool]], lines: list[tuple[int | None, str, TerminalReason]], random: object
) -> None:
    records = [record(number, outcome=outcome, role=role) for number, outcome, role, _ in rows]
    traces = [trace(number, child=child) for number, child, _ in lines]
    shuffled = list(records)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = join(records, traces).requests, join(shuffled, traces).requests
    assert dict(zip(one["request_id"], one["place"], strict=True)) == dict(zip(other["request_id"], other["place"], strict=True))


def test_moments_are_on_the_wall_clock_and_absent_ones_are_missing_never_zero() -> None:
    frame = join([record(0, first_token_s=None, last_token_s=None)], []).requests
    assert frame["sent_unix_s"].iloc[0] == RECORD.started_unix_s + 0.002
    assert pd.isna(frame["first_token_unix_s"].iloc[0]) and pd.isna(frame["cut_unix_s"].iloc[0])


def test_nothing_at_all_joins_to_nothing() -> None:
    joined = join([], [])
    assert joined.requests.empty and joined.traces.empty and joined.pairs.empty


def test_what_must_have_a_trace() -> None:
    gone = dict(outcome=Outcome.DISCONNECTED, first_token_s=None)
    must = {
        "completed": record(0),
        "token": record(0, outcome=Outcome.CANCELLED),
        "dwelled": record(0, **gone, cut_s=0.5),
        "timeout": record(0, **{**gone, "outcome": Outcome.TIMEOUT}, ended_s=9.0),
    }
    need_not = {
        "left at once": record(0, **gone, cut_s=0.1),
        "never sent": record(0, **gone, sent_s=None, cut_s=9.0),
        "refused": record(0, outcome=Outcome.REJECTED, first_token_s=None),
        "catalogue": record(0, role=Role.BAD),
        "broken": record(0, outcome=Outcome.FAILED, first_token_s=None, ended_s=9.0),
        "stopped": record(0, outcome=Outcome.HARNESS_STOPPED),
    }
    assert {name for name, one in must.items() if one.needs_trace(0.3)} == set(must)
    assert {name for name, one in need_not.items() if one.needs_trace(0.3)} == set()
