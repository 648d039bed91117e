"""state.baseline: leaks, told apart from stale gauges and from ends that are only late."""

import dataclasses

from analysis.checks import baseline
from analysis.finding import Finding
from analysis.observation import MetricsReading
from analysis.vocabulary import Role, Status
from tests.analysis import build, complete


def judge(run: build.Run) -> Finding:
    return complete.judge(baseline.BASELINE, run)


def gauge(run: build.Run, stage: str, moment: str, running: float) -> None:
    run.observations = [
        dataclasses.replace(one, gauges={"running": running, "waiting": 0.0})
        if isinstance(one, MetricsReading) and (one.stage, one.moment) == (stage, moment)
        else one
        for one in run.observations
    ]


def blind(run: build.Run, gauges: bool = False, traces: bool = False, refill: bool = False) -> build.Run:
    if gauges:
        run.retarget(gauges="none")
        run.unobserve(MetricsReading)
    if traces:
        run.retarget(trace=None)
        run.traces.clear()
    if refill:
        run.plan = dataclasses.replace(
            run.plan,
            stages=tuple(
                dataclasses.replace(one, groups=tuple(each for each in one.groups if each.name != "holders")) for one in run.plan.stages
            ),
        )
        run.drop(lambda one: one.role is Role.HOLDER)
    return run


def test_nothing_left_passes_by_any_single_witness() -> None:
    assert judge(complete.run()).status is Status.PASS
    assert "traces" in judge(blind(complete.run(), gauges=True, refill=True)).summary
    assert "gauges" in judge(blind(complete.run(), traces=True, refill=True)).summary
    assert "refill" in judge(blind(complete.run(), gauges=True, traces=True)).summary


def test_without_any_witness_nothing_is_claimed() -> None:
    assert judge(blind(complete.run(), gauges=True, traces=True, refill=True)).status is Status.NOT_APPLICABLE


def leak(run: build.Run, stage: str, **changes: int) -> None:
    record = next(one for one in run.records if (one.stage, one.role) == (stage, Role.FOLLOW_UP))
    complete.retrace(run, record, active_max=5, pending_max=5, healthy_baseline=False, **changes)


def test_a_request_left_by_the_trace_of_a_follow_up_is_a_leak() -> None:
    for changes in ({"active_at_terminal": 1}, {"pending_at_terminal": 2}):
        run = complete.run()
        leak(run, "cancel", **changes)
        assert judge(run).status is Status.FAIL


def test_a_server_that_still_counts_the_request_itself_leaks_nothing() -> None:
    run = complete.run()
    run.traces = [dataclasses.replace(one, active_max=3, active_at_terminal=(one.active_at_terminal or 0) + 1) for one in run.traces]
    assert judge(run).status is Status.PASS
    leak(run, "cancel", active_at_terminal=2)
    assert judge(run).status is Status.FAIL


def test_a_request_that_is_still_open_by_its_own_trace_is_late_not_leaked() -> None:
    run = complete.run()
    leak(run, "cancel", active_at_terminal=1)
    late = next(one for one in run.records if one.group == "cancelling")
    end = max(one.started_unix_s + one.ended_s for one in run.records if one.stage == "cancel")
    complete.retrace(run, late, terminal_unix_s=end + 0.5)
    assert judge(run).status is Status.PASS


def test_gauges_that_stay_up_are_a_leak_and_gauges_that_one_request_puts_right_were_stale() -> None:
    run = complete.run()
    gauge(run, "cancel", "settled", 3.0)
    finding = judge(run)
    assert finding.status is Status.PASS and "stale, not a leak" in finding.evidence[-1]
    gauge(run, "cancel", "poked", 3.0)
    assert judge(run).status is Status.FAIL


def test_a_follow_up_that_is_counted_a_moment_longer_is_no_leak_and_at_the_end_it_is() -> None:
    run = complete.run()
    gauge(run, "control", "poked", 1.0)
    assert judge(run).status is Status.PASS
    gauge(run, "drain", "poked", 1.0)
    assert judge(run).status is Status.FAIL


def test_slots_that_are_missing_are_a_leak_whatever_the_gauges_say() -> None:
    run = complete.run()
    [record] = run.spoil(
        lambda one: one.role is Role.HOLDER and one.stage == "drain", 1, first_token_s=None, token_times_s=(), token_events=0
    )
    finding = judge(run)
    assert finding.status is Status.FAIL and record.request_id in " ".join(finding.evidence)


def test_promised_witnesses_that_are_silent_make_it_unknown() -> None:
    run = complete.run()
    run.unobserve(MetricsReading)
    assert judge(run).status is Status.UNKNOWN
    run = complete.run()
    run.traces = [dataclasses.replace(one, active_at_terminal=None) for one in run.traces]
    assert judge(run).status is Status.UNKNOWN


def test_the_figures_of_the_verdict_are_those_of_the_last_end() -> None:
    run = complete.run()
    assert (baseline.baseline(run.evidence()).active, baseline.baseline(run.evidence()).pending) == (0, 0)
    leak(run, "drain", active_at_terminal=2, pending_at_terminal=1)
    found = baseline.baseline(run.evidence())
    assert (found.active, found.pending) == (2, 1) and set(found.witnesses) == {"traces", "gauges", "refill"}
    assert baseline.baseline(blind(complete.run(), gauges=True, traces=True).evidence()).active is None
