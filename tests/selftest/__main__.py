"""`python -m tests.selftest [--only NAMES] [--jobs N] [--seed N] [--out DIR]`: exit 0 when the judge made no mistake, 1 when
it did, 2 for names that there are not."""

import argparse
import fnmatch
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path

from tests.selftest import matrix
from tests.selftest.case import Case, bugs, clean
from tests.selftest.run import ROOT, Result, run


def main() -> int:
    """Run the chosen cases and print a line as each ends."""
    options = _options()
    cases = _chosen(options.only)
    began = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(run, case, options.out, options.seed) for case in cases]
        for future in as_completed(futures):
            results.append(future.result())
            print(matrix.line(results[-1]), flush=True)
    order = {case.name: place for place, case in enumerate(cases)}
    results.sort(key=lambda result: order[result.name])
    matrix.write(results, time.monotonic() - began, options.out)
    total = matrix.score(results)
    print(
        f"{total.caught_count} of {total.bug_count} bugs caught by the named check, "
        f"{total.passed_count} of {total.clean_count} clean runs passed, {total.alarm_count} false alarms, "
        f"{time.monotonic() - began:.0f} s; {options.out / 'selftest.md'}"
    )
    return 0 if total.perfect else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.selftest", description="Judge the judge: planted bugs must fail, clean servers must pass."
    )
    parser.add_argument("--only", default="*", help="comma-separated names or patterns, e.g. 'clean-*' or 'lost_token,orphan_trace'")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once (default 2)")
    parser.add_argument("--seed", type=int, default=None, help="seed of every run that does not name its own")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "runs" / f"selftest-{datetime.now(UTC):%Y%m%dT%H%M%SZ}", help="where the runs go"
    )
    options = parser.parse_args()
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    return options


def _chosen(only: str) -> list[Case]:
    patterns = [pattern.strip() for pattern in only.split(",") if pattern.strip()]
    everything = [*bugs(), *clean()]
    for pattern in patterns:
        if not any(fnmatch.fnmatch(case.name, pattern) for case in everything):
            print(f"no self-test case matches {pattern!r}; names are those of server_launch/reference/planted and clean-*", file=sys.stderr)
            sys.exit(2)
    # the slowest first, so that no job waits for one at the end
    chosen = [case for case in everything if any(fnmatch.fnmatch(case.name, pattern) for pattern in patterns)]
    return sorted(chosen, key=lambda case: -case.limit_s)


if __name__ == "__main__":
    sys.exit(main())
