"""health.honest: the endpoint against what clients saw, in both directions."""

import dataclasses

from analysis.checks import health
from analysis.finding import Finding
from analysis.observation import HealthReading, LoopLag, Pace
from analysis.vocabulary import ErrorKind, Outcome, Phase, Role, Status
from tests.analysis import build


def honest(run: build.Run) -> Finding:
    return health.HONEST.judge(run.evidence())


def repoll(run: build.Run, begin_unix_s: float, count: int, status: int | None = 200, latency_s: float = 0.003) -> None:
    """Change the first `count` polls from a moment on."""
    for index, one in enumerate(run.observations):
        if isinstance(one, HealthReading) and one.at_unix_s >= begin_unix_s and count > 0:
            run.observations[index] = dataclasses.replace(one, status=status, latency_s=latency_s)
            count -= 1


def silence(run: build.Run, outcome: Outcome, ended_s: float) -> None:
    """In the stage `cancel` nobody gets anything."""
    run.drop(lambda record: record.stage in build.STAGES[2:])
    nothing = dict(first_token_s=None, last_token_s=None, token_times_s=(), token_events=0, text="", phase=Phase.AWAITING_FIRST_TOKEN)
    for index in range(4):
        lost = build.completed("cancel", 0.1 * index, role=Role.BYSTANDER, headers_s=None)
        run.add(dataclasses.replace(lost, **nothing, outcome=outcome, error=ErrorKind.DEADLINE, ended_s=ended_s), traced=False)  # type: ignore[arg-type]


def test_a_good_run_passes() -> None:
    assert honest(build.good()).status is Status.PASS


def test_two_polls_that_say_503_while_it_serves_are_a_fault() -> None:
    run = build.good()
    repoll(run, 1_022.0, 1, status=503)
    assert honest(run).status is Status.PASS, "one odd poll is an accident"
    repoll(run, 1_035.0, 1, status=503)
    assert honest(run).status is Status.FAIL


def test_no_answer_twice_in_a_row_is_a_fault() -> None:
    run = build.good()
    repoll(run, 1_022.0, 2, status=None)
    assert honest(run).status is Status.FAIL


def test_a_lost_poll_now_and_then_is_this_machine() -> None:
    run = build.good()
    for at in (1_012.0, 1_022.0, 1_035.0):
        repoll(run, at, 1, status=None)
    assert honest(run).status is Status.PASS


def test_slow_polls_under_load_are_a_fault() -> None:
    run = build.good()
    repoll(run, 1_020.0, 16, latency_s=2.5)
    assert honest(run).status is Status.FAIL


def test_a_few_slow_polls_are_this_machine() -> None:
    run = build.good()
    repoll(run, 1_020.0, 2, latency_s=2.5)
    repoll(run, 1_025.0, 6, latency_s=1.4)
    assert honest(run).status is Status.PASS


def test_polls_that_were_slow_because_of_us_are_not_counted() -> None:
    run = build.good()
    repoll(run, 1_020.0, 16, latency_s=2.5)
    run.observations.append(LoopLag(at_unix_s=1_030.0, worker=0, lag_s=13.0))
    assert honest(run).status is Status.PASS


def test_200_while_nothing_moves_is_a_fault() -> None:
    run = build.good()
    silence(run, Outcome.TIMEOUT, ended_s=9.0)
    finding = honest(run)
    assert finding.status is Status.FAIL and "no sign of life" in finding.evidence[0]


def test_200_while_every_request_fails_is_a_fault() -> None:
    run = build.good()
    silence(run, Outcome.FAILED, ended_s=0.01)
    finding = honest(run)
    assert finding.status is Status.FAIL and "while every request failed" in finding.evidence[0]


def test_503_while_every_request_fails_is_honest() -> None:
    run = build.good()
    silence(run, Outcome.FAILED, ended_s=0.01)
    repoll(run, 1_020.0, 1_000, status=503)
    assert honest(run).status is Status.PASS


def test_503_after_it_came_back_is_a_fault() -> None:
    run = build.good()
    silence(run, Outcome.FAILED, ended_s=0.01)
    run.add(build.completed("cancel", 5.0, role=Role.FOLLOW_UP))
    repoll(run, 1_020.0, 10, status=503)
    assert honest(run).status is Status.PASS, "clients failed until then"
    repoll(run, 1_026.0, 2, status=503)
    assert honest(run).status is Status.FAIL


def test_a_server_that_is_gone_in_the_final_watch_is_a_fault() -> None:
    run = build.good()
    repoll(run, 1_059.0, 1_000, status=None)
    assert honest(run).status is Status.FAIL


def test_too_few_polls_are_unknown() -> None:
    run = build.good()
    run.unobserve(HealthReading)
    assert honest(run).status is Status.UNKNOWN


def test_without_the_servers_own_speed_it_is_unknown() -> None:
    run = build.good()
    run.unobserve(Pace)
    assert honest(run).status is Status.UNKNOWN


def test_a_server_without_the_endpoint_claims_nothing() -> None:
    run = build.good()
    run.retarget(health_path=None)
    assert honest(run).status is Status.NOT_APPLICABLE
