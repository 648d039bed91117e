"""Whether the server at the end is the process that it was at the beginning."""

from analysis.checks.requests import shown
from analysis.evidence import Evidence
from analysis.finding import Check, Finding, failed, not_applicable, passed, unknown

CLOCK_S = 2.0
"""A start time is computed from the machine's uptime and may move with its clock by this much."""


def _same(evidence: Evidence) -> Finding:
    ended = [f"it ended by itself in {one.stage or 'no stage'} with {_code(one.code)}" for one in evidence.exits]
    if ended:
        return failed("the server's process ended", *shown(ended))
    frame = evidence.process.sort_values("at_unix_s", kind="stable")
    seen = frame[frame["pid"].notna()]
    if seen.empty:
        if evidence.plan.target.launched:
            return unknown("the process of the server that we started was never read")
        return not_applicable("no process of the server is known on this machine")
    first = seen.iloc[0]
    wrong = [
        f"in {stage}: no such process any more (it was {int(first['pid'])})"
        for stage, at, pid in zip(frame["stage"], frame["at_unix_s"], frame["pid"], strict=True)
        if pid != pid and at > first["at_unix_s"]
    ]
    for stage, pid, started in zip(seen["stage"], seen["pid"], seen["started_unix_s"], strict=True):
        if pid != first["pid"]:
            wrong.append(f"in {stage}: process {int(pid)}, and it was {int(first['pid'])}")
        elif started is not None and first["started_unix_s"] is not None and abs(started - first["started_unix_s"]) > CLOCK_S:
            wrong.append(f"in {stage}: process {int(pid)} was started anew")
    if wrong:
        return failed("the server is not the process that it was", *shown(wrong))
    last = seen.iloc[-1]
    if len(seen) < 2 or last["stage"] not in _late_stages(evidence):
        return unknown("the server's process was not read after the last stage")
    return passed(f"process {int(first['pid'])} in {len(seen)} readings, from {first['stage'] or 'the start'} to {last['stage']}")


def _late_stages(evidence: Evidence) -> set[str]:
    """The last stage; readings between stages may carry no name."""
    return {stage.name for stage in evidence.plan.stages[-1:]} | {""}


def _code(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


SAME = Check(id="process.same", question="Is it the same process as before?", judge=_same)
