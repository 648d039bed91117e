"""Multi-head latent attention, for a whole prompt at once or for one new position of each of several requests.

Rows of a decode step share matrix products, but every row attends to its own cache, so there is no padding and no mask
through which one could see another.
"""

from collections.abc import Sequence

import torch
from torch.nn import functional as F

from server_launch.reference.cache import LatentCache
from server_launch.reference.config import ModelConfig
from server_launch.reference.rope import attention_scale, rotate
from server_launch.reference.weights import Weights

_QUERY_CHUNK = 256  # bounds the score matrix of a long prompt


class Attention:
    """Multi-head latent attention of one layer."""

    def __init__(self, config: ModelConfig, weights: Weights, layer: int) -> None:
        self._config = config
        self._layer = layer
        self._scale = attention_scale(config)
        prefix = f"model.layers.{layer}.self_attn."
        names = ["q_proj"] if config.q_lora_rank is None else ["q_a_proj", "q_b_proj"]
        self._query = [weights.tensor(f"{prefix}{name}.weight") for name in names]
        self._query_norm = None if config.q_lora_rank is None else weights.tensor(f"{prefix}q_a_layernorm.weight")
        self._down = weights.tensor(f"{prefix}kv_a_proj_with_mqa.weight")
        self._latent_norm = weights.tensor(f"{prefix}kv_a_layernorm.weight")
        up = weights.tensor(f"{prefix}kv_b_proj.weight").view(config.head_count, -1, config.kv_lora_rank)
        key_up, value_up = torch.split(up, [config.qk_nope_head_dim, config.v_head_dim], dim=1)
        self._key_up = key_up.contiguous()
        self._value_up = value_up.mT.contiguous()
        self._out = weights.tensor(f"{prefix}o_proj.weight")

    def prefill(self, hidden: torch.Tensor, rotations: torch.Tensor, cache: LatentCache) -> torch.Tensor:
        """All positions of a prompt, from an empty cache: [n, hidden] -> [n, hidden]."""
        nope, rope = self._queries(hidden, rotations)
        latents, key_rope = self._latents(cache.append(self._layer, self._compress(hidden, rotations)))
        keys = torch.cat((latents @ self._key_up.mT, key_rope.expand(self._config.head_count, -1, -1)), dim=-1)
        values = latents @ self._value_up
        queries = torch.cat((nope, rope), dim=-1).transpose(0, 1)
        mixed = [self._attend(queries, keys, values, start) for start in range(0, hidden.shape[0], _QUERY_CHUNK)]
        return F.linear(torch.cat(mixed, dim=1).transpose(0, 1).flatten(1), self._out)

    def decode(self, hidden: torch.Tensor, rotations: torch.Tensor, caches: Sequence[LatentCache]) -> torch.Tensor:
        """One new position for each row: [n, hidden] -> [n, hidden]. Scores are taken against the latents as cached."""
        nope, rope = self._queries(hidden, rotations)
        new = self._compress(hidden, rotations)
        absorbed = (nope.transpose(0, 1) @ self._key_up).transpose(0, 1)
        queries = torch.cat((absorbed, rope), dim=-1) * self._scale
        mixed = []
        for row, cache in enumerate(caches):
            filled = cache.append(self._layer, new[row : row + 1])
            weights = (queries[row] @ filled.T).softmax(dim=-1)
            mixed.append(weights @ filled[:, : self._config.kv_lora_rank])
        values = torch.stack(mixed, dim=1) @ self._value_up
        return F.linear(values.transpose(0, 1).flatten(1), self._out)

    def _queries(self, hidden: torch.Tensor, rotations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """[n, hidden] -> [n, heads, nope] and rotated [n, heads, rope]."""
        query = F.linear(hidden, self._query[0])
        if self._query_norm is not None:
            query = F.linear(rms_norm(query, self._query_norm), self._query[1])
        query = query.view(hidden.shape[0], self._config.head_count, -1)
        nope, rope = torch.split(query, [self._config.qk_nope_head_dim, self._config.qk_rope_head_dim], dim=-1)
        return nope, rotate(rope, rotations[:, None])

    def _compress(self, hidden: torch.Tensor, rotations: torch.Tensor) -> torch.Tensor:
        """What the cache keeps of each position, [n, latent_width]."""
        latent, key = self._latents(F.linear(hidden, self._down))
        return torch.cat((rms_norm(latent, self._latent_norm), rotate(key, rotations)), dim=-1)

    def _latents(self, joined: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        latent, key = torch.split(joined, [self._config.kv_lora_rank, self._config.qk_rope_head_dim], dim=-1)
        return latent, key

    def _attend(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, start: int) -> torch.Tensor:
        """Causal attention of one chunk of queries, [heads, chunk, v]."""
        end = min(start + _QUERY_CHUNK, queries.shape[1])
        scores = queries[:, start:end] @ keys[:, :end].mT * self._scale
        future = torch.ones(end - start, end - start, dtype=torch.bool, device=scores.device).triu(1)
        scores[:, :, start:].masked_fill_(future, float("-inf"))
        return scores.softmax(dim=-1) @ values[:, :end]


def rms_norm(hidden: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Root-mean-square norm over the last dimension."""
    # The norms of the compressed query and key-value ignore rms_norm_eps in the reference implementation, hence the default.
    return F.rms_norm(hidden, weight.shape, weight, eps)
