"""The matrix of a self-test: sensitivity, specificity, and which check caught what."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.selftest.case import Kind
from tests.selftest.run import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Counts of a matrix."""

    bug_count: int
    caught_count: int
    clean_count: int
    passed_count: int
    alarm_count: int
    """Clean runs that failed: false alarms."""

    @property
    def perfect(self) -> bool:
        """Everything was caught with the named check, and every clean run passed."""
        return self.caught_count == self.bug_count and self.passed_count == self.clean_count and self.bug_count + self.clean_count > 0


def score(results: Sequence[Result]) -> Score:
    """Count a set of results."""
    bugs = [result for result in results if result.kind is Kind.BUG]
    clean = [result for result in results if result.kind is Kind.CLEAN]
    return Score(
        bug_count=len(bugs),
        caught_count=sum(result.right for result in bugs),
        clean_count=len(clean),
        passed_count=sum(result.right for result in clean),
        alarm_count=sum(result.exit_code == 1 for result in clean),
    )


def line(result: Result) -> str:
    """One line for the terminal."""
    mark = "ok  " if result.right else "MISS" if result.kind is Kind.BUG else "WOLF" if result.exit_code == 1 else "????"
    wanted = f" wanted {'|'.join(result.expected)}" if result.kind is Kind.BUG and not result.right else ""
    failed = " ".join(result.failed) or "-"
    unknown = f" unknown: {' '.join(result.unknown)}" if result.unknown else ""
    return f"{mark} {result.name:44} exit {result.exit_code} {result.seconds:6.1f} s  {failed}{unknown}{wanted}"


def markdown(results: Sequence[Result], seconds: float) -> str:
    """The matrix as a page."""
    total = score(results)
    head = [
        "# Self-test",
        "",
        f"Sensitivity {_percent(total.caught_count, total.bug_count)}: {total.caught_count} of {total.bug_count} planted bugs were caught "
        "by a check that names them (in bold).",
        f"Specificity {_percent(total.passed_count, total.clean_count)}: {total.passed_count} of {total.clean_count} clean servers passed, "
        f"with {total.alarm_count} false alarms. It took {seconds / 60:.0f} minutes.",
        "",
        "| check | bugs that it caught |",
        "|---|---|",
        *(f"| {check} | {count} |" for check, count in sorted(_catches(results).items())),
        "",
        "| server | right | exit | failed checks | unknown | s |",
        "|---|---|---|---|---|---|",
    ]
    rows = [_row(result) for result in results]
    return "\n".join([*head, *rows, ""])


def _percent(count: int, of: int) -> str:
    return f"{100 * count / of:.1f} %" if of else "unknown"


def _catches(results: Sequence[Result]) -> Counter[str]:
    """How many bugs each check caught that names them."""
    return Counter(check for result in results if result.right for check in result.failed if check in result.expected)


def _row(result: Result) -> str:
    right = "yes" if result.right else "**no**"
    return f"| {result.name} | {right} | {result.exit_code} | {_named(result)} | {' '.join(result.unknown)} | {result.seconds} |"


def _named(result: Result) -> str:
    return " ".join(f"**{check}**" if check in result.expected else check for check in result.failed)


def write(results: Sequence[Result], seconds: float, into: Path) -> None:
    """Write selftest.json and selftest.md."""
    data = {
        "schema_version": 1,
        "score": asdict(score(results)),
        "seconds": round(seconds, 1),
        "results": [asdict(result) for result in results],
    }
    (into / "selftest.json").write_text(json.dumps(data, indent=1) + "\n")
    (into / "selftest.md").write_text(markdown(results, seconds))
