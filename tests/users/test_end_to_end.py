"""The gate as a command, against a server that shares no code with it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 240.0
KEY = "a-key-that-nobody-must-find"

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A server of somebody else's."""

    url: str
    log: Path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Attached]:
    log = tmp_path / "somebody.log"
    command = [sys.executable, "-m", "tests.fakes.server", "--log", str(log), "--token-ms", "5"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().split()[-1]
        yield Attached(url=f"http://127.0.0.1:{port}", log=log)
        process.terminate()


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "locust", "-f", "locustfile.py", "--headless", "--only-summary", *words]


def gate(*words: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"OPENAI_API_KEY": KEY}
    return subprocess.run(command(*words), cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, env=env, check=False)


def attach(server: Attached, run_dir: Path, scenario: str = "clean") -> list[str]:
    return [
        "--host", server.url, "--server", "pegainfer", "--server-log", str(server.log), "--model", "fake", "--run-dir", str(run_dir),
        "--scenario", scenario,
    ]  # fmt: skip


def records(run_dir: Path) -> list[dict[str, object]]:
    lines = [line for path in (run_dir / "records").iterdir() for line in path.read_text().splitlines()]
    return [row for row in map(json.loads, lines) if "request_id" in row]


def test_a_clean_run_against_a_clean_server(server: Attached, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    done = gate(*attach(server, run_dir))
    verdict = json.loads((run_dir / "verdict.json").read_text())
    assert done.returncode == verdict["exit_code"], done.stderr
    assert [check["id"] for check in verdict["checks"] if check["status"] == "fail"] == []
    assert {row["outcome"] for row in records(run_dir)} == {"completed"}
    assert verdict["trace_coverage"]["matched"] == len(records(run_dir))
    assert [path for path in run_dir.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()] == []


def test_a_run_that_is_told_to_end_ends_with_a_verdict_that_is_no_pass(server: Attached, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with subprocess.Popen(command(*attach(server, run_dir)), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        until_s = time.monotonic() + PATIENCE_S
        while not (run_dir / "observations.jsonl").exists() or '"reference"' not in (run_dir / "observations.jsonl").read_text():
            assert process.poll() is None and time.monotonic() < until_s
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3
    assert json.loads((run_dir / "verdict.json").read_text())["exit_code"] == 3


@pytest.mark.parametrize(
    ("changed", "code", "says"),
    [
        (("--model", "no-such-model"), 2, "no-such-model"),
        (("--server-log", "/no/such/file.log"), 2, "/no/such/file.log"),
        (("--scenario", "no-such-scenario"), 2, "no-such-scenario"),
        (("--active-cap", "0"), 2, "--active-cap"),
        (("--endpoint", "embeddings"), 2, "embeddings"),
        (("--host", "http://127.0.0.1:9"), 3, "127.0.0.1:9"),
    ],
)
def test_what_cannot_be_used_is_one_line(server: Attached, tmp_path: Path, changed: tuple[str, str], code: int, says: str) -> None:
    done = gate(*attach(server, tmp_path / "run"), *changed)
    assert done.returncode == code
    lines = [line for line in done.stderr.splitlines() if line.startswith("gate: ")]
    assert len(lines) == 1 and says in lines[0]
    assert "Traceback" not in done.stderr
