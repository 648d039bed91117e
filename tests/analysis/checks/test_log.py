"""log.clean: what a log may say when clients misbehave."""

import dataclasses
from typing import Any

import pytest

from analysis.checks import log
from analysis.finding import Finding
from analysis.vocabulary import Status
from tests.analysis import build


def clean(**changes: Any) -> Finding:
    run = build.good()
    assert run.log is not None
    run.log = dataclasses.replace(run.log, **changes)
    return log.CLEAN.judge(run.evidence())


def test_a_good_run_passes() -> None:
    assert clean().status is Status.PASS


@pytest.mark.parametrize(
    "changes",
    [
        {"crashes": ("line 7: Traceback (most recent call last):",)},
        {"error_count": 500},
        {"repeated": (("WARNING slot # not found", 1_000),)},
        {"repeated": (("DEBUG radix tree visited", 100_000),)},
        {"line_count": 100_000},
        {"size_bytes": 10**9},
    ],
)
def test_a_log_that_screams_is_a_fault(changes: dict[str, Any]) -> None:
    assert clean(**changes).status is Status.FAIL


def test_a_line_or_two_for_each_spoilt_request_is_a_server_that_says_what_happened() -> None:
    assert clean(error_count=50, repeated=(("ERROR client of r# has left", 50),), line_count=400).status is Status.PASS


def test_a_line_for_every_token_is_a_talkative_server() -> None:
    assert clean(repeated=(("DEBUG step #", 600),), line_count=900).status is Status.PASS


def test_a_log_that_stayed_empty_is_unknown() -> None:
    assert clean(line_count=0).status is Status.UNKNOWN


def test_a_server_of_ours_without_a_log_is_unknown_and_another_claims_nothing() -> None:
    run = build.good()
    run.log = None
    assert log.CLEAN.judge(run.evidence()).status is Status.UNKNOWN
    run.retarget(launched=False)
    assert log.CLEAN.judge(run.evidence()).status is Status.NOT_APPLICABLE
