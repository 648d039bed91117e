"""`python -m analysis RUN_DIR [--server-log PATH]`: judge a run again, here or elsewhere."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from analysis import report
from analysis.judge import judge_run
from analysis.load import NoRun
from analysis.vocabulary import ExitCode

_CODES = "exit codes: 0 pass, 1 fail, 2 usage, 3 unknown (evidence is missing), 4 the judge itself broke"


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(ExitCode.USAGE, f"{self.prog}: {report.plain(message)}; see --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge, print, and return the exit code. Raises SystemExit(2) for wrong usage, as argparse does."""
    parser = _Parser(prog="python -m analysis", description="Judge a run of the gate from its directory.", epilog=_CODES)
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR", help="directory of the run, as given with --run-dir")
    parser.add_argument("--server-log", type=Path, metavar="PATH", help="the server's log, where the run could not copy it itself")
    options = parser.parse_args(arguments)
    if options.server_log is not None and not options.server_log.is_file():
        parser.error(f"--server-log {options.server_log}: no such file")
    try:
        verdict = judge_run(options.run_dir, options.server_log)
        report.announce(verdict, options.run_dir, sys.stdout)
    except NoRun as error:
        parser.error(str(error))
    except Exception as error:  # noqa: BLE001 - the boundary of the program: a broken judge has an exit code of its own
        print(f"the judge broke: {type(error).__name__}: {report.plain(str(error))}", file=sys.stderr)
        return ExitCode.BROKEN
    return verdict.exit_code


if __name__ == "__main__":
    sys.exit(main())
