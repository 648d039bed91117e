"""Ids survive what servers do to them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import ids

NONCE = "00112233aabbccdd"
MINE = ids.make(NONCE, 7, 42)


def test_ids_have_one_length_and_no_one_is_a_prefix_of_another() -> None:
    assert MINE == "r00112233aabbccddw007n00000042x"
    assert len(ids.make(NONCE, 999, 99_999_999)) == len(MINE) == ids.LENGTH


@pytest.mark.parametrize("bad", [("xyz", 0, 0), (NONCE, 1_000, 0), (NONCE, -1, 0), (NONCE, 0, 100_000_000), (NONCE.upper(), 0, 0)])
def test_numbers_that_do_not_fit_make_no_id(bad: tuple[str, int, int]) -> None:
    with pytest.raises(ValueError):
        ids.make(*bad)


@pytest.mark.parametrize(
    "text, child",
    [
        (MINE, ""), (f"cmpl-{MINE}", ""), (f"cmpl-{MINE}-0", "-0"), (f"chatcmpl-{MINE}-12", "-12"), (f"cmpl-{MINE}-0-9f8e7d6c", "-0"),
        (f"{MINE}-9f8e7d6c", ""), (f"{MINE}-12ab", ""), (f"{MINE}.0", ""), (f"{MINE}_0", ""),
    ],
)  # fmt: skip
def test_our_id_is_found_inside_decorations(text: str, child: str) -> None:
    found = ids.find(text, NONCE)
    assert found is not None
    assert (found.request_id, found.worker, found.sequence, found.child) == (MINE, 7, 42, child)


@pytest.mark.parametrize("text", ["", "cmpl-123", MINE[:-1], MINE.upper(), ids.make("f" * 16, 7, 42)])
def test_ids_of_others_are_not_ours(text: str) -> None:
    assert ids.find(text, NONCE) is None


def test_an_id_of_ours_behind_one_of_another_run_is_found() -> None:
    other = ids.make("f" * 16, 1, 1)
    found = ids.find(f"{other}/{MINE}", NONCE)
    assert found is not None and found.request_id == MINE
    any_run = ids.find(f"{other}/{MINE}")
    assert any_run is not None and any_run.request_id == other


@given(st.integers(0, 999), st.integers(0, 99_999_999), st.text(), st.text())
def test_every_id_is_found_again(worker: int, sequence: int, before: str, after: str) -> None:
    found = ids.find(before + ids.make(NONCE, worker, sequence) + after, NONCE)
    assert (found is not None and found.sequence == sequence) or NONCE in before
