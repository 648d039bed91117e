"""One run on the master: plan, director, observer and files, from the first tick of the shape to the judge's exit code."""

import platform
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import gevent
from gevent.lock import RLock

from analysis import manifest
from analysis.observation import LoopLag
from analysis.plan import Plan
from analysis.vocabulary import ExitCode, Outcome
from users.collector import Collector
from users.director import Director, Fleet, wait_for_footers
from users.lessons import Lesson
from users.observer import Observer

ROOT = Path(__file__).resolve().parent.parent
LOG_LIMIT_S, LOG_LIMIT_GAPS = 5.0, 10.0
"""How far behind a server may write its log: seconds, and pauses between two tokens."""
STAYED_S = 0.3
"""The log is waited for on behalf of clients that stayed this long; the judge asks for no fewer."""


class Log(Protocol):
    """The server's log, as far as it is known."""

    def wait(self, requests: Collection[str], limit_s: float) -> None:
        """Until each of these requests has a trace in it, or the limit is over."""

    def copy(self, into: Path) -> list[str]:
        """Copy the run's part; the answer names what may be missing."""


@dataclass(slots=True)
class Run:
    """Everything of one run that is not a request."""

    plan: Plan
    run_dir: Path
    facts: dict[str, Any]
    collector: Collector
    observer: Observer
    fleet: Fleet
    log: Log | None
    announce: Callable[[str], None]
    """Shows a person what the judge said."""
    director: Director = field(init=False)
    exit_code: ExitCode | None = None
    _greenlet: gevent.Greenlet | None = None
    _lock: RLock = field(default_factory=RLock)
    _traced: set[str] = field(default_factory=set)
    """Requests that a server with a trace log must have a trace of."""

    def __post_init__(self) -> None:
        self.director = Director(plan=self.plan, fleet=self.fleet, watcher=self.observer, observe=self.collector.observe)

    def start(self, ready: Callable[[], bool]) -> None:
        """Walk the stages as soon as all users are there."""
        self.observer.start()
        self._greenlet = gevent.spawn(self._walk, ready)

    def receive(self, kind: str, data: dict[str, Any]) -> None:
        """What a worker sent, of a kind in MESSAGES; anything malformed is noted and dropped."""
        try:
            MESSAGES[kind](self, data)
        except (KeyError, TypeError, ValueError) as error:
            self.collector.problem(f"a worker sent a message that cannot be read: {type(error).__name__} {error}")

    def unwritable(self, error: OSError) -> None:
        """The evidence cannot be written: what was written stays, unjudged, and the shape ends the load."""
        if self.exit_code is not ExitCode.UNKNOWN:
            self.exit_code = ExitCode.UNKNOWN
            why = f"cannot write {self.run_dir}: {error.strerror}; make room there, or name another --run-dir"
            self.announce(f"verdict: unknown (exit {ExitCode.UNKNOWN:d}): {why}\n")

    def finish(self) -> ExitCode:
        """Close the evidence and judge it; the second call gives the same answer. Never raises."""
        with self._lock:
            self._halt()
            if self.exit_code is None:
                code = self._finished()
                if self.exit_code is None:
                    self.exit_code = code
            return self.exit_code

    # --- inside --------------------------------------------------------------------------------------------------

    def _walk(self, ready: Callable[[], bool]) -> None:
        while not ready():
            gevent.sleep(0.05)
        self.director.run()
        self.fleet.send("gate_close", {})
        self.finish()

    def _halt(self) -> None:
        if self._greenlet is not None and self._greenlet is not gevent.getcurrent():
            self._greenlet.kill(block=False)
        if self.exit_code is not None:
            self.observer.stop()

    def _finished(self) -> ExitCode:
        try:
            return self._finish()
        except OSError as error:
            self.unwritable(error)
            return ExitCode.UNKNOWN

    def _finish(self) -> ExitCode:
        if not wait_for_footers(lambda: self.collector.all_closed):
            self.collector.problem("a worker did not close its shard in time")
        self.observer.stop()
        self._save_log()
        self.collector.close()
        manifest.seal(self.run_dir, self.facts | {"ended_unix_s": time.time()})
        code, said = judge(self.run_dir)
        self.announce(said)
        return code

    def _save_log(self) -> None:
        if self.log is None:
            return
        if self.plan.target.trace is not None:
            self.log.wait(self._traced, LOG_LIMIT_S + LOG_LIMIT_GAPS * self.director.speed.token_gap_s)
        for problem in self.log.copy(self.run_dir / manifest.SERVER_LOG):
            self.collector.problem(problem)

    def _begin(self, data: dict[str, Any]) -> None:
        self.collector.begin(int(data["worker"]), str(data["revision"]), str(data["host"]), int(data["pid"]))

    def _records(self, data: dict[str, Any]) -> None:
        records = self.collector.add(int(data["worker"]), int(data["batch"]), [str(line) for line in data["lines"]])
        self._traced.update(record.request_id for record in records if record.needs_trace(STAYED_S))
        self.director.timeouts += sum(record.outcome is Outcome.TIMEOUT for record in records)

    def _end(self, data: dict[str, Any]) -> None:
        self.collector.end(int(data["worker"]), int(data["count"]))

    def _progress(self, data: dict[str, Any]) -> None:
        learned = [Lesson.parse(each) for each in data["lessons"]]
        self.director.progress(int(data["worker"]), int(data["round"]), str(data["kind"]), str(data["value"]), learned)

    def _lag(self, data: dict[str, Any]) -> None:
        self.collector.observe(LoopLag(at_unix_s=float(data["at_unix_s"]), worker=int(data["worker"]), lag_s=float(data["lag_s"])))


MESSAGES: dict[str, Callable[[Run, dict[str, Any]], None]] = {
    "gate_shard_begin": Run._begin,
    "gate_records": Run._records,
    "gate_shard_end": Run._end,
    "gate_progress": Run._progress,
    "gate_lag": Run._lag,
}
"""What workers send to the master, and what it does with it."""


def judge(run_dir: Path) -> tuple[ExitCode, str]:
    """The judge's exit code for a run directory, and what it prints: a process of its own, the same as judging again later."""
    command = [sys.executable, "-m", "analysis", str(run_dir.resolve())]
    ended = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace", check=False)
    try:
        return ExitCode(ended.returncode), ended.stdout
    except ValueError:
        again = f"the judge ended with {ended.returncode}; judge again with python -m analysis {run_dir}"
        return ExitCode.BROKEN, f"{ended.stdout}verdict: none (exit {ExitCode.BROKEN:d}): {again}\n"


def facts(command: list[str], revision: str, options: dict[str, Any], server: dict[str, Any]) -> dict[str, Any]:
    """What the manifest says for people."""
    from importlib.metadata import version

    packages = ("locust", "gevent", "geventhttpclient", "sseclient-py", "pandas")
    return {
        "schema_version": 1,
        "started_unix_s": time.time(),
        "command": command,
        "revision": revision,
        "options": options,
        "server": server,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "host": platform.node(),
    }


def revision() -> str:
    """Git revision of this checkout, `+` when it was changed; `unknown` outside a checkout."""
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
        dirty = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return "unknown"
    return f"{head}{'+' if dirty else ''}" if head else "unknown"


def write_plan(run_dir: Path, plan: Plan) -> None:
    """plan.json, before the first request. Raises OSError."""
    run_dir.mkdir(parents=True, exist_ok=True)
    (run_dir / manifest.PLAN).write_text(plan.to_json(), encoding="utf-8")


