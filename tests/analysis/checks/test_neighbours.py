"""neighbours.unharmed: what a fault may not do to the requests beside it."""

import dataclasses

from analysis.checks import neighbours
from analysis.finding import Finding
from analysis.observation import LoopLag, Pace
from analysis.record import RequestRecord
from analysis.vocabulary import ErrorKind, Outcome, Role, Status
from tests.analysis import build


def bystander(record: RequestRecord) -> bool:
    return record.role is Role.BYSTANDER


def unharmed(run: build.Run) -> Finding:
    return neighbours.UNHARMED.judge(run.evidence())


def frozen(record: RequestRecord, pause_s: float) -> RequestRecord:
    """The same stream with a pause after its first token."""
    times = (record.token_times_s[0], *(each + pause_s for each in record.token_times_s[1:]))
    return dataclasses.replace(record, token_times_s=times, last_token_s=times[-1], ended_s=record.ended_s + pause_s)


def freeze(run: build.Run, stage: str, pause_s: float, every: int = 1) -> None:
    for index, record in enumerate(run.records):
        if bystander(record) and record.stage == stage and record.item % every == 0:
            run.records[index] = frozen(record, pause_s)


def test_a_good_run_passes() -> None:
    assert unharmed(build.good()).status is Status.PASS


def test_a_broken_bystander_is_a_fault() -> None:
    run = build.good()
    run.spoil(bystander, 1, outcome=Outcome.FAILED, error=ErrorKind.RESET)
    assert unharmed(run).status is Status.FAIL


def test_another_text_beside_a_fault_is_a_fault() -> None:
    run = build.good()
    run.spoil(bystander, 1, text=" cherry cherry ruby brick rust wine")
    assert unharmed(run).status is Status.FAIL


def test_a_pause_at_every_fault_is_a_fault() -> None:
    run = build.good()
    freeze(run, "cancel", 0.5)
    finding = unharmed(run)
    assert finding.status is Status.FAIL and any("all faults in cancel" in line for line in finding.evidence)


def test_a_pause_at_a_few_faults_is_this_machine() -> None:
    run = build.good()
    freeze(run, "cancel", 0.5, every=8)
    assert unharmed(run).status is Status.PASS


def test_a_pause_that_was_our_own_is_not_the_servers() -> None:
    run = build.good()
    freeze(run, "cancel", 0.5)
    run.observations.append(LoopLag(at_unix_s=build.BEGIN_UNIX_S + 28.0, worker=0, lag_s=8.0))
    assert unharmed(run).status is Status.PASS


def test_a_slow_server_may_take_its_time_beside_faults_too() -> None:
    run = build.good()
    freeze(run, "cancel", 0.5)
    freeze(run, "bad_requests", 0.5)
    for index, record in enumerate(run.records):
        if record.role is Role.CONTROL and record.stream:
            run.records[index] = frozen(record, 0.5)
    assert unharmed(run).status is Status.PASS


def test_faults_without_a_bystander_beside_them_are_unknown() -> None:
    run = build.good()
    run.drop(lambda record: bystander(record) and record.stage == "cancel")
    finding = unharmed(run)
    assert finding.status is Status.UNKNOWN and "cancel" in finding.summary


def test_without_the_servers_own_speed_gaps_are_unknown() -> None:
    run = build.good()
    run.unobserve(Pace)
    assert unharmed(run).status is Status.UNKNOWN


def test_a_scenario_without_bystanders_claims_nothing() -> None:
    run = build.good()
    run.plan = dataclasses.replace(run.plan, stages=tuple(stage for stage in run.plan.stages if stage.name in ("reference", "overload")))
    assert unharmed(run).status is Status.NOT_APPLICABLE
