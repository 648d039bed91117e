"""Notes what each check says while the tests of the judge run, for the one test that asks whether all of it was seen."""

from collections import defaultdict
from pathlib import Path

import pytest

from analysis.checks import CHECKS
from analysis.evidence import Evidence
from analysis.finding import Check, Finding
from analysis.vocabulary import Status

FOLDER = Path(__file__).parent
SEEN: dict[str, set[Status]] = defaultdict(set)
"""Check id -> what it has said so far in this session."""
LAST = "test_every_check.py"


def _note(check: Check) -> None:
    judge = check.judge

    def noting(evidence: Evidence) -> Finding:
        finding = judge(evidence)
        SEEN[check.id].add(finding.status)
        return finding

    object.__setattr__(check, "judge", noting)


for each in CHECKS:
    _note(each)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The test that asks comes last, and only where all others of the judge are run too."""
    last = [item for item in items if item.path.name == LAST]
    there = {item.path for item in items}
    if not {path for path in FOLDER.rglob("test_*.py")} <= there:
        for item in last:
            item.add_marker(pytest.mark.skip(reason="asks what the other tests of the judge have seen: run all of tests/analysis"))
    items[:] = [item for item in items if item not in last] + last
