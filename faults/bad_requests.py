"""The catalogue of bad and corner-case requests: rows of data (bad_requests.toml), each with the contract of its answer.

A row starts from the legal body of a normal request and changes one thing. In its values stand for: `literal:TEXT` TEXT as it is,
without quotes (`literal:1e400`); `repeat:N:TEXT` N times TEXT; `list:N:TEXT` N such texts, numbered; `over:TEXT` TEXT so often that
no context holds it; `context` and `context+1` what the context holds, and one more; `{surrogate}` half of a surrogate pair;
`{prompt}` the prompt; `{reference}` a word of the solo answer to it.
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
from faults import legal

_FILE = Path(__file__).with_suffix(".toml")
_LITERAL = re.compile(rb'"literal:([^"\\]*)"')
SHORT_TOKENS = 4
"""max_tokens of a row whose answer is not looked at any closer."""
UNKNOWN_CONTEXT = 131_072
"""Stands for the context of a server that nobody stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """One row. `modes` are the values of `stream` it is sent with; `raw` and `raw_hex` replace the whole body."""

    name: str
    group: str
    contract: Contract
    why: str
    endpoints: tuple[Endpoint, ...] = (Endpoint.COMPLETIONS, Endpoint.CHAT)
    modes: tuple[bool, ...] = (False, True)
    traced: bool = False
    """The scheduler may see it, so that a trace is no surprise."""
    endless: bool = False
    """A server that serves it may do so until its context is full: its client has to be ready to leave."""
    set: dict[str, Any] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    raw: str | None = None
    raw_hex: str | None = None
    reshape: str | None = None
    """What is done to the finished JSON: a name in `SHAPES`."""
    method: str = "POST"
    path: str | None = None
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    proof: str | None = None
    """Name of the proof in faults/proofs.py that a served answer has to pass."""
    parameter: str | None = None
    """What the proof is about. It is only held against a server whose profile honours it; None is held against all."""

    @property
    def needs_context(self) -> bool:
        """It goes beyond the context, which somebody has to have stated."""
        return self.group == "context"


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
    """What goes on the wire; `max_tokens` is None where the row does not send a whole number."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    max_tokens: int | None


@cache
def catalogue() -> dict[str, BadRow]:
    """All rows by name."""
    return rows(_FILE.read_text(encoding="utf-8"))


def rows(text: str) -> dict[str, BadRow]:
    """The rows of a catalogue by name. Raises ValueError for one that cannot be."""
    found: dict[str, BadRow] = {}
    for group, entries in tomllib.loads(text).items():
        for name, raw in entries.items():
            if name in found:
                raise ValueError(f"{_FILE.name}: two rows are named {name}")
            found[name] = _row(group, name, raw)
    return found


def _row(group: str, name: str, raw: dict[str, Any]) -> BadRow:
    words: dict[str, Any] = {"contract": Contract(raw["contract"])}
    if "endpoints" in raw:
        words["endpoints"] = tuple(Endpoint(word) for word in raw["endpoints"])
    for each in ("modes", "drop"):
        if each in raw:
            words[each] = tuple(raw[each])
    if raw.get("reshape", "spaces") not in SHAPES:
        raise ValueError(f"{_FILE.name}, row {name}: no reshape {raw['reshape']!r}, known are {', '.join(SHAPES)}")
    try:
        return BadRow(**{**raw, **words, "group": group, "name": name})
    except TypeError as error:
        raise ValueError(f"{_FILE.name}, row {name}: {error}") from error


def build(row: BadRow, endpoint: Endpoint, stream: bool, context: Context) -> Built:
    """The request of a row."""
    body = _legal(row, endpoint, stream, context) | {name: _value(value, context) for name, value in row.set.items()}
    for name in row.drop:
        body.pop(name, None)
    asked = body.get("max_tokens")
    headers = {"Content-Type": row.content_type} if row.content_type else {}
    return Built(
        method=row.method,
        path=row.path or legal.PATHS[endpoint],
        headers=headers | row.headers,
        body=_encoded(row, body, context),
        max_tokens=asked if type(asked) is int else None,
    )


def stop_word(reference: str) -> str:
    """A word in the midst of an answer, for a row that stops there; empty for an answer of fewer than two words."""
    words = reference.split()
    return words[min(3, len(words) - 1)] if len(words) > 1 else ""


def _legal(row: BadRow, endpoint: Endpoint, stream: bool, context: Context) -> dict[str, Any]:
    max_tokens = context.max_tokens if row.proof is not None else min(context.max_tokens, SHORT_TOKENS)
    return legal.body(
        context.target, endpoint, context.prompt, stream=stream, max_tokens=max_tokens, request_id=context.request_id
    )


# --- values ---------------------------------------------------------------------------------------------------------------


def _value(value: Any, context: Context) -> Any:
    if isinstance(value, list):
        return [each for item in value for each in _items(item, context)]
    if isinstance(value, dict):
        return {name: _value(each, context) for name, each in value.items()}
    return _text(value, context) if isinstance(value, str) else value


def _items(item: Any, context: Context) -> list[Any]:
    """What an element of a list stands for: itself, or as many as it says."""
    if isinstance(item, str) and item.startswith("list:"):
        _, count, text = item.split(":", 2)
        return [f"{text}{number}" for number in range(int(count))]
    return [_value(item, context)]


def _text(value: str, context: Context) -> Any:
    holds = context.target.context_length or UNKNOWN_CONTEXT
    kind, _, rest = value.partition(":")
    if kind == "repeat":
        count, _, text = rest.partition(":")
        return text * int(count)
    if kind == "over":
        return rest * (holds // len(rest.split()) + len(rest))
    if value in ("context", "context+1"):
        return holds + (value == "context+1")
    # a server that gets no reference cannot come to the stop either: NUL is in no answer
    stop = stop_word(context.reference) or "\x00"
    return value.replace("{surrogate}", "\ud800").replace("{prompt}", context.prompt).replace("{reference}", stop)


# --- bytes ----------------------------------------------------------------------------------------------------------------


def _dump(body: dict[str, Any], ascii_only: bool = True) -> str:
    return json.dumps(body, ensure_ascii=ascii_only)


SHAPES = {
    "truncate": lambda body: _dump(body)[: len(_dump(body)) // 2].encode(),
    "trailing": lambda body: _dump(body).encode() + b"}garbage",
    "trailing_comma": lambda body: _dump(body)[:-1].encode() + b",}",
    "twice": lambda body: _dump(body).encode() * 2,
    "array": lambda body: b"[" + _dump(body).encode() + b"]",
    "duplicate": lambda body: _dump(body)[:-1].encode() + b', "max_tokens": 2}',
    "spaces": lambda body: b"\r\n \t" + json.dumps(body, indent="\t ").encode() + b"\r\n\r\n ",
    "deep": lambda body: _dump(body)[:-1].encode() + b', "metadata": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "byte_order_mark": lambda body: b"\xef\xbb\xbf" + _dump(body).encode(),
    "latin1": lambda body: _dump(body, ascii_only=False).encode("latin-1", "replace"),
    "utf16": lambda body: _dump(body).encode("utf-16"),
    "raw_unicode": lambda body: _dump(body, ascii_only=False).encode("utf-8"),
}
"""Ways in which the bytes differ from the plain JSON of a body."""


def _encoded(row: BadRow, body: dict[str, Any], context: Context) -> bytes:
    if row.raw_hex is not None:
        return bytes.fromhex(row.raw_hex)
    if row.raw is not None:
        return str(_text(row.raw, context)).encode("utf-8")
    if row.reshape is not None:
        return SHAPES[row.reshape](body)
    return _LITERAL.sub(rb"\1", _dump(body).encode())
