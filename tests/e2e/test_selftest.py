"""A sample of the self-test: bugs of different kinds are caught by the checks that name them, and a clean server passes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.gate import ROOT

pytestmark = pytest.mark.e2e
SAMPLE = ("clean-seed-0", "slot-keeps-last-token", "seventh-abort-lost", "one-slot-leaks-once", "orphan-trace")


def selftest(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tests.selftest", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_sample_of_the_matrix_is_right(tmp_path: Path) -> None:
    ended = selftest("--only", ",".join(SAMPLE), "--jobs", str(len(SAMPLE)), "--out", str(tmp_path))
    assert ended.returncode == 0, ended.stdout
    assert len(json.loads((tmp_path / "selftest.json").read_text())["results"]) == len(SAMPLE)
    assert "4 of 4 bugs caught by the named check, 1 of 1 clean runs passed, 0 false alarms" in ended.stdout


def test_a_name_that_is_none_is_refused_in_one_line() -> None:
    ended = selftest("--only", "no-such-bug")
    assert ended.returncode == 2
    assert "no-such-bug" in ended.stderr and ended.stderr.count("\n") == 1
