"""From a profile and what the command line says to a server that is there: launched here, or attached to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from analysis import ids
from analysis.plan import Target
from server_launch import attach
from server_launch.launch import Server, launch
from server_launch.profile import Profile

LOG_LIMIT_S = 5.0


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
    log: "RunLog | None"

    @property
    def refuses(self) -> tuple[str, ...]:
        """Rows that this server refuses although others may serve them."""
        return self.profile.refuses

    @property
    def serves(self) -> tuple[str, ...]:
        """Rows that it is known to serve against the catalogue's contract."""
        return self.profile.serves

    def close(self) -> None:
        """Stop what was started."""
        if self.server is not None:
            self.server.stop()

    def exit_code(self) -> int | None:
        """Of a server that we started and that ended by itself."""
        return None if self.server is None else self.server.exit_code()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLog:
    """The part of a server's log that belongs to a run."""

    mark: attach.LogMark
    sleep: Callable[[float], None]

    def wait(self, nonce: str, count: int) -> None:
        """Until `count` different requests of the run are named in it, or the limit has passed: servers may log behind."""

        def enough(text: bytes) -> bool:
            found = {ids.find(line, nonce) for line in text.decode(errors="replace").splitlines() if nonce in line}
            return len({each.request_id for each in found if each is not None}) >= count

        attach.wait_for_log(self.mark, enough, LOG_LIMIT_S, self.sleep)

    def copy(self, into: Path) -> list[str]:
        """Copy it; the answer names what may be missing."""
        return attach.copy_log(self.mark, into)


def open_target(wanted: Wanted, log_dir: Path, headers: Mapping[str, str], sleep: Callable[[float], None]) -> Opened:
    """Launch or attach. Raises LaunchError, NotReachable or AttachError, each one line."""
    profile, server, log, pid, host = wanted.profile, None, wanted.log, wanted.pid, wanted.host
    mark = None if log is None else attach.mark_log(log)
    if host is None:
        log_dir.mkdir(parents=True, exist_ok=True)
        log = log_dir / "launched-server.log"
        extra = () if wanted.active_cap is None else ("--active-cap", str(wanted.active_cap))
        server = launch(profile, wanted.model or profile.model or "model", log, extra, sleep)
        host, pid = server.url, server.pid
        mark = attach.mark_log(log)
    try:
        model = attach.check_model(host, wanted.model or (profile.model if server else None), headers)
    except BaseException:
        if server is not None:
            server.stop()
        raise
    if pid is None:
        pid = attach.find_pid(host)
    run_log = None if mark is None else RunLog(mark=mark, sleep=sleep)
    target = _target(wanted, host.rstrip("/"), model, launched=server is not None, logged=run_log is not None)
    return Opened(target=target, profile=profile, server=server, pid=pid, log=run_log)


def _target(wanted: Wanted, host: str, model: str, *, launched: bool, logged: bool) -> Target:
    profile = wanted.profile
    return Target(
        profile=profile.name,
        base_url=host,
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
        trace=profile.trace if logged else None,
        launched=launched,
    )
