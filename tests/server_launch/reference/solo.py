"""The model on one rank, both halves of the experts in this process: what the two ranks must add up to."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from server_launch.reference.config import read_config
from server_launch.reference.experts import Experts
from server_launch.reference.model import DeepseekV2
from server_launch.reference.weights import COMPUTE_DTYPE, Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Greedy tokens of each prompt, and how close the closest decision on the way was."""

    tokens: list[list[int]]
    smallest_token_margin: float
    smallest_expert_margin: float


class Solo:
    """Greedy decoding; the margins are differences of logits."""

    def __init__(self, directory: Path) -> None:
        torch.set_num_threads(1)
        self.config = read_config(directory, context_limit=4096)
        weights = Weights(directory, COMPUTE_DTYPE, torch.device("cpu"))
        self._halves = [Experts(self.config, weights, self.config.experts_of_rank(rank)) for rank in (0, 1)]
        self._model = DeepseekV2(self.config, weights, self._routed)
        self._expert_margins: list[float] = []
        self._gates = {
            layer: weights.tensor(f"model.layers.{layer}.mlp.gate.weight")
            for layer in range(self.config.dense_layer_count, self.config.layer_count)
        }

    @torch.inference_mode()
    def generate(self, prompts: Sequence[Sequence[int]], count: int) -> Run:
        self._expert_margins.clear()
        started = [self._model.prefill(prompt) for prompt in prompts]
        caches, logits = [cache for cache, _ in started], torch.cat([row for _, row in started])
        steps, margins = [logits.argmax(dim=-1).tolist()], [_margin(logits)]
        while len(steps) < count:
            logits = self._model.decode(caches, steps[-1])
            steps.append(logits.argmax(dim=-1).tolist())
            margins.append(_margin(logits))
        tokens = [list(row) for row in zip(*steps, strict=True)]
        return Run(tokens=tokens, smallest_token_margin=min(margins), smallest_expert_margin=min(self._expert_margins))

    @torch.inference_mode()
    def logits(self, prompt: Sequence[int]) -> torch.Tensor:
        return self._model.prefill(prompt)[1]

    @torch.inference_mode()
    def logits_token_by_token(self, prompt: Sequence[int], first: int = 1) -> torch.Tensor:
        """The first few together, the rest one by one."""
        cache, logits = self._model.prefill(prompt[:first])
        for token in prompt[first:]:
            logits = self._model.decode([cache], [token])
        return logits

    def _routed(self, layer: int, hidden: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        ordered = (hidden @ self._gates[layer].T).sort(dim=-1, descending=True).values
        chosen = self.config.experts_per_token
        self._expert_margins.append(float((ordered[:, chosen - 1] - ordered[:, chosen]).min()))
        parts = [half.forward(layer, hidden, part) for half, part in zip(self._halves, shares.chunk(2, dim=1), strict=True)]
        return parts[0] + parts[1]


def _margin(logits: torch.Tensor) -> float:
    best = logits.topk(2, dim=-1).values
    return float((best[:, 0] - best[:, 1]).min())
