"""A verdict as files and as a short table. Decides nothing; whatever a server said is made harmless before it is shown."""

import html
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO
from xml.etree import ElementTree

from analysis.evidence import Evidence
from analysis.verdict import Answer, Verdict
from analysis.vocabulary import Status

_COLOURS = {Status.PASS: "\x1b[32m", Status.FAIL: "\x1b[31m", Status.UNKNOWN: "\x1b[33m", Status.NOT_APPLICABLE: "\x1b[2m"}
_RESET = "\x1b[0m"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]|~#])")
_LINES_SHOWN = 5


def write(run_dir: Path, verdict: Verdict, evidence: Evidence | None) -> None:
    """All files of the verdict. Each is complete or not there: it is written beside and moved into place. Raises OSError."""
    _put(run_dir / "summary.md", markdown(verdict).encode())
    _put(run_dir / "junit.xml", junit(verdict))
    if evidence is not None:
        _put_parquet(run_dir, evidence)
    _put(run_dir / "verdict.json", verdict.to_json().encode())


def announce(verdict: Verdict, run_dir: Path, out: TextIO, environ: Mapping[str, str] = os.environ) -> None:
    """Print the table, and add the summary to a CI job's page where there is one."""
    out.write(table(verdict, colour=out.isatty() and not environ.get("NO_COLOR")))
    out.write(f"evidence: {plain(str(run_dir))}\n")
    page = environ.get("GITHUB_STEP_SUMMARY")
    if not page:
        return
    try:
        with open(page, "a", encoding="utf-8") as summary:
            summary.write(markdown(verdict))
    except OSError as error:
        out.write(f"the job's page could not be written: {error}\n")


def table(verdict: Verdict, colour: bool) -> str:
    """The verdict in a few lines: each check that did not pass, with what is behind it, and how many did."""
    rows = []
    for status in (Status.FAIL, Status.UNKNOWN):
        rows += [line for answer in verdict.of(status) for line in _rows(answer, colour)]
    rest = ", ".join(f"{len(verdict.of(status))} {_word(status)}" for status in Status if verdict.of(status))
    counts = ", ".join(f"{count} {name}" for name, count in verdict.counts.items() if count) or "none"
    head = f"verdict: {_painted(verdict.status, str(verdict.status), colour)} (exit {int(verdict.exit_code)})"
    return "\n".join([head, f"requests: {counts}", f"checks: {rest}", *rows]) + "\n"


def markdown(verdict: Verdict) -> str:
    """The text of summary.md."""
    lines = [
        f"# Verdict: {verdict.status}",
        "",
        f"Scenario {_escaped(verdict.scenario) or 'unknown'}, exit code {int(verdict.exit_code)}.",
        "",
    ]
    lines += ["| check | status | summary |", "|---|---|---|"]
    lines += [f"| {answer.check.id} | {_word(answer.finding.status)} | {_escaped(answer.finding.summary)} |" for answer in verdict.answers]
    for answer in (*verdict.of(Status.FAIL), *verdict.of(Status.UNKNOWN)):
        lines += ["", f"## {answer.check.id}: {_word(answer.finding.status)}", "", f"{answer.check.question}", ""]
        lines += [f"- {_escaped(line)}" for line in (answer.finding.summary, *answer.finding.evidence)]
    lines += ["", "## Requests", "", "| stage | " + " | ".join(verdict.counts) + " |", "|---" * (len(verdict.counts) + 1) + "|"]
    stages = {**verdict.by_stage, "all": verdict.counts}
    lines += [f"| {_escaped(name)} | " + " | ".join(map(str, counts.values())) + " |" for name, counts in stages.items()]
    lines += _facts(verdict)
    lines += ["", "## What this run shows", "", *(f"- {_escaped(claim)}" for claim in verdict.claims())]
    lines += ["", "## What it does not", "", *(f"- {_escaped(claim)}" for claim in verdict.not_claimed())]
    return "\n".join(lines) + "\n"


def junit(verdict: Verdict) -> bytes:
    """The bytes of junit.xml: a case for each check; fail is a failure, unknown an error, not applicable is skipped."""
    suite = ElementTree.Element("testsuite", name=f"gate {plain(verdict.scenario)}".strip(), tests=str(len(verdict.answers)))
    for tag, status in (("failures", Status.FAIL), ("errors", Status.UNKNOWN), ("skipped", Status.NOT_APPLICABLE)):
        suite.set(tag, str(len(verdict.of(status))))
    for answer in verdict.answers:
        family, _, name = answer.check.id.partition(".")
        case = ElementTree.SubElement(suite, "testcase", classname=f"gate.{family}", name=name)
        tag_of = {Status.FAIL: "failure", Status.UNKNOWN: "error", Status.NOT_APPLICABLE: "skipped"}.get(answer.finding.status)
        if tag_of is not None:
            ElementTree.SubElement(case, tag_of, message=plain(answer.finding.summary)).text = "\n".join(
                map(plain, answer.finding.evidence)
            )
    ElementTree.indent(suite)
    text: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def plain(text: str) -> str:
    """Text in which nothing moves a cursor, breaks a line or cannot be encoded: everything unprintable is spelt out."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _escaped(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", html.escape(plain(text), quote=False))


def _facts(verdict: Verdict) -> list[str]:
    rest = verdict.baseline
    lines = ["", "## Server", ""]
    lines += [f"- terminal reasons: {_counted(verdict.terminal_reasons)}", f"- traces: {_counted(verdict.trace_coverage)}"]
    lines += [f"- at rest: active {_number(rest.active)}, pending {_number(rest.pending)}"]
    return lines + [f"- at rest by {_escaped(name)}: {_escaped(said)}" for name, said in rest.witnesses.items()]


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{_escaped(name)} {count}" for name, count in counts.items()) or "none"


def _number(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def _rows(answer: Answer, colour: bool) -> list[str]:
    finding = answer.finding
    status = _painted(finding.status, f"{_word(finding.status):7}", colour)
    lines = [f"  {status} {answer.check.id}: {plain(finding.summary)}"]
    lines += [f"          {plain(line)[:200]}" for line in finding.evidence[:_LINES_SHOWN]]
    rest = len(finding.evidence) - _LINES_SHOWN
    return lines + ([f"          ({rest} more in verdict.json)"] if rest > 0 else [])


def _painted(status: Status, text: str, colour: bool) -> str:
    return f"{_COLOURS[status]}{text}{_RESET}" if colour else text


def _word(status: Status) -> str:
    return str(status).replace("_", " ")


def _put(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.part")
    beside.write_bytes(content)
    beside.replace(path)


def _put_parquet(run_dir: Path, evidence: Evidence) -> None:
    for name, frame in (("requests", evidence.requests), ("traces", evidence.trace_frame)):
        beside = run_dir / f".{name}.parquet.part"
        frame.to_parquet(beside, index=False)
        beside.replace(run_dir / f"{name}.parquet")
