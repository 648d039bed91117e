"""Hooks the gate into a Locust environment: prepares a run when Locust starts one, ends it when Locust stops, sets the exit code.

The same code serves headless runs, the web UI, and workers; what differs is which runner Locust made.
"""

import atexit
import signal
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import gevent
from locust.runners import LocalRunner, WorkerRunner

from analysis import ids
from analysis.plan import Plan, PlanError, Target
from analysis.vocabulary import ExitCode
from users import run, scenario
from users.collector import Collector
from users.fleet import LocustFleet, listen
from users.observer import Observer
from users.options import OptionError, Options, parsed
from users.rounds import Round
from users.run import ROOT, Log, Run
from users.shape import PlanShape
from users.worker import Worker


class Place(Protocol):
    """A server that is there, as whoever wires the gate opened it."""

    @property
    def target(self) -> Target:
        """The facts on it."""

    @property
    def pid(self) -> int | None:
        """Its process, where it is on this machine and known."""

    @property
    def log(self) -> Log | None:
        """Its log, where it is known."""

    @property
    def refuses(self) -> tuple[str, ...]:
        """Rows that it refuses although others may serve them."""

    @property
    def serves(self) -> tuple[str, ...]:
        """Rows that it is known to serve against the catalogue's contract."""

    @property
    def honours(self) -> tuple[str, ...]:
        """Parameters that it says it honours."""

    def exit_code(self) -> int | None:
        """Of a server that was started for us and ended by itself."""

    def close(self) -> None:
        """Stop what was started."""


Open = Callable[[Options, str | None, Path], Place]
"""(options, host or None, folder for its log) -> the server. Raises `trouble` errors."""


def install(environment: Any, open_server: Open, trouble: dict[type[Exception], ExitCode]) -> None:
    """Wire everything. Ends the process with one line and the right code when the options or the server cannot be used."""
    if isinstance(environment.runner, WorkerRunner):
        WorkerSide(environment)
        return
    environment.process_exit_code = int(ExitCode.BROKEN)
    try:
        MasterSide(environment, parsed(environment.parsed_options), open_server)
    except (OptionError, PlanError) as error:
        _give_up(error, ExitCode.USAGE)
    except tuple(trouble) as error:
        _give_up(error, next(code for kind, code in trouble.items() if isinstance(error, kind)))
    except Exception as error:  # noqa: BLE001 - Locust would log it and go on without a run
        traceback.print_exc()
        _give_up(error, ExitCode.BROKEN)


def _give_up(error: Exception, code: ExitCode) -> None:
    print(f"gate: {error}", file=sys.stderr, flush=True)
    raise SystemExit(int(code))


class WorkerSide:
    """A process that runs users: gets the plan and its rounds, sends records and progress."""

    def __init__(self, environment: Any) -> None:
        self._environment = environment
        self._worker: Worker | None = None
        listen(
            environment.runner,
            {
                "gate_plan": self._plan,
                "gate_round": lambda data: self._with(lambda worker: worker.begin(Round.parse(data))),
                "gate_milestone": lambda data: self._with(lambda worker: worker.agenda.reach(int(data["round"]), str(data["name"]))),
                "gate_end_loops": lambda data: self._with(lambda worker: worker.agenda.end_loops(int(data["round"]))),
                "gate_cut": lambda data: self._with(lambda worker: worker.agenda.cut(int(data["round"]))),
                "gate_close": lambda data: self.close(),
            },
        )
        environment.events.test_stop.add_listener(lambda **_: self.close())

    def close(self) -> None:
        """Close the shard, once nobody is in the middle of a request."""
        runner = self._environment.runner
        runner.stop_users(runner.user_classes_count)
        self._with(lambda worker: worker.stop())

    def _plan(self, data: dict[str, Any]) -> None:
        runner = self._environment.runner
        index = 0 if isinstance(runner, LocalRunner) else runner.worker_index
        options = parsed(self._environment.parsed_options)
        self._worker = Worker(
            plan=Plan.from_json(data["plan"]), index=index, api_key=options.api_key, revision=run.revision(),
            send=lambda kind, message: runner.send_message(kind, message),
        )  # fmt: skip
        self._worker.start(self._environment)

    def _with(self, act: Callable[[Worker], None]) -> None:
        if self._worker is not None:
            act(self._worker)


