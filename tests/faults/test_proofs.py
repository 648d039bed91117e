"""A proof says ok for an answer that honours its parameter, what was ignored for one that does not, and nothing where neither shows."""

import dataclasses

import pytest

from analysis.record import RequestRecord
from analysis.vocabulary import Endpoint, Outcome, Role
from faults import proofs
from faults.proofs import Known, proven

REFERENCE = " one two three four five six"


def record(text: str, **words: object) -> RequestRecord:
    facts: dict[str, object] = {
        "request_id": "r", "worker": 0, "sequence": 0, "stage": "bad_requests", "group": "catalogue", "item": 0, "role": Role.BAD,
        "endpoint": Endpoint.COMPLETIONS, "stream": True, "prompt": "short_1", "max_tokens": None, "fault": "none", "row": "any",
        "started_unix_s": 0.0, "outcome": Outcome.COMPLETED, "text": text, "token_events": len(text.split()), "finish_reason": "length",
    }  # fmt: skip
    return RequestRecord(**facts | words)  # type: ignore[arg-type]


def said(proof: str, text: str, words: dict[str, object] | None = None, reference: str | None = REFERENCE) -> str | None:
    words = dict(words or {})
    reference = words.pop("reference", reference)  # type: ignore[assignment]
    return proven(record(text, **words), proof, Known(prompt="Say it", reference=reference)).proof


HONOURED = [
    ("one_token", " one", {"completion_tokens": 1}),
    ("one_token", "one", {}),
    ("one_token", "", {"finish_reason": "stop", "completion_tokens": 1, "reference": None}),
    ("one_token", " o\ufffd", {}),
    ("three_tokens", " one two three", {"completion_tokens": 3, "token_events": 1}),
    ("three_tokens", " one", {"completion_tokens": 1, "finish_reason": "stop"}),
    ("three_tokens", " other words altogether", {"reference": None}),
    ("no_tokens", "", {}),
    ("usage_present", "x", {"completion_tokens": 1}),
    ("usage_absent", "x", {}),
    ("same_text", REFERENCE.strip(), {}),
    ("stopped", " one two three", {"finish_reason": "stop"}),
    ("stopped", " one two three ", {"finish_reason": "stop"}),
    ("two_choices", "x y", {"token_events": 2}),
    ("echoed", "Say it one two", {}),
]


@pytest.mark.parametrize(("proof", "text", "words"), HONOURED)
def test_an_answer_that_honours_the_parameter_is_ok(proof: str, text: str, words: dict[str, object]) -> None:
    assert said(proof, text, words) == proofs.OK


IGNORED = [
    ("one_token", " one two", {}, "max_tokens 1 gave 2 tokens"),
    ("one_token", " one", {"completion_tokens": 5}, "max_tokens 1 gave 5 tokens"),
    ("one_token", " won", {}, "the reference begins"),
    ("one_token", "", {}, "the reference begins"),
    ("three_tokens", " one two three four", {}, "max_tokens 3 gave 4"),
    ("three_tokens", " one two", {"completion_tokens": 2}, "max_tokens 3 gave 2, and the finish reason is length"),
    ("no_tokens", " one", {}, "max_tokens 0 gave"),
    ("usage_present", "x", {}, "no usage came"),
    ("usage_absent", "x", {"completion_tokens": 1}, "did not ask for it"),
    ("same_text", " one two", {}, "differs from the reference"),
    ("stopped", REFERENCE, {}, "contains the stop string 'four'"),
    ("stopped", " one two three four", {}, "contains the stop string 'four'"),
    ("stopped", " one", {}, "the reference comes to 'four'"),
    ("stopped", " one two three fo", {}, "the reference comes to 'four'"),
    ("two_choices", "x", {"token_events": 1}, "n 2 gave 1"),
    ("echoed", " one two", {}, "echo was asked for"),
]


@pytest.mark.parametrize(("proof", "text", "words", "why"), IGNORED)
def test_an_answer_that_ignores_it_says_what_was_ignored(proof: str, text: str, words: dict[str, object], why: str) -> None:
    assert why in str(said(proof, text, words))


@pytest.mark.parametrize(("proof", "reference"), [("same_text", None), ("stopped", None), ("stopped", "word"), ("same_text", "")])
def test_without_a_reference_that_shows_it_nothing_is_said(proof: str, reference: str | None) -> None:
    assert said(proof, " one two", reference=reference) is None


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - {Outcome.COMPLETED}))
def test_only_what_was_served_is_looked_at(outcome: Outcome) -> None:
    refused = record(" one two", outcome=outcome)
    assert proven(refused, "one_token", Known(prompt="Say it", reference=REFERENCE)) is refused


def test_a_row_without_a_due_proof_keeps_its_record() -> None:
    served = record(" one two")
    assert proven(served, None, Known(prompt="Say it", reference=REFERENCE)) is served
    changed = proven(served, "one_token", Known(prompt="Say it", reference=REFERENCE))
    assert dataclasses.replace(changed, proof=None) == served
