"""The golden text of each prompt, and how the text of another request differs from it.

Greedy decoding makes equal input equal output. A request of the same length as its reference has to repeat it to the
letter; one that left early, or that asked for more or less, has to agree as far as both go.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from analysis.checks.requests import FAULT_FREE, completed
from analysis.evidence import Evidence
from analysis.record import RequestRecord
from analysis.vocabulary import Endpoint, Outcome, Role

HALF_CHARACTER = "\ufffd"
"""A server may show a character whose bytes are not all there yet in this way, at the end of a text only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goldens:
    """References by (prompt, endpoint, streamed)."""

    by_key: dict[tuple[str, Endpoint, bool], RequestRecord]

    def of(self, record: RequestRecord) -> RequestRecord | None:
        """The reference of the same input: in the same mode if there is one, else in the other."""
        same = self.by_key.get((record.prompt, record.endpoint, record.stream))
        return same or self.by_key.get((record.prompt, record.endpoint, not record.stream))


def goldens(evidence: Evidence) -> Goldens:
    """The first whole answer of each prompt, endpoint and mode that was made alone on the server."""
    found: dict[tuple[str, Endpoint, bool], RequestRecord] = {}
    for record in completed(evidence.records):
        if record.role is Role.REFERENCE:
            found.setdefault((record.prompt, record.endpoint, record.stream), record)
    return Goldens(by_key=found)


def difference(record: RequestRecord, reference: RequestRecord) -> str | None:
    """How the text of a record departs from its reference; None where it does not."""
    got, want = record.text, reference.text
    if record.stream is not reference.stream:
        got, want = got.strip(), want.strip()
    if record.outcome is Outcome.COMPLETED and record.max_tokens == reference.max_tokens:
        if got == want and record.finish_reason != reference.finish_reason:
            return f"finish reason {record.finish_reason!r} for {reference.finish_reason!r}"
        return None if got == want else _first_difference(got, want)
    if len(got.rstrip(HALF_CHARACTER)) > len(want) and reference.finish_reason == "stop":
        return f"went on after the reference had stopped at {len(want)} characters"
    return (_lost_end(record, reference) or None) if agree(got, want) else _first_difference(got, want)


def _lost_end(record: RequestRecord, reference: RequestRecord) -> str:
    """A whole answer with less text than its own number of tokens made in the reference; empty where nothing is missing.

    Only where the reference gave an event with text to every token, so that the text of its first n tokens is known.
    """
    count, known = record.completion_tokens or record.max_tokens, reference.completion_tokens or reference.max_tokens
    whole = record.outcome is Outcome.COMPLETED and record.finish_reason == reference.finish_reason == "length"
    if not whole or not count or len(reference.token_chars) != known or count >= known or record.stream is not reference.stream:
        return ""
    due = reference.text[: reference.token_chars[count - 1]].rstrip(HALF_CHARACTER)
    return "" if len(record.text) >= len(due) else f"{count} tokens have the text {record.text[-40:]!r} for {due[-40:]!r}, at the end"


def agree(one: str, other: str) -> bool:
    """True when one text begins with the other."""
    short, long = sorted((one, other), key=len)
    return long.startswith(short) or long.startswith(short.rstrip(HALF_CHARACTER))


def differences(evidence: Evidence, records: Iterable[RequestRecord]) -> tuple[list[tuple[RequestRecord, str]], int]:
    """Records that depart from their reference, with how; and the number of records that had one to be compared with."""
    known = goldens(evidence)
    found, count = [], 0
    for record in records:
        reference = known.of(record)
        if reference is None or not comparable(record):
            continue
        count += 1
        how = difference(record, reference)
        if how is not None:
            found.append((record, how))
    return found, count


def comparable(record: RequestRecord) -> bool:
    """True for a text that has to follow its reference: plain greedy requests, whole or left, that got any text or had to."""
    if record.role is Role.BAD:
        return False
    return record.outcome is Outcome.COMPLETED or (
        record.outcome in (Outcome.CANCELLED, Outcome.TIMEOUT, Outcome.FAILED) and bool(record.text)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exactness:
    """Whether texts made in company may be compared with texts made alone."""

    exact: bool
    why: str


def exactness(evidence: Evidence) -> Exactness:
    """By the server's own claim, or because fault-free load showed no difference in enough texts."""
    if evidence.plan.target.batch_invariant:
        return Exactness(exact=True, why="the server claims that a batch changes no text")
    control = [record for record in evidence.records if record.role is Role.CONTROL]
    found, count = differences(evidence, control)
    if not found and count >= evidence.limit("invariance_texts"):
        return Exactness(exact=True, why=f"fault-free load changed none of {count} texts")
    return Exactness(exact=False, why=f"the server does not claim it, and fault-free load changed {len(found)} of {count} texts")


def fault_free_texts(evidence: Evidence, prompt: str, endpoint: Endpoint) -> set[str]:
    """All texts of a prompt that were seen before anybody misbehaved."""
    return {
        record.text
        for record in completed(evidence.records)
        if record.role in FAULT_FREE and (record.prompt, record.endpoint) == (prompt, endpoint)
    }


def _first_difference(got: str, want: str) -> str:
    at = next((index for index, (one, other) in enumerate(zip(got, want, strict=False)) if one != other), min(len(got), len(want)))
    return f"differs at character {at}: {got[at : at + 24]!r} for {want[at : at + 24]!r}"
