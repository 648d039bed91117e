"""The two-rank engine gives what Hugging Face gives, token for token, and no row feels the company it is decoded in."""

from collections.abc import Iterator

import pytest

from server_launch.reference.build import build
from server_launch.reference.checkpoint import default_checkpoint
from server_launch.reference.engine import Cache, Engine, Tokenizer
from server_launch.reference.exactness import CASES, Case, engine_rows, reference_rows

PROMPTS = ["Hello", "The capital of France is", "x", "漢字 🙂", "Why is the sky blue?", "def quicksort", "1 2 3", "the river " * 60]
COUNT = 101  # the first token, then tens

pytestmark = pytest.mark.slow
Pair = tuple[Engine, Tokenizer]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    engine, tokenizer = build()
    yield engine, tokenizer
    assert engine.healthy()
    engine.close()


def alone(engine: Engine, prompt: list[int], count: int) -> list[int]:
    cache, token = engine.prefill(prompt)
    tokens = [token]
    while len(tokens) < count:
        tokens += engine.decode([cache], tokens[-1:])
    return tokens


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_committed_cases_are_exact(pair: Pair, case: Case) -> None:
    rows = engine_rows(case, *pair)
    assert len(rows) == case.batch_size
    assert rows == reference_rows(case, default_checkpoint(), pair[1])


def test_a_natural_stop_is_exact(pair: Pair) -> None:
    case = Case(id="stop", prompt="once", batch_size=1, ignore_eos=False, output_len=40)
    [row] = engine_rows(case, *pair)
    assert row.finish_reason == "stop"
    assert len(row.generated_token_ids) < case.output_len
    assert [row] == reference_rows(case, default_checkpoint(), pair[1])


def test_a_longer_text_is_exact(pair: Pair) -> None:
    case = Case(id="long", prompt="Once upon a time there was", batch_size=2, ignore_eos=True, output_len=100)
    assert engine_rows(case, *pair) == reference_rows(case, default_checkpoint(), pair[1])


def test_rows_that_come_and_go_give_what_each_gives_alone(pair: Pair) -> None:
    engine, tokenizer = pair
    prompts = [tokenizer.encode(prompt) for prompt in PROMPTS]
    rows: list[tuple[Cache, list[int]]] = []
    active: list[tuple[Cache, list[int]]] = []
    while active or len(rows) < len(prompts):
        if len(rows) < len(prompts):
            cache, token = engine.prefill(prompts[len(rows)])
            rows.append((cache, [token]))
        active = [row for row in rows if len(row[1]) < COUNT]
        for _ in range(10 if active else 0):
            step = engine.decode([cache for cache, _ in active], [tokens[-1] for _, tokens in active])
            for (_, tokens), token in zip(active, step, strict=True):
                tokens.append(token)
    assert [tokens for _, tokens in rows] == [alone(engine, prompt, COUNT) for prompt in prompts]
    assert [cache.length for cache, _ in rows] == [len(prompt) + COUNT - 1 for prompt in prompts]


def test_the_order_of_rows_does_not_matter(pair: Pair) -> None:
    engine, tokenizer = pair
    prompts = [tokenizer.encode(prompt) for prompt in PROMPTS[:4]]
    forward = [engine.prefill(prompt) for prompt in prompts]
    backward = [engine.prefill(prompt) for prompt in reversed(prompts)]
    step = engine.decode([cache for cache, _ in forward], [token for _, token in forward])
    assert step == engine.decode([cache for cache, _ in backward], [token for _, token in backward])[::-1]


def test_a_prompt_as_long_as_the_context(pair: Pair) -> None:
    engine, _ = pair
    prompt = [5 + number % 700 for number in range(engine.context_length - 1)]
    cache, token = engine.prefill(prompt)
    [following] = engine.decode([cache], [token])
    assert cache.length == engine.context_length
    assert {token, following} < set(range(engine.vocab_size))
