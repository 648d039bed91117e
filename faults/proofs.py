"""Whether a parameter that was accepted was honoured: one pure function a proof, over the finished record.

A proof looks only at served requests; a refusal is the contract's business. `ok`, or one line that says what was ignored.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from analysis.record import RequestRecord
from analysis.vocabulary import Outcome
from faults.bad_requests import BadRow

OK = "ok"


def one_token(record: RequestRecord, reference: str) -> str:
    """max_tokens 1 gives one token."""
    if record.completion_tokens not in (None, 1) or record.token_events > 1:
        return f"max_tokens 1 gave {record.completion_tokens or record.token_events} tokens"
    if not reference.startswith(record.text) or not record.text:
        return f"max_tokens 1 gave {record.text!r}, the reference begins {reference[:24]!r}"
    return OK


def no_tokens(record: RequestRecord, reference: str) -> str:
    """max_tokens 0 gives no text."""
    return f"max_tokens 0 gave {record.text[:24]!r}" if record.text else OK


def usage_present(record: RequestRecord, reference: str) -> str:
    """include_usage true brings usage."""
    return OK if record.completion_tokens is not None else "include_usage was asked for, and no usage came"


def same_text(record: RequestRecord, reference: str) -> str:
    """A parameter that means nothing here changes nothing."""
    return OK if not reference or record.text.strip() == reference.strip() else f"the text differs from the reference: {record.text[:40]!r}"


def stopped(record: RequestRecord, reference: str) -> str:
    """A stop string from the reference ends the text before it."""
    words = reference.split()
    word = words[min(3, len(words) - 1)] if words else ""
    if not word or word not in reference:
        return OK
    return OK if word not in record.text else f"the text contains the stop string {word!r}"


PROOFS: Mapping[str, Callable[[RequestRecord, str], str]] = {
    "one_token": one_token,
    "no_tokens": no_tokens,
    "usage_present": usage_present,
    "same_text": same_text,
    "stopped": stopped,
}


def proven(record: RequestRecord, row: BadRow, reference: str | None) -> RequestRecord:
    """The record with its proof, where the row has one and the request was served."""
    if row.proof is None or record.outcome is not Outcome.COMPLETED or reference is None:
        return record
    return replace(record, proof=PROOFS[row.proof](record, reference))
