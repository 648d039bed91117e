"""The faults: one a file, each leaving when its name says so and at no other time."""

from dataclasses import replace
from pathlib import Path

import pytest

import faults
from analysis.vocabulary import Phase
from faults import FAULTS
from faults.fault import Aim, Progress

AIM = Aim(tokens=3, hold_tokens=2, hold_s=0.5, first_token_s=0.4, token_gap_s=0.01, draw=0.5)
SENT = Progress(phase=Phase.AWAITING_HEADERS, tokens=0, since_sent_s=0.0, released_s=None, released_tokens=0, queue_certain=True)
STREAMING = replace(SENT, phase=Phase.STREAMING, tokens=1, since_sent_s=0.5)
LONG_AGO = replace(SENT, since_sent_s=60.0)
SHARED = {"__init__", "fault", "bad_requests", "proofs", "legal"}


def test_the_catalogue_names_exactly_the_files() -> None:
    files = {path.stem for path in Path(faults.__file__).parent.glob("*.py")} - SHARED
    assert files == set(FAULTS)
    assert {make(AIM).name for make in FAULTS.values()} == files


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_fault_fits_a_screen_and_says_what_it_does(name: str) -> None:
    text = (Path(faults.__file__).parent / f"{name}.py").read_text()
    assert text.startswith('"""') and len(text.splitlines()) < 60


def test_nothing_never_leaves() -> None:
    fault = FAULTS["none"](AIM)
    assert not fault.leaves(LONG_AGO) and fault.patience_s(LONG_AGO) is None and not fault.landed(LONG_AGO)


def test_cancel_leaves_at_the_nth_token_and_lands_only_in_mid_stream() -> None:
    fault = FAULTS["cancel_after_tokens"](AIM)
    assert [fault.leaves(replace(STREAMING, tokens=count)) for count in (1, 2, 3, 4)] == [False, False, True, True]
    assert fault.landed(replace(STREAMING, tokens=3))
    assert not fault.landed(replace(STREAMING, tokens=3, phase=Phase.FINISHED))
    assert FAULTS["cancel_after_tokens"](replace(AIM, tokens=0)).leaves(STREAMING)


@pytest.mark.parametrize("name", ["leave_after_send", "leave_in_prefill", "leave_in_queue", "abandon_whole"])
def test_a_stay_ends_with_its_time_and_its_patience_is_what_is_left_of_it(name: str) -> None:
    fault = FAULTS[name](AIM)
    assert not fault.leaves(SENT)
    left_s = fault.patience_s(SENT)
    assert left_s is not None and left_s > 0
    assert fault.leaves(replace(SENT, since_sent_s=left_s)) and fault.patience_s(LONG_AGO) == 0
    assert fault.landed(SENT)
    assert fault.patience_s(replace(SENT, since_sent_s=None)) is None


@pytest.mark.parametrize("name", ["leave_after_send", "leave_in_prefill", "leave_in_queue"])
def test_a_token_ends_a_stay_that_was_to_end_before_it(name: str) -> None:
    fault = FAULTS[name](AIM)
    assert fault.leaves(replace(STREAMING, since_sent_s=0.0)) and not fault.landed(STREAMING)


def test_some_leave_at_once_and_none_waits_longer_than_the_usual_wait() -> None:
    stays = [FAULTS["leave_after_send"](replace(AIM, draw=draw / 100)).patience_s(SENT) for draw in range(100)]
    assert stays[0] == 0 and max(stay or 0 for stay in stays) <= 0.8 * AIM.first_token_s
    assert len(set(stays)) > 50


def test_leaving_the_queue_lands_only_while_the_slots_are_held() -> None:
    assert not FAULTS["leave_in_queue"](AIM).landed(replace(SENT, queue_certain=False))


def test_leaving_at_the_headers() -> None:
    fault = FAULTS["leave_after_headers"](AIM)
    there = replace(SENT, phase=Phase.AWAITING_FIRST_TOKEN)
    assert not fault.leaves(LONG_AGO) and fault.leaves(there) and fault.landed(there) and not fault.landed(STREAMING)


@pytest.mark.parametrize(
    ("released_s", "tokens", "leaves"), [(None, 9, False), (0.1, 9, False), (0.5, 1, False), (0.5, 2, True), (9.0, 2, True)]
)
def test_a_holder_needs_the_release_the_tokens_and_the_time(released_s: float | None, tokens: int, leaves: bool) -> None:
    assert FAULTS["hold"](AIM).leaves(replace(STREAMING, released_s=released_s, released_tokens=tokens)) is leaves
