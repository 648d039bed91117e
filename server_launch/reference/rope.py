"""Rotary position embedding as complex numbers, plain or YaRN-scaled, for adjacent pairs of a head."""

import math

import torch

from server_launch.reference.config import ModelConfig, RopeConfig


def rope_table(config: ModelConfig) -> torch.Tensor:
    """Rotations of every position, complex64 [context_length, qk_rope_head_dim / 2].

    In float32 whatever the engine computes in, because the rounding of position times frequency is part of the model.
    """
    frequencies, gain = _frequencies(config.rope, config.qk_rope_head_dim)
    angles = torch.arange(config.context_length, dtype=torch.float32)[:, None] * frequencies
    return torch.polar(torch.ones_like(angles), angles) * gain


def rotate(pairs: torch.Tensor, rotations: torch.Tensor) -> torch.Tensor:
    """Turn the last dimension of `pairs` [..., d] by `rotations` [..., d / 2], broadcasting the rest."""
    turned = torch.view_as_complex(pairs.reshape(*pairs.shape[:-1], -1, 2)) * rotations
    return torch.view_as_real(turned).flatten(-2)


def attention_scale(config: ModelConfig) -> float:
    """Factor on the attention scores."""
    scale: float = (config.qk_nope_head_dim + config.qk_rope_head_dim) ** -0.5
    if config.rope.kind == "yarn" and config.rope.mscale_all_dim:
        scale *= _mscale(config.rope.factor, config.rope.mscale_all_dim) ** 2
    return scale


def _frequencies(rope: RopeConfig, dim: int) -> tuple[torch.Tensor, float]:
    """Angle per position of each pair, float32 [dim / 2], and the gain on the rotations."""
    periods = rope.theta ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    if rope.kind == "default":
        return 1.0 / periods, 1.0
    low = max(math.floor(_turning_pair(rope, rope.beta_fast, dim)), 0)
    high = min(math.ceil(_turning_pair(rope, rope.beta_slow, dim)), dim - 1)
    ramp = (torch.arange(dim // 2, dtype=torch.float32) - low) / (high - low or 0.001)
    kept = 1 - ramp.clamp(0, 1)
    frequencies = 1.0 / (rope.factor * periods) * (1 - kept) + 1.0 / periods * kept
    if rope.mscale and rope.mscale_all_dim:
        return frequencies, _mscale(rope.factor, rope.mscale) / _mscale(rope.factor, rope.mscale_all_dim)
    return frequencies, _mscale(rope.factor, 1.0)


def _turning_pair(rope: RopeConfig, turns: float, dim: int) -> float:
    """Index of the pair that turns `turns` times over the original context."""
    return dim * math.log(rope.original_context_length / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))


def _mscale(factor: float, weight: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0
