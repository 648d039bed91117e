"""Whether refusals carry an error that a client can read: OpenAI's shape, or any JSON with a sentence in it.

What a framework answers before any handler has seen the request may have any form. How much that is differs between
servers, so plain text is judged by what the same server does elsewhere: to the same row in another mode, and to other rows.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum, auto
from typing import Any

from analysis.checks.requests import ending
from analysis.record import RequestRecord
from analysis.vocabulary import Endpoint, Outcome

FREE_FORM = frozenset({404, 405, 406, 408, 411, 413, 414, 415, 417, 421, 426, 431})
"""Statuses that the HTTP layer gives by itself: the body is the framework's."""
CUT_CHARACTERS = 2_000
"""A body of this length was cut by our own limit, so that it cannot be parsed any more."""
MOSTLY = 0.8
"""From this share of readable rows on, a server answers in JSON as a rule. Rows that are no JSON are a quarter of the catalogue."""
FEW = 5
"""From so few rows no rule can be read."""


class Form(Enum):
    """What the body of a refusal is."""

    READABLE = auto()
    PLAIN = auto()
    """A sentence in plain text."""
    WRONG = auto()
    """Neither: a page, or nothing at all."""


def malformed(records: Iterable[RequestRecord]) -> list[str]:
    """Refusals whose error cannot be read, though this server should have written one that can."""
    forms = [(record, _form(record)) for record in records if record.outcome is Outcome.REJECTED and not _by_the_framework(record)]
    rows: dict[str | None, set[Form]] = defaultdict(set)
    for record, form in forms:
        rows[record.row].add(form)
    readable = sum(Form.READABLE in seen for seen in rows.values())
    by_rule = len(rows) >= FEW and (readable == 0 or readable >= MOSTLY * len(rows))
    return [
        f"{ending(record)}: the error cannot be read: {record.error_body[:80]!r}"
        for record, form in forms
        if form is Form.WRONG or (form is Form.PLAIN and (by_rule or Form.READABLE in rows[record.row]))
    ]


def _by_the_framework(record: RequestRecord) -> bool:
    return record.endpoint is Endpoint.OTHER or record.status in FREE_FORM


def _form(record: RequestRecord) -> Form:
    body = record.error_body.strip()
    if record.error_type is not None or _says_why(body):
        return Form.READABLE
    in_stream = record.status is not None and record.status < 300
    return Form.PLAIN if body and not in_stream and (record.content_type or "text/plain").startswith("text/plain") else Form.WRONG


def _says_why(body: str) -> bool:
    """True for JSON that carries a sentence somewhere under the usual names."""
    try:
        return _sentence(json.loads(body))
    except ValueError:
        return len(body) >= CUT_CHARACTERS and body.startswith("{")


def _sentence(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, dict):
        return any(_sentence(value[key]) for key in ("error", "message", "detail", "msg", "code") if key in value)
    return isinstance(value, list) and any(_sentence(each) for each in value)