class MasterSide:
    """The process that decides: one server, and a run each time Locust starts one."""

    def __init__(self, environment: Any, options: Options, open_server: Open) -> None:
        self._environment = environment
        self._options = options
        self._run: Run | None = None
        self._worker = WorkerSide(environment) if isinstance(environment.runner, LocalRunner) else None
        self._place = open_server(options, environment.host, self._new_run_dir())
        environment.host = self._place.target.base_url
        try:
            self._load(ids.new_nonce())  # what cannot be planned ends here, before anything runs
        except BaseException:
            self._place.close()
            raise
        listen(environment.runner, {kind: self._pass_on(kind) for kind in run.MESSAGES})
        PlanShape.begin, PlanShape.over = self._begin, self._over
        environment.events.test_start.add_listener(lambda **_: self._start())
        environment.events.test_stop.add_listener(lambda **_: self._stop())
        environment.events.quitting.add_listener(lambda **_: self._quit())
        # Locust handles SIGTERM only once its start is over, and with a load shape and no web UI that is when the run is
        gevent.signal_handler(signal.SIGTERM, environment.runner.quit)

    def _load(self, nonce: str) -> Plan:
        options, place = self._options, self._place
        choice = scenario.Choice(
            seed=options.seed, nonce=nonce, deadline_s=options.deadline_s, endpoint=options.endpoint,
            refuses=place.refuses, serves=place.serves, honours=place.honours,
        )  # fmt: skip
        return scenario.load(options.scenario, place.target, choice)

    def _new_run_dir(self) -> Path:
        """The folder of the next run; a name that exists already is never written into twice."""
        named = self._options.run_dir
        base = named or ROOT / "runs" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        if not (base / "plan.json").exists():
            self._next_dir = base
            return base
        if named is not None and self._run is None:
            raise OptionError(f"--run-dir {named} holds a run already: name another, or remove it")
        self._next_dir = next(path for n in range(2, 10_000) if not (path := base.with_name(f"{base.name}-{n}")).exists())
        return self._next_dir

    def _begin(self) -> Plan:
        """Locust starts a run: plan it, and tell the workers."""
        if self._run is not None:
            self._new_run_dir()
        plan = self._load(ids.new_nonce())
        run_dir, revision = self._next_dir, run.revision()
        collector = Collector(run_dir=run_dir, nonce=plan.nonce, revision=revision, unwritable=lambda error: new.unwritable(error))
        observer = Observer(
            target=plan.target, pid=self._place.pid, observe=collector.observe, exit_code=self._place.exit_code,
            headers=self._headers(), token_gap_s=lambda: new.director.speed.token_gap_s,
        )  # fmt: skip
        new = Run(
            plan=plan, run_dir=run_dir, collector=collector, observer=observer, log=self._place.log,
            fleet=LocustFleet(self._environment.runner), facts=self._facts(plan, revision),
            announce=self._announce,
        )  # fmt: skip
        self._run = new
        try:
            run.write_plan(run_dir, plan)
        except OSError as error:
            new.unwritable(error)
        new.fleet.send("gate_plan", {"plan": plan.to_json()})
        return plan

    def _announce(self, said: str) -> None:
        """At once in the web UI; behind all of Locust's tables when the run is the whole program."""
        if self._environment.parsed_options.headless:
            atexit.register(_show, said)
        else:
            _show(said)

    def _facts(self, plan: Plan, revision: str) -> dict[str, Any]:
        asked = vars(self._environment.parsed_options)
        options = {key: str(asked[key]) for key in _NOTED if asked.get(key) is not None}
        server = {"url": plan.target.base_url, "model": plan.target.model, "pid": self._place.pid}
        return run.facts(_command(), revision, options, server)

    def _start(self) -> None:
        if self._run is not None:
            self._run.start(self._all_there)

    def _all_there(self) -> bool:
        runner = self._environment.runner
        return bool(runner.user_count >= (runner.target_user_count or 1) and runner.state == "running")

    def _over(self) -> bool:
        return self._run is not None and self._run.exit_code is not None

    def _stop(self) -> None:
        if self._run is None:
            return
        self._run.fleet.send("gate_close", {})
        code = self._run.finish()
        self._environment.shape_class.forget()
        self._environment.process_exit_code = int(code)

    def _quit(self) -> None:
        if self._run is None:
            self._environment.process_exit_code = int(ExitCode.UNKNOWN)
        else:
            self._environment.runner.stop()  # after a signal its users still run; the shard is closed once they have stopped
            self._stop()
        self._place.close()

    def _pass_on(self, kind: str) -> Callable[[dict[str, Any]], None]:
        def receive(data: dict[str, Any]) -> None:
            if self._run is not None:
                self._run.receive(kind, data)

        return receive

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._options.api_key}"} if self._options.api_key else {}


_NOTED = (
    "server", "server_log", "server_pid", "scenario", "run_dir", "model", "endpoint", "active_cap", "context_length", "deadline", "seed",
)  # fmt: skip


def _show(said: str) -> None:
    print(said, end="", flush=True)


def _command() -> list[str]:
    """The command line without a key on it."""
    words = list(sys.argv)
    for place, word in enumerate(words):
        if word == "--api-key" and place + 1 < len(words):
            words[place + 1] = "***"
        elif word.startswith("--api-key="):
            words[place] = "--api-key=***"
    return words


