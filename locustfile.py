"""The gate's entry for Locust: options, hooks, and which classes run. Logic lives in users/, faults/, analysis/, server_launch/."""

from pathlib import Path
from typing import Any

import gevent
from locust import events

from analysis.vocabulary import ExitCode
from users import gate, options
from users.clients import CancellingUser, DisconnectingUser, HoldingUser, MalformedUser, NormalUser
from users.shape import PlanShape

__all__ = ["CancellingUser", "DisconnectingUser", "HoldingUser", "MalformedUser", "NormalUser", "PlanShape"]


@events.init_command_line_parser.add_listener  # type: ignore[untyped-decorator]
def _add_options(parser: Any, **_: Any) -> None:
    options.add(parser)


@events.init.add_listener  # type: ignore[untyped-decorator]
def _install(environment: Any, **_: Any) -> None:
    # only here: what a worker imports stays small
    from server_launch.attach import AttachError, NotReachable
    from server_launch.launch import LaunchError
    from server_launch.log import LogError
    from server_launch.profile import ProfileError, load
    from server_launch.target import Opened, Wanted, open_target

    def open_server(asked: options.Options, host: str | None, log_dir: Path) -> Opened:
        wanted = Wanted(
            profile=load(asked.server),
            host=host,
            model=asked.model,
            log=asked.server_log,
            pid=asked.server_pid,
            active_cap=asked.active_cap,
            context_length=asked.context_length,
        )
        headers = {"Authorization": f"Bearer {asked.api_key}"} if asked.api_key else {}
        return open_target(wanted, log_dir, headers, gevent.sleep)

    trouble = {
        ProfileError: ExitCode.USAGE,
        AttachError: ExitCode.USAGE,
        LogError: ExitCode.USAGE,
        NotReachable: ExitCode.UNKNOWN,
        LaunchError: ExitCode.UNKNOWN,
    }
    gate.install(environment, open_server, trouble)
