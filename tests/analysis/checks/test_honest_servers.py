"""No alarm on honest servers of any speed and size, and the alarm on a dishonest one does not hang on its speed."""

import pytest

from analysis.checks import health, neighbours, outcomes, progress, queue, recovery, stability, stream
from analysis.finding import run
from analysis.vocabulary import Status
from tests.analysis.simulate import Server, whole_run

CHECKS = (
    outcomes.NORMAL,
    outcomes.TIMEOUT,
    stream.PROTOCOL,
    stream.CONTENT,
    stability.OUTPUT,
    stability.CROSSTALK,
    neighbours.UNHARMED,
    progress.STALL,
    queue.FAIR,
    queue.OVERLOAD,
    health.HONEST,
    recovery.FOLLOW_UP,
)
HONEST = {
    "plain": Server(),
    "fast": Server(gap_s=0.001, prefill_s=0.001, long_prefill_s=0.004),
    "one token a second": Server(gap_s=1.0, prefill_s=0.5, long_prefill_s=2.0),
    "cap of 1": Server(cap=1),
    "cap of 1, one token a second": Server(cap=1, gap_s=1.0, prefill_s=0.3, long_prefill_s=1.0),
    "cap of 32": Server(cap=32),
    "four tokens an event": Server(chunk=4),
    "headers with the first token": Server(early_headers=False),
    "long prefill": Server(long_prefill_s=0.5),
    "a machine that stands still for a second": Server(stall_s=1.0, stall_every=200),
    "a machine that stands still and we notice": Server(stall_s=2.0, stall_every=100, stall_noticed=True),
}


@pytest.mark.parametrize("traced", [True, False], ids=["traced", "untraced"])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_server_raises_no_alarm(name: str, seed: int, traced: bool) -> None:
    made = whole_run(HONEST[name], seed)
    if not traced:
        made.traces = []
    evidence = made.evidence()
    findings = {check.id: run(check, evidence) for check in CHECKS}
    assert {id: finding for id, finding in findings.items() if finding.status is not Status.PASS} == {}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("speed", [0.1, 1.0, 20.0])
def test_last_come_first_served_is_caught_at_any_speed(speed: float, seed: int) -> None:
    server = Server(newest_first=True, gap_s=0.01 * speed, prefill_s=0.01 * speed, long_prefill_s=0.05 * speed)
    assert run(queue.FAIR, whole_run(server, seed).evidence()).status is Status.FAIL


@pytest.mark.parametrize("seed", range(2))
def test_a_pause_for_all_whenever_a_client_leaves_is_caught(seed: int) -> None:
    assert run(neighbours.UNHARMED, whole_run(Server(freeze_s=0.3), seed).evidence()).status is Status.FAIL
