"""The gate's own options beside Locust's, and their values once they are known to be possible."""

import argparse
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.vocabulary import Endpoint


class OptionError(Exception):
    """A value that cannot be used; one line that says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for. None: not said."""

    server: str
    server_log: Path | None
    server_pid: int | None
    scenario: str
    run_dir: Path | None
    model: str | None
    endpoint: Endpoint | None
    api_key: str | None
    active_cap: int | None
    context_length: int | None
    deadline_s: float | None
    seed: int


def add(parser: Any) -> None:
    """Add them to Locust's parser; each also has its LOCUST_… environment variable."""
    group = parser.add_argument_group("Reliability gate")
    for flag, kind, text in (
        ("server", str, "profile of the server: a name in server_launch/profiles or a TOML file"),
        ("server-log", str, "the server's log file; what is written to it during the run is joined with the requests"),
        ("server-pid", int, "process id of the server, where it runs on this machine and is not found by its port"),
        ("scenario", str, "a name in scenarios/ or a TOML file"),
        ("run-dir", str, "folder for the evidence and the verdict (default: runs/<UTC time>)"),
        ("model", str, "name of the model to ask for (default: the only one that is served)"),
        ("endpoint", str, "completions or chat (default: both)"),
        ("active-cap", int, "requests that the server runs at once, where it differs from the profile"),
        ("context-length", int, "tokens that the context holds, where it differs from the profile"),
        ("deadline", float, "seconds that one request may take (default: scales with the server's own pace)"),
        ("seed", int, "seed of everything that is drawn (default: drawn, and noted in plan.json)"),
    ):
        default = {"server": "reference", "scenario": "quick"}.get(flag)
        group.add_argument(f"--{flag}", type=kind, default=default, env_var="LOCUST_" + flag.upper().replace("-", "_"), help=text)
    parser.add_argument(  # Locust's own words (a secret, not in the web UI) are known to the parser, not to its groups
        "--api-key", type=str, default=None, env_var="OPENAI_API_KEY", is_secret=True, include_in_web_ui=False,
        help="sent as a bearer token; never written to a file",
    )  # fmt: skip


def parsed(raw: argparse.Namespace) -> Options:
    """The options of a run. Raises OptionError."""
    endpoint = raw.endpoint or None
    if endpoint not in (None, "completions", "chat"):
        raise OptionError(f"--endpoint is {endpoint!r}: use completions or chat, or leave it out for both")
    for name, least in (("active_cap", 1), ("context_length", 256), ("deadline", 1), ("server_pid", 1)):
        value = getattr(raw, name)
        if value is not None and value < least:
            raise OptionError(f"--{name.replace('_', '-')} is {value}: it must be at least {least}")
    return Options(
        server=raw.server or "reference",
        server_log=Path(raw.server_log) if raw.server_log else None,
        server_pid=raw.server_pid,
        scenario=raw.scenario or "quick",
        run_dir=Path(raw.run_dir) if raw.run_dir else None,
        model=raw.model or None,
        endpoint=Endpoint(endpoint) if endpoint else None,
        api_key=raw.api_key or None,
        active_cap=raw.active_cap,
        context_length=raw.context_length,
        deadline_s=raw.deadline,
        seed=secrets.randbelow(1_000_000) if raw.seed is None else raw.seed,
    )
