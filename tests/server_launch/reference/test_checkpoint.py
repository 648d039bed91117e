"""The generated checkpoint: the same bytes for everybody, tokens that are text, and greedy output that a test can rely on."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_launch.reference import checkpoint
from server_launch.reference.checkpoint import Recipe, default_checkpoint, write_checkpoint
from server_launch.reference.config import CheckpointError, read_config
from server_launch.reference.exactness import CASES
from server_launch.reference.tokenizer import CheckpointTokenizer
from server_launch.reference.vocabulary import SILENT, UNKNOWN, tokens
from tests.server_launch.reference.solo import Solo

PROMPTS = [
    "Hello",
    "Once upon a time there was",
    "1 2 3 4 5 6 7 8 9",
    "漢字 and 日本",
    "the the the the",
    "Why is the sky blue?",
    "x",
    "user: Hi\n",
]
FILES = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]


@pytest.fixture(scope="module")
def tokenizer() -> CheckpointTokenizer:
    return CheckpointTokenizer(default_checkpoint())


@pytest.fixture(scope="module")
def solo() -> Solo:
    return Solo(default_checkpoint())


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_equal_recipes_give_equal_bytes_and_seeds_matter(tmp_path: Path) -> None:
    for name, recipe in (("one", Recipe()), ("two", Recipe()), ("other", Recipe(seed=1))):
        (tmp_path / name).mkdir()
        write_checkpoint(tmp_path / name, recipe)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert contents(tmp_path / "one")["model.safetensors"] != contents(tmp_path / "other")["model.safetensors"]


def test_processes_that_race_for_an_empty_cache_agree(tmp_path: Path) -> None:
    program = f"import os; os.environ[{checkpoint.CACHE_VARIABLE!r}] = {str(tmp_path)!r}\n"
    program += "from server_launch.reference.checkpoint import default_checkpoint; print(default_checkpoint())"
    racers = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    printed = {racer.communicate()[0].strip() for racer in racers}
    assert [racer.returncode for racer in racers] == [0] * 4
    [made] = tmp_path.iterdir()
    assert printed == {str(made)}
    assert sorted(contents(made)) == [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_a_cache_that_cannot_be_written_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(checkpoint.CACHE_VARIABLE, str(tmp_path / "file" / "below"))
    with pytest.raises(CheckpointError, match=checkpoint.CACHE_VARIABLE) as caught:
        default_checkpoint()
    assert "\n" not in str(caught.value)


def test_every_token_is_text_and_encodes_to_itself(tokenizer: CheckpointTokenizer) -> None:
    for token, text in enumerate(tokens()):
        assert tokenizer.decode([token]) == text != ""
        assert text in SILENT or text.strip()
        assert tokenizer.encode(text) == [token]
    assert any(len(text.encode()) == 4 for text in tokens())


@given(st.text(st.characters(codec=None), max_size=40))
def test_any_text_is_encoded_and_what_the_vocabulary_has_comes_back(text: str) -> None:
    tokenizer = CheckpointTokenizer(default_checkpoint())
    ids = tokenizer.encode(text)
    known = set(tokens())
    assert tokenizer.decode(ids) == "".join(each if each in known else UNKNOWN for each in text.encode(errors="replace").decode())


@given(st.lists(st.integers(0, len(tokens()) - 1), max_size=30))
def test_single_tokens_concatenate_to_the_whole(ids: list[int]) -> None:
    tokenizer = CheckpointTokenizer(default_checkpoint())
    assert tokenizer.decode(ids) == "".join(tokenizer.decode([token]) for token in ids)


def test_chat_is_rendered_as_the_reference_tokenizer_does(tokenizer: CheckpointTokenizer) -> None:
    from transformers import AutoTokenizer

    turns = [("system", "Be kind."), ("user", "Hello 🙂"), ("assistant", "Hi"), ("user", "漢字?")]
    reference = AutoTokenizer.from_pretrained(default_checkpoint())
    expected = reference.apply_chat_template([{"role": r, "content": c} for r, c in turns], tokenize=False, add_generation_prompt=True)
    assert tokenizer.render_chat(turns) == expected
    assert tokenizer.encode(expected) == reference(expected, add_special_tokens=False).input_ids


def test_the_structure_is_that_of_v2_lite() -> None:
    config = read_config(default_checkpoint(), context_limit=4096)
    assert (config.kv_lora_rank, config.qk_rope_head_dim, config.q_lora_rank) == (512, 64, None)
    assert (config.routed_expert_count, config.experts_per_token, config.dense_layer_count) == (64, 6, 1)
    assert config.context_length == 4096


def test_committed_cases_have_no_near_ties(solo: Solo, tokenizer: CheckpointTokenizer) -> None:
    """Float32 moves these logits by less than 1e-4 and these router logits by less than 1e-5."""
    run = solo.generate([tokenizer.encode(prompt) for prompt in sorted({case.prompt for case in CASES})], 16)
    assert run.smallest_token_margin > 0.02
    assert run.smallest_expert_margin > 0.002


def test_greedy_output_does_not_loop_and_depends_on_the_prompt(solo: Solo, tokenizer: CheckpointTokenizer) -> None:
    run = solo.generate([tokenizer.encode(prompt) for prompt in PROMPTS], 200)
    grams = [[tuple(output[start : start + 4]) for start in range(197)] for output in run.tokens]
    assert all(len(set(each)) > 0.9 * len(each) for each in grams)
    assert len({gram for each in grams for gram in each}) > 0.95 * sum(map(len, grams))
    assert not {tokens().index(text) for text in SILENT} & {token for output in run.tokens for token in output}
    assert len({output[0] for output in run.tokens}) > len(run.tokens) / 2
    assert run.smallest_token_margin > 1e-3


def test_one_word_far_back_changes_what_comes_next(solo: Solo, tokenizer: CheckpointTokenizer) -> None:
    story = " and then the bird flew over the river to the mountain where it was cold" * 10
    run = solo.generate([tokenizer.encode(word + story) for word in ("Hello", "The", "Why", "def")], 16)
    assert len(set(map(tuple, run.tokens))) == 4
