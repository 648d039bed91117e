"""No check without a test in which it fails, one in which it passes, and one in which it does not know."""

import pytest

from analysis.checks import CHECKS
from analysis.finding import Check
from analysis.vocabulary import Status
from tests.analysis.conftest import SEEN


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_each_status_of_a_check_was_seen(check: Check) -> None:
    about_us = check.id.startswith("evidence.")  # evidence that is not there proves nothing against a server: never a failure
    assert {Status.PASS, Status.UNKNOWN} | (set() if about_us else {Status.FAIL}) <= SEEN[check.id]
