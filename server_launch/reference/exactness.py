"""The committed exactness cases, run by this engine and by Hugging Face `generate` on the same checkpoint directory, and compared.

    python -m server_launch.reference.exactness [CHECKPOINT_DIR]

prints one JSON line a case and ends with 0 if every row agrees in ids and text, 1 if not, 2 if the engine cannot start.
"""

import hashlib
import json
import struct
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from server_launch.reference.backends import BackendUnavailable
from server_launch.reference.build import build
from server_launch.reference.checkpoint import default_checkpoint
from server_launch.reference.config import CheckpointError
from server_launch.reference.engine import Engine, RankFailed, Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`batch_size` equal rows decoded together, greedy."""

    id: str
    prompt: str
    batch_size: int
    ignore_eos: bool
    output_len: int = 16


CASES = (
    *(Case(id=f"hello-{size}", prompt="Hello", batch_size=size, ignore_eos=True) for size in (1, 4, 8)),
    Case(id="capital-1", prompt="The capital of France is", batch_size=1, ignore_eos=False),
    Case(id="quicksort-1", prompt="def quicksort", batch_size=1, ignore_eos=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one row of a case generated. The digests are SHA-256, of the ids as little-endian u32 and of the UTF-8 text."""

    prompt_token_ids: tuple[int, ...]
    generated_token_ids: tuple[int, ...]
    generated_text: str
    token_sha256: str
    text_sha256: str
    finish_reason: str


def engine_rows(case: Case, engine: Engine, tokenizer: Tokenizer) -> list[Row]:
    """The rows by this engine. Raises RankFailed."""
    prompt = tokenizer.encode(case.prompt)
    started = [engine.prefill(prompt) for _ in range(case.batch_size)]
    caches, tokens = [cache for cache, _ in started], [token for _, token in started]
    steps = [tokens]
    for _ in range(case.output_len - 1):
        tokens = engine.decode(caches, tokens)
        steps.append(tokens)
    eos = None if case.ignore_eos else engine.eos_token_id
    return [_row(prompt, ids, eos, tokenizer) for ids in zip(*steps, strict=True)]


def reference_rows(case: Case, directory: Path, tokenizer: Tokenizer) -> list[Row]:
    """The rows by Hugging Face `generate` in float32, which must be installed."""
    import torch  # here, as the engine needs none of these
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    prompt = AutoTokenizer.from_pretrained(directory)(case.prompt, add_special_tokens=False).input_ids
    eos = None if case.ignore_eos else model.config.eos_token_id
    model.generation_config.eos_token_id = eos
    ids = torch.tensor([prompt] * case.batch_size)
    options = {"max_new_tokens": case.output_len, "do_sample": False, "pad_token_id": 0}
    rows = model.generate(ids, attention_mask=torch.ones_like(ids), **options)[:, len(prompt) :].tolist()
    return [_row(prompt, row, eos, tokenizer) for row in rows]


def _row(prompt: Sequence[int], ids: Sequence[int], eos: int | None, tokenizer: Tokenizer) -> Row:
    stopped = eos in ids
    kept = tuple(ids[: ids.index(eos) + 1]) if eos is not None and stopped else tuple(ids)
    text = tokenizer.decode(kept)
    return Row(
        prompt_token_ids=tuple(prompt),
        generated_token_ids=kept,
        generated_text=text,
        token_sha256=hashlib.sha256(struct.pack(f"<{len(kept)}I", *kept)).hexdigest(),
        text_sha256=hashlib.sha256(text.encode()).hexdigest(),
        finish_reason="stop" if stopped else "length",
    )


def main() -> int:
    """Run every case both ways; the exit code."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else default_checkpoint()
    try:
        engine, tokenizer = build(directory)
    except (BackendUnavailable, CheckpointError, RankFailed) as error:
        print(f"exactness: {error}", file=sys.stderr)
        return 2
    exact = True
    for case in CASES:
        rows, expected = engine_rows(case, engine, tokenizer), reference_rows(case, directory, tokenizer)
        exact = exact and rows == expected
        print(json.dumps({**asdict(case), "exact": rows == expected, "rows": [asdict(row) for row in rows]}, ensure_ascii=False))
    engine.close()
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(main())
