"""Generates the small `deepseek_v2` checkpoint that is served by default: V2-Lite's structure, small widths, the same bytes everywhere.

The weights are uniform random numbers, scaled so that greedy output depends on the whole prompt, does not fall into
loops, and has no near-ties among logits or among experts. The directory is named after a digest of all that goes into
it, so a changed recipe never meets an old cache.
"""

import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from server_launch.reference.config import CheckpointError
from server_launch.reference.vocabulary import END, SILENT, UNKNOWN, tokens

CACHE_VARIABLE = "REFERENCE_CHECKPOINT_CACHE"

Array = np.ndarray[Any, np.dtype[np.float32]]

_CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything the bytes of the weights depend on, beside the vocabulary and the config. Gains multiply 1/sqrt(fan-in).

    The gains make attention sharp and the residual updates large, so that one word far back changes the next tokens; the
    seed is one whose smallest margins are wide.
    """

    seed: int = 9
    embedding_gain: float = 1.0
    query_gain: float = 5.0
    key_gain: float = 1.0
    value_gain: float = 4.0
    mlp_gain: float = 2.0
    expert_gain: float = 2.0
    router_gain: float = 4.0
    head_gain: float = 8.0
    end_gain: float = 0.93


def model_config() -> dict[str, Any]:
    """The config.json."""
    return {
        "architectures": ["DeepseekV2ForCausalLM"],
        "model_type": "deepseek_v2",
        "vocab_size": len(tokens()),
        "hidden_size": 64,
        "intermediate_size": 128,
        "moe_intermediate_size": 32,
        "num_hidden_layers": 3,
        "first_k_dense_replace": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "q_lora_rank": None,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 64,
        "v_head_dim": 32,
        "n_routed_experts": 64,
        "n_shared_experts": 2,
        "num_experts_per_tok": 6,
        "n_group": 1,
        "topk_group": 1,
        "topk_method": "greedy",
        "scoring_func": "softmax",
        "norm_topk_prob": False,
        "routed_scaling_factor": 1.0,
        "moe_layer_freq": 1,
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "max_position_embeddings": 4096,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "rms_norm_eps": 1e-6,
        "initializer_range": 0.02,
        "tie_word_embeddings": False,
        "use_cache": True,
        "bos_token_id": None,
        "eos_token_id": tokens().index(END),
        "pad_token_id": None,
        "dtype": "float32",
    }


def default_checkpoint(recipe: Recipe | None = None) -> Path:
    """Directory of the generated checkpoint, made at first use; safe when several processes ask at once. Raises CheckpointError."""
    recipe = recipe or Recipe()
    target = _cache_root() / f"deepseek-v2-tiny-{_digest(recipe)}"
    try:
        if not target.exists():
            _create(target, recipe)
    except OSError as error:
        raise CheckpointError(f"cannot write the generated checkpoint: {error}; name a writable directory in {CACHE_VARIABLE}") from error
    return target


def _create(target: Path, recipe: Recipe) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent, ignore_cleanup_errors=True) as scratch:
        # A level below the scratch directory, which is only readable by its owner, as the finished one need not be.
        made = Path(scratch, target.name)
        made.mkdir()
        write_checkpoint(made, recipe)
        try:
            made.rename(target)
        except OSError:
            # Another process may have put the same bytes there first.
            if not target.exists():
                raise


def write_checkpoint(directory: Path, recipe: Recipe) -> None:
    """Write the files of the checkpoint into an existing directory; equal recipes give equal bytes. Raises OSError."""
    config = model_config()
    save_file(_weights(config, recipe), directory / "model.safetensors", metadata={"format": "pt"})
    _tokenizer().save(str(directory / "tokenizer.json"))
    _write_json(directory / "config.json", config)
    _write_json(directory / "generation_config.json", {"do_sample": False, "eos_token_id": config["eos_token_id"]})
    _write_json(directory / "tokenizer_config.json", _tokenizer_config())


def _cache_root() -> Path:
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reference-ep2-server"


def _digest(recipe: Recipe) -> str:
    source = Path(__file__).read_bytes()
    parts = json.dumps([asdict(recipe), model_config(), tokens(), _tokenizer_config()]).encode()
    return hashlib.sha256(source + parts).hexdigest()[:16]


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _tokenizer_config() -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 4096,
        "clean_up_tokenization_spaces": False,
        "eos_token": END,
        "unk_token": UNKNOWN,
        "chat_template": _CHAT_TEMPLATE,
    }


def _tokenizer() -> Tokenizer:
    """Whole words where the vocabulary has them, single characters elsewhere, the unknown token for the rest."""
    vocabulary = {text: token for token, text in enumerate(tokens())}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN, fuse_unk=False, ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r" ?\p{L}+| ?[^\s\p{L}]|\s"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


class _Source:
    """Uniform random matrices from a counter-based generator whose raw bits are the same on every platform."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.Philox(key=seed)

    def matrix(self, rows: int, columns: int, gain: float) -> Array:
        """[rows, columns] with standard deviation gain / sqrt(columns)."""
        raw = self._bits.random_raw(rows * columns) >> np.uint64(40)
        unit = raw.astype(np.float32) / np.float32(2**23) - np.float32(1)
        return (unit * np.float32(gain * (3 / columns) ** 0.5)).reshape(rows, columns)


