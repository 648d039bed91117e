"""One case: start the server, attach the gate to it, read the verdict, leave nothing behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.selftest.case import Case, Kind

ROOT = Path(__file__).resolve().parents[2]
MODEL = "selftest"
ENGINE = ("--engine", "tests.selftest.engine:build")
START_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one run said. `exit_code` None: the gate did not end within the case's limit."""

    name: str
    kind: Kind
    expected: tuple[str, ...]
    exit_code: int | None
    failed: tuple[str, ...]
    unknown: tuple[str, ...]
    seconds: float
    run_dir: str

    @property
    def right(self) -> bool:
        """A bug was caught by a check that names it; a clean server passed."""
        if self.kind is Kind.CLEAN:
            return self.exit_code == 0
        return self.exit_code == 1 and bool(set(self.expected) & set(self.failed))


def run(case: Case, into: Path, seed: int | None) -> Result:
    """Run a case in its own directory below `into`. Raises RuntimeError when the server does not start."""
    folder = into / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.monotonic()
    log = folder / "server.log"
    server = _start(case, log)
    try:
        exit_code = _gate(case, _address(server, log), log, folder, seed)
    finally:
        _stop(server)
    failed, unknown = _checks(folder / "run" / "verdict.json")
    return Result(
        name=case.name, kind=case.kind, expected=case.expected, exit_code=exit_code, failed=failed, unknown=unknown,
        seconds=round(time.monotonic() - began, 1), run_dir=str(folder / "run"),
    )  # fmt: skip


def _start(case: Case, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "server_launch.reference", "--port", "0", "--served-model-name", MODEL, *ENGINE, *case.server]
    with log.open("wb") as out:
        return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + START_LIMIT_S
    while time.monotonic() < until:
        for line in log.read_text(errors="replace").splitlines():
            if line.startswith("ready http://"):
                return line.split()[1]
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"the reference server did not start; the end of its log: {log.read_text(errors='replace')[-500:]}")


def _gate(case: Case, url: str, log: Path, folder: Path, seed: int | None) -> int | None:
    command = [
        sys.executable, "-m", "locust", "-f", "locustfile.py", "--headless", "--host", url, "--server", case.profile,
        "--server-log", str(log), "--model", MODEL, "--run-dir", str(folder / "run"), *case.gate,
    ]  # fmt: skip
    if case.profile == "openai":
        del command[command.index("--server-log") : command.index("--model")]
    if seed is not None and "--seed" not in command:
        command += ["--seed", str(seed)]
    with (folder / "gate.log").open("wb") as out:
        gate = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            return gate.wait(case.limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _stop(gate)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and all of its group; planted servers may ignore a polite request."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _checks(verdict: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not verdict.exists():
        return (), ()
    checks = json.loads(verdict.read_text())["checks"]
    return tuple(tuple(check["id"] for check in checks if check["status"] == status) for status in ("fail", "unknown"))  # type: ignore[return-value]
