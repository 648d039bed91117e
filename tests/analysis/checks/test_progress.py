"""progress.stall: silence on one stream, and silence of the whole server."""

import dataclasses

from analysis.checks import progress
from analysis.finding import Finding
from analysis.observation import LoopLag, Pace
from analysis.record import RequestRecord
from analysis.vocabulary import ErrorKind, Outcome, Phase, Role, Status
from tests.analysis import build


def stall(run: build.Run) -> Finding:
    return progress.STALL.judge(run.evidence())


def first_bystander(record: RequestRecord) -> bool:
    return record.role is Role.BYSTANDER and record.item == 0 and record.stage == "cancel"


def test_a_good_run_passes() -> None:
    assert stall(build.good()).status is Status.PASS


def test_a_stream_that_goes_silent_is_a_fault_though_others_move() -> None:
    run = build.good()
    run.spoil(first_bystander, token_times_s=(0.02, 0.03, 0.04, 6.0, 6.1, 6.2), ended_s=6.3)
    finding = stall(run)
    assert finding.status is Status.FAIL and "nothing for 6.0 s, 0.04 s after it began" in finding.evidence[0]


def test_a_stream_that_stays_open_after_its_last_token_is_a_fault() -> None:
    run = build.good()
    run.spoil(first_bystander, ended_s=9.0, outcome=Outcome.TIMEOUT, error=ErrorKind.DEADLINE)
    assert stall(run).status is Status.FAIL


def test_a_server_that_answers_nobody_for_long_is_a_fault() -> None:
    run = build.good()
    run.drop(lambda record: record.stage == "cancel" and record.role is not Role.FOLLOW_UP)
    silent = dict(first_token_s=None, last_token_s=None, token_times_s=(), token_events=0, text="", phase=Phase.AWAITING_FIRST_TOKEN)
    for index in range(3):
        lost = build.completed("cancel", 0.1 * index, role=Role.BYSTANDER)
        run.add(dataclasses.replace(lost, **silent, outcome=Outcome.TIMEOUT, ended_s=7.0), traced=False)  # type: ignore[arg-type]
    finding = stall(run)
    assert finding.status is Status.FAIL and "no sign from the whole server" in finding.evidence[0]


def test_silence_in_which_we_stood_still_ourselves_is_not_the_servers() -> None:
    run = build.good()
    [record] = run.spoil(first_bystander, token_times_s=(0.02, 0.03, 0.04, 6.0, 6.1, 6.2), ended_s=6.3)
    run.observations.append(LoopLag(at_unix_s=record.started_unix_s + 5.5, worker=0, lag_s=5.0))
    assert stall(run).status is Status.PASS


def late(run: build.Run) -> None:
    """A bystander whose first token comes after 6 s, beside others that are served all the time."""
    run.spoil(first_bystander, token_times_s=(6.0, 6.01), first_token_s=6.0, last_token_s=6.01, ended_s=6.02)


def test_a_stream_that_waits_long_with_a_slot_free_is_a_fault() -> None:
    run = build.good()
    run.retarget(active_cap=4)
    late(run)
    finding = stall(run)
    assert finding.status is Status.FAIL and "no token for 6.0 s, with at most 3 requests on 4 slots" in finding.evidence[0]


def test_a_stream_that_waits_long_behind_a_full_server_is_queued() -> None:
    run = build.good()
    late(run)
    assert stall(run).status is Status.PASS


def test_a_second_of_silence_is_this_machine() -> None:
    run = build.good()
    run.spoil(first_bystander, token_times_s=(0.02, 0.03, 0.04, 1.6, 1.7, 1.8), ended_s=1.9)
    assert stall(run).status is Status.PASS


def test_a_server_of_one_token_a_second_with_long_prefills_may_take_its_time() -> None:
    run = build.good()
    run.unobserve(Pace)
    run.observations.append(Pace(at_unix_s=1_009.0, first_token_s=2.0, token_gap_s=1.0, unit_tokens=6))
    run.spoil(first_bystander, token_times_s=(0.02, 0.03, 0.04, 6.0, 6.1, 6.2), ended_s=6.3)
    assert stall(run).status is Status.PASS


def test_whole_answers_that_fill_every_slot_are_no_silence() -> None:
    run = build.good()
    run.unobserve(Pace)
    run.observations.append(Pace(at_unix_s=1_009.0, first_token_s=0.02, token_gap_s=0.1, unit_tokens=48))
    run.drop(lambda record: record.stage == "cancel" and record.role is not Role.FOLLOW_UP)
    for index in range(2):
        run.add(build.completed("cancel", 0.0, stream=False, item=index, role=Role.BYSTANDER, headers_s=7.0, ended_s=7.0))
    assert stall(run).status is Status.PASS


def test_without_the_servers_own_speed_it_is_unknown() -> None:
    run = build.good()
    run.unobserve(Pace)
    assert stall(run).status is Status.UNKNOWN


def test_without_a_stream_it_is_unknown() -> None:
    run = build.good()
    run.drop(lambda record: record.stream)
    assert stall(run).status is Status.UNKNOWN