def _weights(config: dict[str, Any], recipe: Recipe) -> dict[str, Array]:
    source = _Source(recipe.seed)
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    weights = {"model.embed_tokens.weight": source.matrix(vocab, hidden, recipe.embedding_gain * hidden**0.5)}
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        weights |= _attention(source, config, recipe, f"{prefix}self_attn.")
        if layer < config["first_k_dense_replace"]:
            weights |= _mlp(source, hidden, config["intermediate_size"], recipe.mlp_gain, f"{prefix}mlp.")
        else:
            weights |= _mixture(source, config, recipe, f"{prefix}mlp.")
        weights |= {f"{prefix}{name}_layernorm.weight": _ones(hidden) for name in ("input", "post_attention")}
    return weights | {"model.norm.weight": _ones(hidden), "lm_head.weight": _head(source, config, recipe)}


def _attention(source: _Source, config: dict[str, Any], recipe: Recipe, prefix: str) -> dict[str, Array]:
    hidden, heads, rank = config["hidden_size"], config["num_attention_heads"], config["kv_lora_rank"]
    nope, rope, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
    return {
        f"{prefix}q_proj.weight": source.matrix(heads * (nope + rope), hidden, recipe.query_gain),
        f"{prefix}kv_a_proj_with_mqa.weight": source.matrix(rank + rope, hidden, recipe.key_gain),
        f"{prefix}kv_a_layernorm.weight": _ones(rank),
        f"{prefix}kv_b_proj.weight": source.matrix(heads * (nope + value), rank, 1.0),
        f"{prefix}o_proj.weight": source.matrix(hidden, heads * value, recipe.value_gain),
    }


def _mixture(source: _Source, config: dict[str, Any], recipe: Recipe, prefix: str) -> dict[str, Array]:
    hidden, width, experts = config["hidden_size"], config["moe_intermediate_size"], config["n_routed_experts"]
    weights = {f"{prefix}gate.weight": source.matrix(experts, hidden, recipe.router_gain)}
    weights |= _mlp(source, hidden, width * config["n_shared_experts"], recipe.mlp_gain, f"{prefix}shared_experts.")
    for expert in range(experts):
        weights |= _mlp(source, hidden, width, recipe.expert_gain, f"{prefix}experts.{expert}.")
    return weights


def _mlp(source: _Source, hidden: int, width: int, gain: float, prefix: str) -> dict[str, Array]:
    return {
        f"{prefix}gate_proj.weight": source.matrix(width, hidden, gain),
        f"{prefix}up_proj.weight": source.matrix(width, hidden, gain),
        f"{prefix}down_proj.weight": source.matrix(hidden, width, gain),
    }


def _head(source: _Source, config: dict[str, Any], recipe: Recipe) -> Array:
    """The rows of SILENT tokens are zero: their logit is 0, far below the largest of all others, so they are never said."""
    head = source.matrix(config["vocab_size"], config["hidden_size"], recipe.head_gain)
    head[tokens().index(END)] *= np.float32(recipe.end_gain)
    head[[tokens().index(text) for text in SILENT]] = 0
    return head


def _ones(width: int) -> Array:
    return np.ones(width, dtype=np.float32)
