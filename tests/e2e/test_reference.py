"""The gate against the reference server that it starts itself: clean, and with something killed in the middle."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.e2e.gate import ROOT, gate

pytestmark = pytest.mark.e2e


def test_a_clean_run_passes_and_can_be_judged_again_to_the_same_bytes(tmp_path: Path) -> None:
    with gate(tmp_path, "--seed", "1") as run:
        assert run.wait() == 0, run.said[-3000:]
        verdict = run.verdict
        assert verdict["verdict"] == "pass" and verdict["exit_code"] == 0
        assert "verdict: pass" in run.said
        assert {"completed", "rejected", "cancelled", "disconnected"} <= {word for word, count in verdict["counts"].items() if count}
        assert verdict["baseline"]["active"] == 0 and verdict["baseline"]["pending"] == 0
        assert not psutil.pid_exists(run.server_pid())
        first = (run.run_dir / "verdict.json").read_bytes()
        again = subprocess.run([sys.executable, "-m", "analysis", str(run.run_dir)], cwd=ROOT, capture_output=True, check=False)
        assert again.returncode == 0, again.stdout
        assert (run.run_dir / "verdict.json").read_bytes() == first


def test_a_killed_rank_fails_the_run_for_the_right_reason(tmp_path: Path) -> None:
    with gate(tmp_path, "--seed", "1") as run:
        server = psutil.Process(run.server_pid())
        run.wait_for_stage("cancel")
        [rank] = server.children()
        rank.send_signal(signal.SIGKILL)
        assert run.wait() == 1, run.said[-3000:]
        assert run.status("outcomes.normal") == "fail"
        assert run.status("recovery.follow_up") == "fail"
        until_gone(server.pid)


def test_a_killed_server_fails_the_run_for_the_right_reason(tmp_path: Path) -> None:
    with gate(tmp_path, "--seed", "1") as run:
        pid = run.server_pid()
        ranks = psutil.Process(pid).children()
        run.wait_for_stage("cancel")
        os.kill(pid, signal.SIGKILL)
        assert run.wait() == 1, run.said[-3000:]
        assert run.status("process.same") == "fail"
        for each in ranks:
            until_gone(each.pid)


def test_an_interrupted_run_is_judged_and_never_passes(tmp_path: Path) -> None:
    with gate(tmp_path, "--seed", "1") as run:
        pid = run.server_pid()
        run.wait_for_stage("cancel")
        run.process.send_signal(signal.SIGINT)
        assert run.wait() == 3, run.said[-3000:]
        assert run.verdict["verdict"] == "unknown"
        assert run.status("evidence.complete") == "unknown"
        until_gone(pid)


def test_a_full_disk_ends_the_run_at_once_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "observations.jsonl").symlink_to("/dev/full")
    with gate(tmp_path, "--seed", "1") as run:
        pid = run.server_pid()
        assert run.wait() == 3, run.said[-3000:]
        assert run.said.rstrip().splitlines()[-1].startswith("verdict: unknown (exit 3): cannot write")
        assert "Traceback" not in run.said and not (run.run_dir / "verdict.json").exists()
        until_gone(pid)


def test_two_processes_give_the_same_verdict_and_both_their_records(tmp_path: Path) -> None:
    port = str(free_port())
    with gate(tmp_path, "--seed", "1", "--processes", "2", "--master-bind-port", port, "--master-port", port) as run:
        assert run.wait() == 0, run.said[-3000:]
        shards = sorted((run.run_dir / "records").iterdir())
        assert len(shards) == 2
        assert all(len(shard.read_text().splitlines()) > 20 for shard in shards)


def free_port() -> int:
    """A port that nobody uses now."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until_gone(pid: int) -> None:
    """Fails when a process is still there after a while."""
    try:
        psutil.Process(pid).wait(20)
    except psutil.NoSuchProcess:
        return
