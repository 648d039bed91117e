"""The judge over whole run directories: same bytes twice, nothing better for lost evidence, right exit codes."""

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

from analysis import manifest, report
from analysis.checks import CHECKS
from analysis.judge import judge, judge_run
from analysis.load import NoRun
from analysis.vocabulary import ExitCode, Status
from tests.analysis import build, complete

ROOT = Path(__file__).resolve().parents[2]
RANK = {Status.PASS: 0, Status.UNKNOWN: 1, Status.FAIL: 2}
OUTPUTS = ("verdict.json", "summary.md", "junit.xml", "requests.parquet", "traces.parquet")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("good") / "run"
    complete.write(complete.run(), run_dir)
    return run_dir


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gauge that lies once, which a single line of the observations shows."""
    run_dir = tmp_path_factory.mktemp("bad") / "run"
    run = complete.run()
    run.observations.append(complete.reading("cancel", "sample", 1021.0, running=3))
    complete.write(run, run_dir)
    return run_dir


def copy(run_dir: Path, to: Path) -> Path:
    return Path(shutil.copytree(run_dir, to / "copy"))


def status(run_dir: Path) -> Status:
    return judge(run_dir)[0].status


def command(*arguments: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "analysis", *map(str, arguments)]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=120, env={**os.environ, **environ}, check=False)


def test_a_good_run_passes_and_a_bad_one_fails(good: Path, bad: Path) -> None:
    verdict, _ = judge(good)
    assert verdict.status is Status.PASS, [(one.check.id, one.finding) for one in verdict.answers if one.finding.status is not Status.PASS]
    assert status(bad) is Status.FAIL


def test_judging_twice_gives_the_same_bytes(good: Path, tmp_path: Path) -> None:
    run_dir = copy(good, tmp_path)
    judge_run(run_dir)
    first = {name: (run_dir / name).read_bytes() for name in OUTPUTS}
    judge_run(run_dir)
    assert {name: (run_dir / name).read_bytes() for name in OUTPUTS} == first
    assert not list(run_dir.glob(".*"))


def test_the_verdict_has_what_the_contract_says(good: Path, tmp_path: Path) -> None:
    run_dir = copy(good, tmp_path)
    judge_run(run_dir)
    document = json.loads((run_dir / "verdict.json").read_text())
    assert (document["schema_version"], document["verdict"], document["exit_code"]) == (1, "pass", 0)
    assert document["counts"] == {
        "completed": 88, "rejected": 12, "cancelled": 12, "disconnected": 7, "failed": 0, "timeout": 0, "harness_stopped": 0,
    }  # fmt: skip
    assert sum(document["by_stage"]["overload"].values()) == 10
    assert document["terminal_reasons"] == {"cancelled": 12, "completed_length": 88, "disconnected": 7}
    assert document["trace_coverage"]["matched"] == 107 and document["trace_coverage"]["unreadable_lines"] == 0
    assert document["baseline"]["active"] == document["baseline"]["pending"] == 0
    assert {"id", "status", "summary", "evidence"} <= set(document["checks"][0])
    assert document["claims"] and "anything about speed" in document["not_claimed"]


def test_both_parquet_files_hold_both_sides(good: Path, tmp_path: Path) -> None:
    run_dir = copy(good, tmp_path)
    judge_run(run_dir)
    requests, traces = pd.read_parquet(run_dir / "requests.parquet"), pd.read_parquet(run_dir / "traces.parquet")
    assert len(requests) == 119 and set(requests["place"]) == {"matched", "excused"}
    assert len(traces) == 107 and set(traces["place"]) == {"matched"}


FILES = ("plan.json", "observations.jsonl", "server.log", "records/worker-000.jsonl", "manifest.json")


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_gone_never_makes_a_verdict_better(good: Path, bad: Path, tmp_path: Path, name: str) -> None:
    for number, run_dir in enumerate((good, bad)):
        poorer = copy(run_dir, tmp_path / str(number))
        (poorer / name).unlink()
        assert status(poorer) is not Status.PASS


@pytest.mark.parametrize("name", FILES)
def test_a_line_that_is_gone_never_makes_a_verdict_better(good: Path, bad: Path, tmp_path: Path, name: str) -> None:
    for number, run_dir in enumerate((good, bad)):
        lines = (run_dir / name).read_bytes().splitlines(keepends=True)
        facts = {1} if name == "manifest.json" else set()  # its facts for people are no evidence
        for index in {0, 1, len(lines) // 3, len(lines) // 2, len(lines) - 2, len(lines) - 1} - facts:
            poorer = copy(run_dir, tmp_path / f"{number}-{index}")
            (poorer / name).write_bytes(b"".join(lines[:index] + lines[index + 1 :]))
            assert status(poorer) is not Status.PASS, index


@pytest.mark.parametrize("name", FILES[1:4])
def test_a_file_that_is_cut_never_makes_a_verdict_better(good: Path, bad: Path, tmp_path: Path, name: str) -> None:
    for number, run_dir in enumerate((good, bad)):
        whole = (run_dir / name).read_bytes()
        for cut in (0, 1, len(whole) // 2, len(whole) - 1):
            poorer = copy(run_dir, tmp_path / f"{number}-{cut}")
            (poorer / name).write_bytes(whole[:cut])
            assert status(poorer) is not Status.PASS, cut


def test_evidence_that_was_added_or_changed_after_the_run_is_no_pass(good: Path, tmp_path: Path) -> None:
    added = copy(good, tmp_path / "a")
    (added / "records" / "worker-001.jsonl").write_bytes((good / "records/worker-000.jsonl").read_bytes())
    assert status(added) is not Status.PASS
    changed = copy(good, tmp_path / "b")
    log = changed / manifest.SERVER_LOG
    log.write_bytes(log.read_bytes().replace(b"ready", b"Ready"))
    assert status(changed) is Status.UNKNOWN


def test_an_empty_directory_is_unknown_and_still_gets_a_verdict(tmp_path: Path) -> None:
    assert judge_run(tmp_path).exit_code is ExitCode.UNKNOWN
    document = json.loads((tmp_path / "verdict.json").read_text())
    assert document["verdict"] == "unknown" and {check["status"] for check in document["checks"]} == {"unknown"}


def test_a_directory_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("hello")
    with pytest.raises(NoRun):
        judge_run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_another_log_stands_in_for_the_runs_own(good: Path, tmp_path: Path) -> None:
    run_dir = copy(good, tmp_path)
    elsewhere = tmp_path / "elsewhere.log"
    shutil.move(run_dir / manifest.SERVER_LOG, elsewhere)
    assert status(run_dir) is not Status.PASS
    assert judge(run_dir, elsewhere)[0].status is Status.PASS
    elsewhere.write_text("".join(elsewhere.read_text().splitlines(keepends=True)[:40]))
    assert judge(run_dir, elsewhere)[0].status is Status.FAIL


@pytest.mark.slow
def test_the_program_says_it_by_its_exit_code(good: Path, bad: Path, tmp_path: Path) -> None:
    for run_dir, code in ((good, 0), (bad, 1), (tmp_path / "empty", 3)):
        target = copy(run_dir, tmp_path / f"for-{code}") if run_dir.exists() else run_dir
        target.mkdir(exist_ok=True)
        done = command(target)
        assert done.returncode == code and done.stdout.startswith("verdict: ") and not done.stderr


@pytest.mark.slow
def test_wrong_usage_is_one_line_and_exit_2(good: Path, tmp_path: Path) -> None:
    for arguments in ([tmp_path / "nowhere"], [good, "--server-log", tmp_path / "nothing"], [good, "--colour"], []):
        done = command(*arguments)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and not done.stdout, done.stderr


@pytest.mark.slow
def test_a_broken_judge_is_one_line_and_exit_4(good: Path, tmp_path: Path) -> None:
    run_dir = copy(good, tmp_path)
    (run_dir / "summary.md").mkdir()
    done = command(run_dir)
    assert done.returncode == 4 and done.stderr.count("\n") == 1


def test_a_page_of_a_ci_job_gets_the_summary(good: Path, tmp_path: Path) -> None:
    verdict, _ = judge(good)
    out, page = io.StringIO(), tmp_path / "page.md"
    report.announce(verdict, good, out, {"GITHUB_STEP_SUMMARY": str(page)})
    assert page.read_text() == report.markdown(verdict) and "\x1b" not in out.getvalue()
    report.announce(verdict, good, out, {"GITHUB_STEP_SUMMARY": str(tmp_path / "no" / "page.md")})
    assert "could not be written" in out.getvalue()


def hostile(tmp_path: Path) -> Path:
    run = complete.run()
    run.spoil(lambda one: one.stage == "control", 1, problems=("rule: \x1b[2J<b>|`\n]]>\x00\ud800",))
    complete.write(run, tmp_path / "run")
    return tmp_path / "run"


def test_hostile_text_of_a_server_is_harmless_in_every_report(tmp_path: Path) -> None:
    run_dir = hostile(tmp_path)
    verdict = judge_run(run_dir)
    text = report.table(verdict, colour=False) + (run_dir / "summary.md").read_text()
    assert "\x1b" not in text and "\x00" not in text and "<b>" not in (run_dir / "summary.md").read_text()
    cases = ElementTree.parse(run_dir / "junit.xml").getroot()
    assert len(cases) == len(verdict.answers) == int(cases.attrib["tests"])
    assert cases.attrib["failures"] == str(len(verdict.of(Status.FAIL))) != "0"
    json.loads((run_dir / "verdict.json").read_text())


def test_colours_only_where_asked_for(bad: Path) -> None:
    verdict, _ = judge(bad)
    assert "\x1b[31m" in report.table(verdict, colour=True) and "\x1b" not in report.table(verdict, colour=False)
    assert "state.cap" in report.table(verdict, colour=False)


def test_every_check_has_its_own_id_and_question() -> None:
    assert len({check.id for check in CHECKS}) == len(CHECKS) and all(check.question.endswith("?") for check in CHECKS)


def test_a_run_without_a_trace_log_is_judged_by_its_other_witnesses(tmp_path: Path) -> None:
    run = complete.run()
    run.retarget(trace=None, launched=False)
    complete.write(run, tmp_path / "run", log_lines=[])
    (tmp_path / "run" / manifest.SERVER_LOG).unlink()
    manifest.seal(tmp_path / "run", {})
    verdict, evidence = judge(tmp_path / "run")
    assert verdict.status is Status.PASS and evidence is not None and evidence.log is None
    assert {"trace.coverage", "retire.lag"} <= {answer.check.id for answer in verdict.of(Status.NOT_APPLICABLE)}


def test_a_parser_that_nobody_has_is_named() -> None:
    run = complete.run()
    run.retarget(trace="elsewhere")
    assert build.evidence(run) is not None
