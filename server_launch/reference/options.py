"""What the reference server can be told on its command line; a wrong value is one line and exit code 2."""

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

DEFAULT_CONTEXT_LENGTH = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A validated command line; durations in seconds. `model_path` None: the tiny checkpoint that the project makes itself."""

    host: str
    port: int
    served_model_name: str
    model_path: Path | None
    ep_backend: str
    active_cap: int
    context_length: int
    rank_timeout_s: float
    drain_s: float
    step_interval_s: float
    metrics: bool
    gauges: bool
    trace: bool
    plant: str | None
    engine: str


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (see --help)", file=sys.stderr)
        raise SystemExit(2)


def parse(argv: list[str]) -> Options:
    """The options of a command line. Ends the process with exit code 2 and one line on stderr where they are wrong."""
    parser = _parser()
    given = parser.parse_args(argv)
    if given.model_path is not None and not (given.model_path / "config.json").is_file():
        parser.error(f"--model-path: there is no config.json in {given.model_path}; name a Hugging Face checkpoint directory")
    if not given.served_model_name:
        parser.error("--served-model-name must not be empty")
    if given.plant is not None and given.plant == "":
        parser.error("--plant: name a planted bug")
    return Options(
        host=given.host,
        port=given.port,
        served_model_name=given.served_model_name,
        model_path=given.model_path,
        ep_backend=given.ep_backend,
        active_cap=given.active_cap,
        context_length=given.context_length,
        rank_timeout_s=given.rank_timeout_s,
        drain_s=given.drain_s,
        step_interval_s=given.step_interval_ms / 1e3,
        metrics=not given.no_metrics,
        gauges=not given.no_gauges,
        trace=not given.no_trace,
        plant=given.plant,
        engine=given.engine,
    )


def _parser() -> _Parser:
    parser = _Parser(
        prog="server_launch.reference",
        description="The reference EP2 server. Prints 'ready http://HOST:PORT pid=N' on stdout when it serves; logs to stderr.",
        epilog="exit codes: 0 stopped by SIGTERM or SIGINT, 1 start-up failed or the server broke, 2 wrong options",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    add("--port", type=_Whole(0, 65535), default=8000, help="0 takes a free one (8000)")
    add("--served-model-name", default="deepseek-v2-lite", help="the model name that requests must carry")
    add("--model-path", type=Path, help="a deepseek_v2 checkpoint directory; without it a tiny one is generated and cached")
    add("--ep-backend", choices=("host-staged", "nccl"), default="host-staged", help="how activations move between the ranks")
    add("--active-cap", type=_Whole(1, 1024), default=8, help="most requests in decode at once (8)")
    add("--context-length", type=_Whole(2, 2**20), default=DEFAULT_CONTEXT_LENGTH, help="most tokens of prompt and answer (4096)")
    add("--rank-timeout-s", type=_positive_seconds, default=5.0, help="how long rank 0 waits for rank 1 in one exchange (5)")
    add("--drain-s", type=_seconds, default=5.0, help="how long a SIGTERM lets requests finish (5)")
    add("--step-interval-ms", type=_seconds, default=0.0, help="least time of a decode step, to slow the server down (0)")
    add("--no-metrics", action="store_true", help="no /metrics at all")
    add("--no-gauges", action="store_true", help="/metrics without the running and waiting gauges")
    add("--no-trace", action="store_true", help="no trace lines in the log")
    add("--plant", metavar="NAME", help="serve with one planted bug of server_launch.reference.planted")
    add("--engine", metavar="MODULE:FUNCTION", default="server_launch.reference.build:build", help="what makes the engine and tokenizer")
    return parser


class _Whole:
    def __init__(self, low: int, high: int) -> None:
        self._low, self._high = low, high

    def __call__(self, text: str) -> int:
        if not text.isascii() or not text.isdigit() or not self._low <= int(text) <= self._high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {self._low} to {self._high}")
        return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 86_400_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time of zero or more")
    return value


def _positive_seconds(text: str) -> float:
    value = _seconds(text)
    if value == 0:
        raise argparse.ArgumentTypeError("must be more than zero")
    return value
