"""Whether a parameter that was accepted was honoured: one pure function a proof, over the finished record.

A proof looks only at served requests; a refusal is the contract's business. It answers `ok`, one line that says what was
ignored, or None where this answer shows neither. A line that speaks of the reference compares texts, which only shows
something where the server's texts are the same in any company.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from analysis.record import RequestRecord
from analysis.vocabulary import Outcome
from faults.bad_requests import stop_word

OK = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of the request apart from its answer; `reference` is the solo answer to the prompt, None where there is none."""

    prompt: str
    reference: str | None


def one_token(record: RequestRecord, known: Known) -> str | None:
    """max_tokens 1 gives one token."""
    return _tokens(1, record, known)


def three_tokens(record: RequestRecord, known: Known) -> str | None:
    """max_tokens 3 gives at most three tokens, and three where the answer does not end by itself."""
    return _tokens(3, record, known)


def no_tokens(record: RequestRecord, _: Known) -> str | None:
    """max_tokens 0 gives no text."""
    return f"max_tokens 0 gave {record.text[:24]!r}" if record.text else OK


def usage_present(record: RequestRecord, _: Known) -> str | None:
    """include_usage brings usage."""
    return OK if record.completion_tokens is not None else "include_usage was asked for, and no usage came"


def usage_absent(record: RequestRecord, _: Known) -> str | None:
    """A stream that does not ask for usage gets none."""
    return OK if record.completion_tokens is None else "usage came in a stream that did not ask for it"


def same_text(record: RequestRecord, known: Known) -> str | None:
    """A parameter that means nothing here changes nothing."""
    if not known.reference:
        return None
    return OK if record.text.strip() == known.reference.strip() else f"the text differs from the reference: {record.text[:40]!r}"


def stopped(record: RequestRecord, known: Known) -> str | None:
    """A stop string from the reference ends the text before it."""
    word = stop_word(known.reference or "")
    if not word or known.reference is None:
        return None
    if word in record.text:
        return f"the text contains the stop string {word!r}"
    due = known.reference[: known.reference.find(word)].strip()
    if record.text.strip() != due:
        return f"stopped at {record.text[-40:]!r}, and the reference comes to {word!r} after {due[-40:]!r}"
    return OK


def two_choices(record: RequestRecord, _: Known) -> str | None:
    """n 2 gives two answers; of a whole body, each choice with text counts as one event."""
    return OK if record.token_events == 2 else f"n 2 gave {record.token_events} answers with text"


def echoed(record: RequestRecord, known: Known) -> str | None:
    """echo puts the prompt before the answer."""
    return OK if known.prompt.strip() in record.text else f"echo was asked for, and the text begins {record.text[:40]!r}"


def _tokens(count: int, record: RequestRecord, known: Known) -> str | None:
    if (record.completion_tokens or 0) > count or record.token_events > count:
        return f"max_tokens {count} gave {max(record.completion_tokens or 0, record.token_events)} tokens"
    if record.finish_reason == "length" and (record.completion_tokens or count) < count:
        return f"max_tokens {count} gave {record.completion_tokens}, and the finish reason is length"
    if not known.reference:
        return OK
    text = record.text.rstrip("\ufffd").strip()  # a limit may fall into the midst of a character
    same = bool(text) and known.reference.strip().startswith(text)
    return OK if same else f"max_tokens {count} gave {record.text!r}, and the reference begins {known.reference[:24]!r}"


PROOFS: Mapping[str, Callable[[RequestRecord, Known], str | None]] = {
    "one_token": one_token,
    "three_tokens": three_tokens,
    "no_tokens": no_tokens,
    "usage_present": usage_present,
    "usage_absent": usage_absent,
    "same_text": same_text,
    "stopped": stopped,
    "two_choices": two_choices,
    "echoed": echoed,
}


def proven(record: RequestRecord, proof: str | None, known: Known) -> RequestRecord:
    """The record with what its proof says, where one is due and the request was served."""
    if proof is None or record.outcome is not Outcome.COMPLETED:
        return record
    return replace(record, proof=PROOFS[proof](record, known))
