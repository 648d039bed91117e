"""The DeepSeek-V2 forward pass of rank 0 in plain torch: one request's whole prompt, or one new token for each of several requests."""

from collections.abc import Callable, Sequence

import torch
from torch.nn import functional as F

from server_launch.reference.attention import Attention, rms_norm
from server_launch.reference.cache import LatentCache
from server_launch.reference.config import ModelConfig
from server_launch.reference.rope import rope_table
from server_launch.reference.weights import Weights

# (layer, hidden [n, hidden], shares [n, routed experts]) -> the routed experts' part [n, hidden]
RoutedExperts = Callable[[int, torch.Tensor, torch.Tensor], torch.Tensor]


class Mlp:
    """A gated feed-forward block: a dense layer, or the shared experts of a mixture layer."""

    def __init__(self, weights: Weights, prefix: str) -> None:
        self._gate_up = torch.cat((weights.tensor(f"{prefix}gate_proj.weight"), weights.tensor(f"{prefix}up_proj.weight")))
        self._down = weights.tensor(f"{prefix}down_proj.weight")

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        gate, up = F.linear(hidden, self._gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, self._down)


class MixtureOfExperts:
    """Shared experts for every token, and the best few routed experts, wherever they live."""

    def __init__(self, config: ModelConfig, weights: Weights, layer: int, routed: RoutedExperts) -> None:
        self._config = config
        self._layer = layer
        self._routed = routed
        self._gate = weights.tensor(f"model.layers.{layer}.mlp.gate.weight")
        self._shared = Mlp(weights, f"model.layers.{layer}.mlp.shared_experts.")

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        return self._routed(self._layer, hidden, self._shares(hidden)) + self._shared(hidden)

    def _shares(self, hidden: torch.Tensor) -> torch.Tensor:
        """Weight of each routed expert for each row, [n, experts], 0 where it was not chosen."""
        scores = F.linear(hidden, self._gate).softmax(dim=-1)
        if self._config.expert_group_count > 1:
            scores = self._best_groups(scores)
        best, indices = scores.topk(self._config.experts_per_token, dim=-1)
        return torch.zeros_like(scores).scatter_(1, indices, best * self._config.routed_scaling_factor)

    def _best_groups(self, scores: torch.Tensor) -> torch.Tensor:
        grouped = scores.view(scores.shape[0], self._config.expert_group_count, -1)
        kept = grouped.amax(dim=-1).topk(self._config.expert_groups_kept, dim=-1).indices
        mask = torch.zeros_like(grouped[..., 0]).scatter_(1, kept, 1.0)
        return (grouped * mask[..., None]).flatten(1)


class Layer:
    """Attention and feed-forward, each behind a norm and a residual."""

    def __init__(self, config: ModelConfig, weights: Weights, layer: int, routed: RoutedExperts) -> None:
        prefix = f"model.layers.{layer}."
        dense = layer < config.dense_layer_count
        self._eps = config.rms_norm_eps
        self._attention_norm = weights.tensor(f"{prefix}input_layernorm.weight")
        self._mlp_norm = weights.tensor(f"{prefix}post_attention_layernorm.weight")
        self._attention = Attention(config, weights, layer)
        self._mlp = Mlp(weights, f"{prefix}mlp.") if dense else MixtureOfExperts(config, weights, layer, routed)

    def prefill(self, hidden: torch.Tensor, rotations: torch.Tensor, cache: LatentCache) -> torch.Tensor:
        """[n, hidden] -> [n, hidden] for the n positions of one prompt."""
        return self._feed_forward(hidden + self._attention.prefill(self._normed(hidden), rotations, cache))

    def decode(self, hidden: torch.Tensor, rotations: torch.Tensor, caches: Sequence[LatentCache]) -> torch.Tensor:
        """[n, hidden] -> [n, hidden] for one new position of n requests."""
        return self._feed_forward(hidden + self._attention.decode(self._normed(hidden), rotations, caches))

    def _normed(self, hidden: torch.Tensor) -> torch.Tensor:
        return rms_norm(hidden, self._attention_norm, self._eps)

    def _feed_forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + self._mlp(rms_norm(hidden, self._mlp_norm, self._eps))


class DeepseekV2:
    """Rank 0's share of the model."""

    def __init__(self, config: ModelConfig, weights: Weights, routed: RoutedExperts) -> None:
        """Reads everything but the routed experts. Raises CheckpointError."""
        self.config = config
        self._embedding = weights.tensor("model.embed_tokens.weight")
        self._layers = [Layer(config, weights, layer, routed) for layer in range(config.layer_count)]
        self._norm = weights.tensor("model.norm.weight")
        self._head = self._embedding if config.tied_embeddings else weights.tensor("lm_head.weight")
        self._rotations = rope_table(config).to(device=weights.device, dtype=weights.dtype.to_complex())

    def prefill(self, prompt: Sequence[int]) -> tuple[LatentCache, torch.Tensor]:
        """A whole prompt -> its cache and the logits after its last token, [1, vocab]."""
        cache = LatentCache(self.config.layer_count, self.config.latent_width, self._embedding)
        hidden = self._embed(prompt)
        rotations = self._rotations[: len(prompt)]
        for layer in self._layers:
            hidden = layer.prefill(hidden, rotations, cache)
        cache.advance(len(prompt))
        return cache, self._logits(hidden[-1:])

    def decode(self, caches: Sequence[LatentCache], tokens: Sequence[int]) -> torch.Tensor:
        """One token for each cache -> logits [n, vocab]."""
        hidden = self._embed(tokens)
        rotations = self._rotations[[cache.length for cache in caches]]
        for layer in self._layers:
            hidden = layer.decode(hidden, rotations, caches)
        for cache in caches:
            cache.advance(1)
        return self._logits(hidden)

    def _embed(self, tokens: Sequence[int]) -> torch.Tensor:
        return self._embedding[torch.tensor(tokens, device=self._embedding.device)]

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return F.linear(rms_norm(hidden, self._norm, self.config.rms_norm_eps), self._head)
