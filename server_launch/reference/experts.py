"""A contiguous range of the routed experts of every mixture-of-experts layer; each rank holds one such range and nothing of the other."""

import torch
from torch.nn import functional as F

from server_launch.reference.config import ModelConfig
from server_launch.reference.weights import Weights

_FEW_ROWS = 32  # a decode step; above it the wasted arithmetic costs more than the calls saved


class Experts:
    """Computes the weighted sum of its own experts' outputs."""

    def __init__(self, config: ModelConfig, weights: Weights, indices: range) -> None:
        """Reads the weights of `indices` only. Raises CheckpointError."""
        self.indices = indices
        self._layers = {
            layer: (self._gate_up(weights, layer), self._stack(weights, layer, "down_proj"))
            for layer in range(config.dense_layer_count, config.layer_count)
        }

    @property
    def parameter_bytes(self) -> int:
        """Memory of the weights held."""
        return sum(part.nbytes for layer in self._layers.values() for part in layer)

    def forward(self, layer: int, hidden: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        """`hidden` [n, hidden], `shares` [n, own experts] (0 where not chosen) -> [n, hidden]."""
        chosen = shares.any(dim=0).nonzero().flatten()
        if hidden.shape[0] <= _FEW_ROWS:
            return self._together(layer, hidden, shares, chosen)
        return self._one_by_one(layer, hidden, shares, chosen)

    def _together(self, layer: int, hidden: torch.Tensor, shares: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        """Every chosen expert sees every row: more arithmetic, a handful of operations."""
        gate_up, down = self._layers[layer]
        gate, up = (hidden @ gate_up[chosen].mT).chunk(2, dim=-1)
        shared = F.silu(gate) * up * shares.T[chosen, :, None]
        return (shared @ down[chosen].mT).sum(dim=0)

    def _one_by_one(self, layer: int, hidden: torch.Tensor, shares: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        """Every chosen expert sees only its own rows."""
        gate_up, down = self._layers[layer]
        out = torch.zeros_like(hidden)
        for expert in chosen.tolist():
            rows = shares[:, expert].nonzero().flatten()
            gate, up = F.linear(hidden[rows], gate_up[expert]).chunk(2, dim=-1)
            out.index_add_(0, rows, F.linear(F.silu(gate) * up, down[expert]) * shares[rows, expert, None])
        return out

    def _gate_up(self, weights: Weights, layer: int) -> torch.Tensor:
        return torch.cat((self._stack(weights, layer, "gate_proj"), self._stack(weights, layer, "up_proj")), dim=1)

    def _stack(self, weights: Weights, layer: int, name: str) -> torch.Tensor:
        return torch.stack([weights.tensor(f"model.layers.{layer}.mlp.experts.{expert}.{name}.weight") for expert in self.indices])
