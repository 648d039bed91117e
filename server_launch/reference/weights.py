"""Lazy access to the safetensors of a checkpoint directory: a tensor is read from disk only when somebody asks for its name."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from server_launch.reference.config import CheckpointError

# Twice the width of the weights: what rounding does to a logit then depends neither on the batch a row is in nor on the order
# of a sum by anything near the distance of two tokens, so a request gives the same text alone and in company.
COMPUTE_DTYPE = torch.float64

_INDEX = "model.safetensors.index.json"


class Weights:
    """The named tensors of one directory, whole or sharded, cast to one dtype and put on one device."""

    def __init__(self, directory: Path, dtype: torch.dtype, device: torch.device) -> None:
        """Raises CheckpointError where there are no weights."""
        self.dtype = dtype
        self.device = device
        self._files: dict[Path, Any] = {}
        self._directory = directory
        try:
            self._where = self._locate()
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise CheckpointError(f"cannot read the weights in {directory}: {error}") from error

    def tensor(self, name: str) -> torch.Tensor:
        """One tensor. Raises CheckpointError where it is missing or unreadable."""
        if name not in self._where:
            raise CheckpointError(f"the weights in {self._directory} lack {name}")
        try:
            value: torch.Tensor = self._open(self._where[name]).get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"cannot read {name} from {self._where[name]}: {error}") from error
        return value.to(device=self.device, dtype=self.dtype)

    def _locate(self) -> dict[str, Path]:
        index = self._directory / _INDEX
        if index.exists():
            names: dict[str, str] = json.loads(index.read_bytes())["weight_map"]
            return {name: self._directory / file for name, file in names.items()}
        single = self._directory / "model.safetensors"
        return dict.fromkeys(self._open(single).keys(), single)

    def _open(self, path: Path) -> Any:
        if path not in self._files:
            self._files[path] = safe_open(path, framework="pt")
        return self._files[path]
