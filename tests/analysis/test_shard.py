"""A shard that lost anything says so, wherever it was cut."""

import dataclasses
import json
from pathlib import Path

import pytest

from analysis import ids, shard
from analysis.record import RequestRecord
from tests.analysis import build

HEADER = shard.Header(nonce=build.NONCE, worker=0, revision="abc", host="here", pid=1)


def records(count: int = 3) -> list[RequestRecord]:
    return [
        dataclasses.replace(build.completed("control", index), sequence=index, request_id=ids.make(build.NONCE, 0, index))
        for index in range(count)
    ]


def data(rows: list[RequestRecord], header: shard.Header = HEADER) -> bytes:
    return "".join(line + "\n" for line in shard.lines(header, rows)).encode()


def parsed(content: bytes) -> shard.Shard:
    return shard.parse(content, "worker-000.jsonl", build.NONCE)


def test_a_whole_shard_comes_back_without_problems(tmp_path: Path) -> None:
    path = tmp_path / shard.name(0)
    for line in shard.lines(HEADER, records()):
        shard.append(path, [line])
    found = shard.read(path, build.NONCE)
    assert found.problems == () and found.closed
    assert found.header == HEADER and list(found.records) == records()


def test_an_empty_shard_of_a_worker_that_sent_nothing_is_whole() -> None:
    found = parsed(data([]))
    assert found.closed and found.records == ()


def test_a_shard_cut_at_any_byte_is_never_silently_shorter() -> None:
    whole = data(records())
    for cut in range(len(whole)):
        found = parsed(whole[:cut])
        assert found.problems and not found.closed, cut
        assert list(found.records) == records()[: len(found.records)], cut


def test_rows_may_come_in_any_order() -> None:
    assert parsed(data(list(reversed(records())))).closed


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_row_taken_out_is_noticed_even_with_a_footer_that_fits_the_count(lost: int) -> None:
    rows = data(records()).split(b"\n")
    del rows[1 + lost]
    assert "its footer counts 3 rows, there are 2" in parsed(b"\n".join(rows)).problems[-1]
    footer = json.loads(rows[-2])
    rows[-2] = json.dumps({**footer, "count": 2}).encode()
    assert "not those that its footer was made for" in parsed(b"\n".join(rows)).problems[-1]


def test_a_gap_in_the_numbers_is_noticed_in_a_footed_shard() -> None:
    rows = records(4)
    del rows[1]
    assert parsed(data(rows)).problems == ("worker-000.jsonl: 1 requests are missing, the first is number 1",)


def test_a_number_that_comes_twice_is_noticed() -> None:
    rows = records()
    assert "1 numbers came twice" in parsed(data([*rows, rows[1]])).problems[0]


def test_shards_of_other_runs_schemas_and_workers_are_refused() -> None:
    other = dataclasses.replace(HEADER, nonce="f" * 16)
    assert "belongs to another run" in parsed(data([], other)).problems[0]
    assert "its schema is 9" in parsed(data([], dataclasses.replace(HEADER, schema=9))).problems[0]
    assert "ids do not belong" in parsed(data(records(), dataclasses.replace(HEADER, worker=1))).problems[0]


@pytest.mark.parametrize("row", [b"{}", b"nonsense", b"[1]", b"\xff", b"null", b'{"kind":"footer"}'])
def test_a_row_that_is_no_record_is_a_problem(row: bytes) -> None:
    rows = data(records()).split(b"\n")
    rows.insert(2, row)
    found = parsed(b"\n".join(rows))
    assert any("line 3 is not a record" in problem for problem in found.problems)
    assert list(found.records) == records()


@pytest.mark.parametrize(
    "name, value", [("sequence", "1"), ("token_times_s", 3), ("started_unix_s", None), ("text", 7), ("outcome", "fine")]
)
def test_a_field_of_the_wrong_type_makes_the_row_a_problem(name: str, value: object) -> None:
    rows = data(records()).split(b"\n")
    rows[2] = json.dumps({**json.loads(rows[2]), name: value}).encode()
    assert any("line 3 is not a record" in problem for problem in parsed(b"\n".join(rows)).problems)
