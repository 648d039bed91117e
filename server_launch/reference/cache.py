"""The KV cache of one request: what multi-head latent attention keeps, the compressed latent and one rotated key a position."""

import torch

_FIRST_CAPACITY = 64


class LatentCache:
    """Grows by doubling. Layers write ahead of `length`; `advance` makes a whole step count at once."""

    def __init__(self, layer_count: int, width: int, like: torch.Tensor) -> None:
        self.length = 0
        self._latents = like.new_empty(layer_count, _FIRST_CAPACITY, width)

    def append(self, layer: int, latents: torch.Tensor) -> torch.Tensor:
        """Put `latents` [n, width] behind the filled positions of a layer; return all of them, [length + n, width]."""
        end = self.length + latents.shape[0]
        if end > self._latents.shape[1]:
            self._grow(end)
        self._latents[layer, self.length : end] = latents
        return self._latents[layer, :end]

    def advance(self, count: int) -> None:
        """Count `count` more positions as filled, once every layer has written them."""
        self.length += count

    def _grow(self, needed: int) -> None:
        layers, capacity, width = self._latents.shape
        while capacity < needed:
            capacity *= 2
        larger = self._latents.new_empty(layers, capacity, width)
        larger[:, : self.length] = self._latents[:, : self.length]
        self._latents = larger
