"""Runs the real gate as a user would, and waits for what it leaves behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 240.0


@dataclass(slots=True)
class Gate:
    """A gate under way. Its output goes to a file, so that a full pipe never stops it."""

    process: "subprocess.Popen[bytes]"
    run_dir: Path
    output: Path

    def wait(self) -> int:
        """Its exit code; the test fails when it hangs."""
        return self.process.wait(LIMIT_S)

    @property
    def said(self) -> str:
        """What it has printed so far."""
        return self.output.read_text(errors="replace")

    @property
    def verdict(self) -> dict[str, Any]:
        """verdict.json."""
        parsed: dict[str, Any] = json.loads((self.run_dir / "verdict.json").read_text())
        return parsed

    def status(self, check: str) -> str:
        """The status of one check."""
        return next(str(each["status"]) for each in self.verdict["checks"] if each["id"] == check)

    def wait_for_stage(self, stage: str) -> None:
        """Until a stage has begun."""
        observations = self.run_dir / "observations.jsonl"
        mark = f'"stage":"{stage}","edge":"begin"'
        until(lambda: observations.exists() and mark in observations.read_text(), f"stage {stage} to begin", self)

    def server_pid(self) -> int:
        """Process of the server that the gate launched."""
        log = self.run_dir / "launched-server.log"
        until(lambda: log.exists() and "pid=" in log.read_text(), "the server to be ready", self)
        return int(log.read_text().split("pid=")[1].split()[0])


def until(reached: Callable[[], bool], what: str, gate: Gate, limit_s: float = LIMIT_S) -> None:
    """Poll a condition; fails when the gate ends first or the limit passes."""
    deadline = time.monotonic() + limit_s
    while not reached():
        if gate.process.poll() is not None:
            raise AssertionError(f"the gate ended while waiting for {what}:\n{gate.said[-3000:]}")
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen:\n{gate.said[-3000:]}")
        time.sleep(0.05)


def _heed_interrupts() -> None:
    """A shell starts what it puts into the background with interrupts ignored, and all children inherit that: tests too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def gate(folder: Path, *options: str, headless: bool = True) -> Iterator[Gate]:
    """A gate with its own run directory below `folder`; ended with everything it started when the test is over."""
    run_dir, output = folder / "run", folder / "gate.out"
    mode = ["--headless"] if headless else []
    command = [sys.executable, "-m", "locust", "-f", "locustfile.py", *mode, "--run-dir", str(run_dir), *options]
    with output.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=_heed_interrupts,
        )  # fmt: skip
    try:
        yield Gate(process=process, run_dir=run_dir, output=output)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended by itself, with all of its group
        process.wait()
