"""From a profile and what the command line says to a server that is there: launched here, or attached to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from analysis.plan import Target
from analysis.traces import PARSERS
from server_launch import attach
from server_launch.launch import Asked, Server, launch
from server_launch.log import ServerLog
from server_launch.profile import Profile

LAUNCHED_LOG = "launched-server.log"
"""Output of a server that we started, in the folder of the run that started it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for. `host` None: start the server here."""

    profile: Profile
    host: str | None
    model: str | None
    log: Path | None
    pid: int | None
    active_cap: int | None
    context_length: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A server that is there. `log` None: no log is known; `server` None: somebody else's."""

    target: Target
    profile: Profile
    server: Server | None
    pid: int | None
    log: ServerLog | None

    @property
    def refuses(self) -> tuple[str, ...]:
        """Rows that this server refuses although others may serve them."""
        return self.profile.refuses

    @property
    def serves(self) -> tuple[str, ...]:
        """Rows that it is known to serve against the catalogue's contract."""
        return self.profile.serves

    @property
    def honours(self) -> tuple[str, ...]:
        """Parameters that it promises to honour where it accepts them."""
        return self.profile.honours

    def close(self) -> None:
        """Stop what was started."""
        if self.server is not None:
            self.server.stop()

    def exit_code(self) -> int | None:
        """Of a server that we started and that ended by itself."""
        return None if self.server is None else self.server.exit_code()


def open_target(wanted: Wanted, log_dir: Path, headers: Mapping[str, str], sleep: Callable[[float], None]) -> Opened:
    """Launch or attach. Raises LaunchError, NotReachable, AttachError or LogError, each one line."""
    if wanted.host is not None:
        return _attached(wanted, wanted.host, headers, sleep)
    server = _launched(wanted, log_dir, sleep)
    try:
        model = attach.check_model(server.url, _model(wanted), headers)
        target = _target(wanted, server.url, model, launched=True, logged=True)
        return Opened(target=target, profile=wanted.profile, server=server, pid=server.pid, log=_log(wanted, server.log, sleep))
    except BaseException:
        server.stop()
        raise


def _attached(wanted: Wanted, host: str, headers: Mapping[str, str], sleep: Callable[[float], None]) -> Opened:
    log = None if wanted.log is None else _log(wanted, wanted.log, sleep)
    model = attach.check_model(host, wanted.model, headers)
    target = _target(wanted, host, model, launched=False, logged=log is not None)
    return Opened(target=target, profile=wanted.profile, server=None, pid=wanted.pid or attach.find_pid(host), log=log)


def _launched(wanted: Wanted, log_dir: Path, sleep: Callable[[float], None]) -> Server:
    log_dir.mkdir(parents=True, exist_ok=True)
    options = {"active_cap": wanted.active_cap, "context_length": wanted.context_length}
    return launch(wanted.profile, Asked(model=_model(wanted), log=log_dir / LAUNCHED_LOG, options=options), sleep)


def _log(wanted: Wanted, path: Path, sleep: Callable[[float], None]) -> ServerLog:
    """Raises LogError."""
    parser = PARSERS.get(wanted.profile.trace or "")
    return ServerLog(path, parser.mark if parser else b"", sleep)


def _model(wanted: Wanted) -> str:
    return wanted.model or wanted.profile.model or "model"


def _target(wanted: Wanted, host: str, model: str, *, launched: bool, logged: bool) -> Target:
    profile = wanted.profile
    return Target(
        profile=profile.name,
        base_url=host.rstrip("/"),
        model=model,
        active_cap=wanted.active_cap or profile.active_cap,
        context_length=wanted.context_length or profile.context_length,
        request_id_in_body=profile.request_id_in_body,
        ignore_eos=profile.ignore_eos,
        batch_invariant=profile.batch_invariant,
        stream_refusal=profile.stream_refusal,
        queue=profile.queue,
        queued_leaver=profile.queued_leaver,
        health_path=profile.health_path,
        metrics_path=profile.metrics_path,
        running_gauge=profile.running_gauge,
        waiting_gauge=profile.waiting_gauge,
        gauges=profile.gauges,
        counts_aborts=profile.counts_aborts,
        trace=profile.trace if logged else None,
        launched=launched,
    )
