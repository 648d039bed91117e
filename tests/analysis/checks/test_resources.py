"""process.resources: figures at rest before and after the faults."""

import dataclasses
from typing import Any

import pytest

from analysis.checks import resources
from analysis.finding import Finding
from analysis.observation import ProcessReading
from analysis.vocabulary import Status
from tests.analysis import build


def judged(run: build.Run) -> Finding:
    return resources.RESOURCES.judge(run.evidence())


def grow(run: build.Run, stages: tuple[str, ...], **by: int) -> None:
    """Add to figures in each of these stages, for good."""
    for index, one in enumerate(run.observations):
        if isinstance(one, ProcessReading):
            steps = sum(build.STAGES.index(stage) <= build.STAGES.index(one.stage) for stage in stages)
            changes: dict[str, Any] = {name: getattr(one, name) + steps * amount for name, amount in by.items()}
            run.observations[index] = dataclasses.replace(one, **changes)


def test_a_good_run_passes() -> None:
    assert judged(build.good()).status is Status.PASS


@pytest.mark.parametrize("name", ["fd_count", "socket_count", "child_count"])
def test_one_left_behind_for_each_fault_is_a_fault(name: str) -> None:
    run = build.good()
    grow(run, ("cancel",), **{name: 12})
    finding = judged(run)
    assert finding.status is Status.FAIL and name in finding.evidence[0] and "rose in cancel" in finding.evidence[0]


def test_memory_that_rises_stage_after_stage_is_a_fault() -> None:
    run = build.good()
    grow(run, ("cancel", "bad_requests", "overload"), rss_bytes=100_000_000)
    assert judged(run).status is Status.FAIL


def test_memory_and_threads_that_rise_once_are_a_cache_and_a_pool() -> None:
    run = build.good()
    grow(run, ("overload",), rss_bytes=900_000_000, thread_count=40)
    assert judged(run).status is Status.PASS


def test_threads_that_go_on_rising_are_a_fault() -> None:
    run = build.good()
    grow(run, ("cancel", "bad_requests", "overload"), thread_count=12)
    assert judged(run).status is Status.FAIL


def test_figures_that_come_back_in_the_end_pass() -> None:
    run = build.good()
    grow(run, ("overload",), fd_count=30)
    grow(run, ("drain",), fd_count=-30)
    assert judged(run).status is Status.PASS


def test_a_server_of_ours_without_readings_is_unknown() -> None:
    run = build.good()
    run.unobserve(ProcessReading)
    assert judged(run).status is Status.UNKNOWN


def test_another_process_is_unknown() -> None:
    run = build.good()
    run.observations.append(build.process("drain", "poked", 1_060.0, pid=78))
    assert judged(run).status is Status.UNKNOWN


def test_a_process_that_shows_nothing_is_unknown() -> None:
    run = build.good()
    nothing: dict[str, Any] = dict.fromkeys(resources.FIGURES)
    run.observations = [dataclasses.replace(one, **nothing) if isinstance(one, ProcessReading) else one for one in run.observations]
    assert judged(run).status is Status.UNKNOWN


def test_a_server_elsewhere_claims_nothing() -> None:
    run = build.good()
    run.retarget(launched=False)
    run.unobserve(ProcessReading)
    assert judged(run).status is Status.NOT_APPLICABLE


def test_a_scenario_without_faults_claims_nothing() -> None:
    run = build.good()
    run.plan = dataclasses.replace(run.plan, stages=tuple(dataclasses.replace(stage, faulty=False) for stage in run.plan.stages))
    assert judged(run).status is Status.NOT_APPLICABLE
