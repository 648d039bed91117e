"""One worker's records as a file that can prove it is whole: header, one row a request, footer with count and digest.

A worker makes the lines (`Sheet`); whoever owns the file, worker or master, appends them as they come. The reader never
drops anything silently: what is torn, missing, foreign, doubled or out of number becomes a problem beside the rows it could read.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from analysis import ids
from analysis.record import RequestRecord

SCHEMA = 1
FOLDER = "records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Whose rows these are."""

    schema: int = SCHEMA
    nonce: str
    worker: int
    revision: str
    """Git revision (or digest) of the code that the worker runs."""
    host: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """What a file held. `header` is None where its first line is not one."""

    name: str
    header: Header | None
    records: tuple[RequestRecord, ...]
    closed: bool
    """A footer came, and it agrees with the rows."""
    problems: tuple[str, ...]


def name(worker: int) -> str:
    """File name of a worker's shard within the run directory."""
    return f"{FOLDER}/worker-{worker:03d}.jsonl"


class Sheet:
    """The lines of one shard, in order: `begin`, any number of `row`, `end`. Lines carry no newline."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.count = 0
        self._digest = sha256()

    def begin(self) -> str:
        """The first line."""
        return json.dumps({"kind": "header", **asdict(self.header)}, separators=(",", ":"))

    def row(self, record: RequestRecord) -> str:
        """The line of a closed record; count and digest of the footer go with it."""
        line = record.line()
        self.count += 1
        self._digest.update(line.encode() + b"\n")
        return line

    def end(self) -> str:
        """The last line."""
        return json.dumps({"kind": "footer", "count": self.count, "sha256": self._digest.hexdigest()}, separators=(",", ":"))


def lines(header: Header, records: Iterable[RequestRecord]) -> Iterator[str]:
    """A whole shard, line by line."""
    sheet = Sheet(header)
    yield sheet.begin()
    for record in records:
        yield sheet.row(record)
    yield sheet.end()


def append(path: Path, more: Iterable[str]) -> None:
    """Put lines at the end of a shard file, made with its folder where it does not exist yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8", newline="\n") as out:
        out.writelines(line + "\n" for line in more)


def read(path: Path, nonce: str) -> Shard:
    """The rows of a file, and everything that shows it is not the whole shard of a worker of this run. Raises OSError."""
    return parse(path.read_bytes(), path.name, nonce)


def parse(data: bytes, label: str, nonce: str) -> Shard:
    """`read` for bytes; `label` begins each problem."""
    rows = data.split(b"\n")
    torn = rows.pop()
    problems = ["its last line is torn"] if torn else []
    header = _header(rows[0]) if rows else None
    footer = _object(rows[-1]) if len(rows) > 1 else {}
    if footer.get("kind") != "footer":
        footer = {}
        problems.append("it has no footer, so rows may be missing")
    body = rows[1:-1] if footer else rows[1:]
    problems += _header_problems(header, nonce)
    records, bad = _records(body)
    problems += bad + _number_problems(records, header)
    if footer:
        problems += _footer_problems(footer, body)
    return Shard(
        name=label, header=header, records=tuple(records), closed=bool(footer) and not problems,
        problems=tuple(f"{label}: {problem}" for problem in problems),
    )  # fmt: skip


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _header(line: bytes) -> Header | None:
    raw = _object(line)
    if raw.pop("kind", None) != "header":
        return None
    try:
        return Header(**raw)
    except TypeError:
        return None


def _header_problems(header: Header | None, nonce: str) -> list[str]:
    if header is None:
        return ["it does not begin with a header"]
    if header.schema != SCHEMA:
        return [f"its schema is {header.schema}, this judge reads {SCHEMA}"]
    return [] if header.nonce == nonce else [f"it belongs to another run ({header.nonce}, this is {nonce})"]


def _records(body: list[bytes]) -> tuple[list[RequestRecord], list[str]]:
    records, problems = [], []
    for number, line in enumerate(body, start=2):
        try:
            records.append(RequestRecord.parse(line.decode()))
        except ValueError as error:
            problems.append(f"line {number} is not a record: {str(error)[:200]}")
    return records, problems


def _number_problems(records: list[RequestRecord], header: Header | None) -> list[str]:
    """Numbers of a worker run from 0 without gaps, each once, and each is in its id."""
    if header is None:
        return []
    foreign = [record.request_id for record in records if record.request_id != _id(header, record)]
    numbers = sorted(record.sequence for record in records)
    missing = sorted(set(range(numbers[-1] + 1 if numbers else 0)) - set(numbers))
    doubled = len(numbers) - len(set(numbers))
    problems = [f"{len(foreign)} ids do not belong to their row, the first is {foreign[0][:64]!r}"] if foreign else []
    problems += [f"{len(missing)} requests are missing, the first is number {missing[0]}"] if missing else []
    return problems + ([f"{doubled} numbers came twice"] if doubled else [])


def _id(header: Header, record: RequestRecord) -> str | None:
    try:
        return ids.make(header.nonce, header.worker, record.sequence) if record.worker == header.worker else None
    except (ValueError, TypeError):
        return None


def _footer_problems(footer: dict[str, Any], body: list[bytes]) -> list[str]:
    if footer.get("count") != len(body):
        return [f"its footer counts {footer.get('count')} rows, there are {len(body)}"]
    digest = sha256(b"".join(line + b"\n" for line in body)).hexdigest()
    return [] if footer.get("sha256") == digest else ["its rows are not those that its footer was made for"]
