"""process.same: the server at the end is the one of the beginning."""

import dataclasses
from typing import Any

import pytest

from analysis.checks import process
from analysis.finding import Finding
from analysis.observation import ProcessReading, ServerExit
from analysis.vocabulary import Status
from tests.analysis import build, complete


def judge(run: build.Run) -> Finding:
    return complete.judge(process.SAME, run)


def later(run: build.Run, **changes: Any) -> build.Run:
    """Change the readings from the stage `bad_requests` on."""
    late = build.STAGES[3:]
    run.observations = [
        dataclasses.replace(one, **changes) if isinstance(one, ProcessReading) and one.stage in late else one for one in run.observations
    ]
    return run


def test_one_process_passes() -> None:
    assert judge(complete.run()).status is Status.PASS


@pytest.mark.parametrize("changes", [{"pid": 78}, {"started_unix_s": 990.0}, {"pid": None, "started_unix_s": None}])
def test_another_process_or_none_is_a_fault(changes: dict[str, Any]) -> None:
    assert judge(later(complete.run(), **changes)).status is Status.FAIL


def test_a_server_that_ended_is_a_fault_with_its_signal() -> None:
    run = complete.run()
    run.observations.append(ServerExit(at_unix_s=1030.0, stage="cancel", code=-11))
    finding = judge(run)
    assert finding.status is Status.FAIL and "signal 11" in finding.evidence[0]


def test_a_start_time_that_moves_with_the_clock_is_the_same_process() -> None:
    assert judge(later(complete.run(), started_unix_s=901.0)).status is Status.PASS


def test_figures_that_cannot_be_read_do_not_matter() -> None:
    assert judge(later(complete.run(), started_unix_s=None, fd_count=None)).status is Status.PASS


def test_a_process_that_was_not_looked_at_in_the_end_is_unknown() -> None:
    run = complete.run()
    run.observations = [one for one in run.observations if not (isinstance(one, ProcessReading) and one.stage == "drain")]
    assert judge(run).status is Status.UNKNOWN


def test_no_reading_is_unknown_for_a_server_of_ours_and_nothing_elsewhere() -> None:
    run = complete.run()
    run.unobserve(ProcessReading)
    assert judge(run).status is Status.UNKNOWN
    run.retarget(launched=False)
    assert judge(run).status is Status.NOT_APPLICABLE
