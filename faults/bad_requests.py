"""The catalogue of bad and corner-case requests: rows of data (bad_requests.toml), each with the contract of its answer.

A row starts from the legal body of a normal request and changes one thing. In its values `literal:TEXT` stands for TEXT
as it is, without quotes (`literal:1e400`), `repeat:N:TEXT` for N times TEXT, `context+1` for one more than the context holds,
`{surrogate}` for half of a surrogate pair, and `{reference}` for a word of the solo answer to the same prompt.
"""

import json
import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from analysis.plan import Target
from analysis.vocabulary import Contract, Endpoint

_FILE = Path(__file__).with_suffix(".toml")
_PATHS = {Endpoint.COMPLETIONS: "/v1/completions", Endpoint.CHAT: "/v1/chat/completions", Endpoint.OTHER: ""}
_LITERAL = re.compile(rb'"literal:([^"\\]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """One row. `modes` are the values of `stream` it is sent with; `raw` replaces the whole body."""

    name: str
    contract: Contract
    why: str
    endpoints: tuple[Endpoint, ...] = (Endpoint.COMPLETIONS, Endpoint.CHAT)
    modes: tuple[bool, ...] = (False, True)
    traced: bool = False
    set: dict[str, Any] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    raw: str | None = None
    raw_hex: str | None = None
    reshape: str | None = None
    """What is done to the finished JSON: `truncate`, `trailing`, `array`, `duplicate`, `spaces`, `latin1`, `deep`."""
    method: str = "POST"
    path: str | None = None
    content_type: str = "application/json"
    proof: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a row is built from."""

    target: Target
    prompt: str
    request_id: str
    max_tokens: int
    reference: str
    """The solo answer to the prompt, empty where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What goes on the wire; `max_tokens` only where the row left it alone."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    max_tokens: int | None


@cache
def catalogue() -> dict[str, BadRow]:
    """All rows by name. Raises ValueError for a row that cannot be."""
    rows: dict[str, BadRow] = {}
    for raw in tomllib.loads(_FILE.read_text(encoding="utf-8"))["row"]:
        row = _row(raw)
        if row.name in rows:
            raise ValueError(f"{_FILE.name}: two rows are named {row.name}")
        rows[row.name] = row
    return rows


def _row(raw: dict[str, Any]) -> BadRow:
    words: dict[str, Any] = {"contract": Contract(raw["contract"])}
    if "endpoints" in raw:
        words["endpoints"] = tuple(Endpoint(word) for word in raw["endpoints"])
    for name in ("modes", "drop"):
        if name in raw:
            words[name] = tuple(raw[name])
    try:
        return BadRow(**{**raw, **words})
    except TypeError as error:
        raise ValueError(f"{_FILE.name}, row {raw.get('name')}: {error}") from error


def build(row: BadRow, endpoint: Endpoint, stream: bool, context: Context) -> Built:
    """The request of a row."""
    body = _legal(endpoint, stream, context)
    changes = {name: _value(value, context) for name, value in row.set.items()}
    body |= changes
    for name in row.drop:
        body.pop(name, None)
    data = _encoded(row, body)
    kept = body.get("max_tokens") if "max_tokens" not in row.set else None
    if type(changes.get("max_tokens")) is int:
        kept = changes["max_tokens"]
    headers = {"Content-Type": row.content_type} if row.content_type else {}
    return Built(
        method=row.method, path=row.path or _PATHS[endpoint], headers=headers, body=data, max_tokens=kept if isinstance(kept, int) else None
    )


def _legal(endpoint: Endpoint, stream: bool, context: Context) -> dict[str, Any]:
    body: dict[str, Any] = {"model": context.target.model}
    if endpoint is Endpoint.CHAT:
        body["messages"] = [{"role": "user", "content": context.prompt}]
    else:
        body["prompt"] = context.prompt
    body |= {"max_tokens": context.max_tokens, "temperature": 0, "stream": stream}
    if context.target.ignore_eos:
        body["ignore_eos"] = True
    if context.target.request_id_in_body:
        body["request_id"] = context.request_id
    return body


def _value(value: Any, context: Context) -> Any:
    if isinstance(value, list):
        return [_value(each, context) for each in value]
    if isinstance(value, dict):
        return {name: _value(each, context) for name, each in value.items()}
    if not isinstance(value, str):
        return value
    if value.startswith("repeat:"):
        _, count, text = value.split(":", 2)
        return text * int(count)
    if value == "context+1":
        return (context.target.context_length or 131_072) + 1
    words = context.reference.split()
    value = value.replace("{surrogate}", "\ud800")
    return value.replace("{reference}", words[min(3, len(words) - 1)] if words else "\x00")


def _encoded(row: BadRow, body: dict[str, Any]) -> bytes:
    if row.raw_hex is not None:
        return bytes.fromhex(row.raw_hex)
    if row.raw is not None:
        return row.raw.encode("utf-8")
    data = json.dumps(body, ensure_ascii=row.reshape != "latin1").encode("latin-1" if row.reshape == "latin1" else "utf-8")
    data = _LITERAL.sub(rb"\1", data)
    return _reshaped(row.reshape, data)


def _reshaped(how: str | None, data: bytes) -> bytes:
    shapes = {
        "truncate": lambda: data[: len(data) // 2],
        "trailing": lambda: data + b"}garbage",
        "array": lambda: b"[" + data + b"]",
        "duplicate": lambda: data[:-1] + b', "max_tokens": 2}',
        "spaces": lambda: b"\r\n \t" + data.replace(b", ", b" ,\n\t") + b"\r\n\r\n ",
        "deep": lambda: data[:-1] + b', "metadata": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    }
    return shapes.get(how or "", lambda: data)()
