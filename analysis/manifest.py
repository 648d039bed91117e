"""`manifest.json`: what was run, and a digest of each file of evidence, so that evidence lost later is noticed.

The run writes it last, once every file of evidence is closed; the judge compares. Its other facts (versions, command,
options, server identity) are for people.
"""

import json
from collections.abc import Iterator
from hashlib import file_digest
from pathlib import Path
from typing import Any

NAME = "manifest.json"
PLAN = "plan.json"
OBSERVATIONS = "observations.jsonl"
SERVER_LOG = "server.log"
RECORDS = "records"


def evidence_files(run_dir: Path) -> Iterator[str]:
    """The names of all files of evidence in a run directory, relative to it, in a fixed order."""
    for name in (OBSERVATIONS, PLAN, SERVER_LOG):
        if (run_dir / name).is_file():
            yield name
    for path in sorted((run_dir / RECORDS).glob("*")):
        if path.is_file():
            yield f"{RECORDS}/{path.name}"


def seal(run_dir: Path, facts: dict[str, Any]) -> None:
    """Write the manifest: the given facts, and `files` with the SHA-256 of each file of evidence as it is now. Raises OSError."""
    files = {name: _digest(run_dir / name) for name in evidence_files(run_dir)}
    text = json.dumps({**facts, "files": files}, indent=1, sort_keys=True, ensure_ascii=True)
    (run_dir / NAME).write_text(text + "\n", encoding="utf-8")


def broken_seals(run_dir: Path, but: frozenset[str] = frozenset()) -> list[str]:
    """One line for each file that is not what the run sealed (names in `but` aside), or one if nothing was sealed."""
    try:
        sealed = json.loads((run_dir / NAME).read_text(encoding="utf-8"))["files"]
        expected = {str(name): str(digest) for name, digest in sealed.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return [f"{NAME} is missing or unreadable, so nothing shows that the evidence is whole"]
    problems = []
    for name in sorted((expected.keys() | set(evidence_files(run_dir))) - but):
        problem = _broken(run_dir / name, expected.get(name))
        problems += [f"{name}: {problem}"] if problem else []
    return problems


def _broken(path: Path, expected: str | None) -> str | None:
    if expected is None:
        return "it was not there when the run ended"
    try:
        return None if _digest(path) == expected else "it is not what it was when the run ended"
    except OSError:
        return "it is missing or cannot be read"


def _digest(path: Path) -> str:
    with path.open("rb") as data:
        return file_digest(data, "sha256").hexdigest()
