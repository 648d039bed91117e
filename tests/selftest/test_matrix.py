"""What the self-test counts as right: nothing but a named check that failed, or a clean run that passed."""

import json
from pathlib import Path

import pytest

from tests.selftest import matrix
from tests.selftest.case import Kind, bugs, clean
from tests.selftest.run import Result


def result(kind: Kind, exit_code: int | None, *failed: str, expected: tuple[str, ...] = ("retire.lag",)) -> Result:
    return Result(
        name="one", kind=kind, expected=expected if kind is Kind.BUG else (), exit_code=exit_code, failed=failed, unknown=(),
        seconds=1.0, run_dir="",
    )  # fmt: skip


RIGHT = (result(Kind.BUG, 1, "retire.lag", "retire.waste"), result(Kind.CLEAN, 0))
WRONG = (
    result(Kind.BUG, 0),
    result(Kind.BUG, 1, "outcomes.normal"),
    result(Kind.BUG, 3, "retire.lag"),
    result(Kind.BUG, None),
    result(Kind.CLEAN, 1, "retire.lag"),
    result(Kind.CLEAN, 3),
    result(Kind.CLEAN, None),
)


@pytest.mark.parametrize("one", RIGHT)
def test_what_is_right(one: Result) -> None:
    assert one.right and matrix.score([one]).perfect


@pytest.mark.parametrize("one", WRONG)
def test_one_mistake_spoils_the_score(one: Result) -> None:
    assert not one.right and not matrix.score([*RIGHT, one]).perfect


def test_only_a_clean_run_that_failed_is_a_false_alarm() -> None:
    assert matrix.score(WRONG).alarm_count == 1


def test_nothing_run_is_not_perfect() -> None:
    assert not matrix.score([]).perfect


def test_both_files_name_what_was_missed(tmp_path: Path) -> None:
    matrix.write([*RIGHT, *WRONG], 60.0, tmp_path)
    assert json.loads((tmp_path / "selftest.json").read_text())["score"]["caught_count"] == 1
    assert (tmp_path / "selftest.md").read_text().count("**no**") == len(WRONG)


def test_there_are_enough_bugs_of_every_kind_and_enough_clean_servers() -> None:
    from server_launch.reference.planted.catalogue import PLANTED

    kinds = [bug.kind for bug in PLANTED.values()]
    assert len(bugs()) >= 70 and len(clean()) >= 30
    assert set(type(kinds[0])) == set(kinds), "each of the fifteen kinds of public reports has its bugs"
