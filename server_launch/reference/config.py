"""What the engine needs to know from a `deepseek_v2` config.json, checked once, so that nothing is silently computed another way."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class CheckpointError(Exception):
    """The checkpoint directory cannot be served; the message says why in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeConfig:
    """Rotary embedding; the fields after `theta` matter for kind `yarn` only."""

    kind: str
    theta: float
    factor: float = 1.0
    original_context_length: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float = 0.0
    mscale_all_dim: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Shapes and constants of one checkpoint. The routed experts are split in halves: rank 0 the first, rank 1 the second."""

    vocab_size: int
    hidden_size: int
    layer_count: int
    dense_layer_count: int
    head_count: int
    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    routed_expert_count: int
    experts_per_token: int
    expert_group_count: int
    expert_groups_kept: int
    routed_scaling_factor: float
    rms_norm_eps: float
    context_length: int
    eos_token_id: int | None
    tied_embeddings: bool
    rope: RopeConfig

    @property
    def latent_width(self) -> int:
        """What the cache keeps of one position and layer: the compressed key-value, then the rotated key."""
        return self.kv_lora_rank + self.qk_rope_head_dim

    def experts_of_rank(self, rank: int) -> range:
        """Indices of the routed experts that `rank` (0 or 1) holds."""
        half = self.routed_expert_count // 2
        return range(rank * half, (rank + 1) * half)


# Anything else would be computed differently from what the checkpoint means.
_SUPPORTED: dict[str, tuple[object, ...]] = {
    "model_type": ("deepseek_v2",),
    "hidden_act": ("silu",),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "norm_topk_prob": (False,),
    "scoring_func": ("softmax",),
    "moe_layer_freq": (1,),
    "topk_method": ("greedy", "group_limited_greedy"),
}


def read_config(directory: Path, context_limit: int) -> ModelConfig:
    """Parse `directory`/config.json; the context is cut to `context_limit` tokens. Raises CheckpointError."""
    path = directory / "config.json"
    try:
        raw = json.loads(path.read_bytes())
        if not isinstance(raw, dict):
            raise ValueError("not a JSON object")
        _check(raw)
        return _parse(raw, context_limit)
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"cannot read {path}: {error}") from error
    except KeyError as error:
        raise CheckpointError(f"{path} lacks {error}") from error


def _check(raw: dict[str, Any]) -> None:
    for key, supported in _SUPPORTED.items():
        if raw.get(key, supported[0]) not in supported:
            raise CheckpointError(f"unsupported checkpoint: {key} is {raw[key]!r}, supported: {', '.join(map(repr, supported))}")
    if raw["n_routed_experts"] % 2:
        raise CheckpointError("unsupported checkpoint: n_routed_experts must be even to be split over two ranks")
    if raw.get("quantization_config"):
        raise CheckpointError("unsupported checkpoint: quantized weights")


def _parse(raw: dict[str, Any], context_limit: int) -> ModelConfig:
    grouped = raw.get("topk_method") == "group_limited_greedy"
    return ModelConfig(
        vocab_size=raw["vocab_size"],
        hidden_size=raw["hidden_size"],
        layer_count=raw["num_hidden_layers"],
        dense_layer_count=raw.get("first_k_dense_replace", 0),
        head_count=raw["num_attention_heads"],
        q_lora_rank=raw.get("q_lora_rank"),
        kv_lora_rank=raw["kv_lora_rank"],
        qk_nope_head_dim=raw["qk_nope_head_dim"],
        qk_rope_head_dim=raw["qk_rope_head_dim"],
        v_head_dim=raw["v_head_dim"],
        routed_expert_count=raw["n_routed_experts"],
        experts_per_token=raw["num_experts_per_tok"],
        expert_group_count=raw["n_group"] if grouped else 1,
        expert_groups_kept=raw["topk_group"] if grouped else 1,
        routed_scaling_factor=float(raw.get("routed_scaling_factor", 1.0)),
        rms_norm_eps=float(raw.get("rms_norm_eps", 1e-6)),
        context_length=min(raw["max_position_embeddings"], context_limit),
        eos_token_id=_eos(raw.get("eos_token_id")),
        tied_embeddings=bool(raw.get("tie_word_embeddings", False)),
        rope=_parse_rope(raw),
    )


def _eos(value: int | list[int] | None) -> int | None:
    if not isinstance(value, list):
        return value
    if len(value) == 1:
        return value[0]
    raise CheckpointError(f"unsupported checkpoint: eos_token_id is {value!r}, supported: one id or none")


def _parse_rope(raw: dict[str, Any]) -> RopeConfig:
    # Older files say rope_theta and rope_scaling.type, newer ones rope_parameters.rope_type.
    scaling = raw.get("rope_scaling") or raw.get("rope_parameters") or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    theta = float(scaling.get("rope_theta", raw.get("rope_theta", 10000.0)))
    if kind == "default":
        return RopeConfig(kind=kind, theta=theta)
    if kind != "yarn" or scaling.get("attention_factor") is not None:
        raise CheckpointError(f"unsupported checkpoint: rope of type {kind!r}, supported: default, and yarn without attention_factor")
    return RopeConfig(
        kind=kind,
        theta=theta,
        factor=float(scaling["factor"]),
        original_context_length=scaling.get("original_max_position_embeddings", raw["max_position_embeddings"]),
        beta_fast=float(scaling.get("beta_fast") or 32),
        beta_slow=float(scaling.get("beta_slow") or 1),
        mscale=float(scaling.get("mscale") or 0),
        mscale_all_dim=float(scaling.get("mscale_all_dim") or 0),
    )
