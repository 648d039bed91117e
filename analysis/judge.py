"""The order of the steps: read a run directory, ask every check, add up, write the reports."""

from pathlib import Path

from analysis import report, verdict
from analysis.checks import CHECKS
from analysis.evidence import Evidence
from analysis.finding import run, unknown
from analysis.load import NoPlan, load
from analysis.verdict import Answer, Verdict


def judge(run_dir: Path, server_log: Path | None = None) -> tuple[Verdict, Evidence | None]:
    """The verdict on a run, and the evidence behind it (None where the run has no plan). Writes nothing. Raises load.NoRun."""
    try:
        evidence = load(run_dir, server_log)
    except NoPlan as error:
        finding = unknown(f"there is nothing to judge by: {error}")
        return verdict.without_evidence(tuple(Answer(check=check, finding=finding) for check in CHECKS)), None
    answers = tuple(Answer(check=check, finding=run(check, evidence)) for check in CHECKS)
    return verdict.of_evidence(evidence, answers), evidence


def judge_run(run_dir: Path, server_log: Path | None = None) -> Verdict:
    """Judge a run and write verdict.json, summary.md, junit.xml and both parquet files into it. Raises load.NoRun, OSError."""
    result, evidence = judge(run_dir, server_log)
    report.write(run_dir, result, evidence)
    return result
