"""The names of the expert-parallel backends, and whether this machine can run one."""

from enum import StrEnum


class EpBackend(StrEnum):
    """How the ranks exchange activations."""

    HOST_STAGED = "host-staged"
    NCCL = "nccl"


class BackendUnavailable(Exception):
    """The chosen backend cannot run here; the message says in one line what is missing and what to choose instead."""


def require(backend: EpBackend) -> None:
    """Raises BackendUnavailable unless both ranks can run with `backend` on this machine."""
    if backend is EpBackend.HOST_STAGED:
        return
    import torch  # only here: host-staged starts its second rank before it pays for this import
    from torch import distributed

    device_count = torch.cuda.device_count()
    if device_count < 2:
        raise BackendUnavailable(f"--ep-backend nccl needs two CUDA devices, this machine has {device_count}; use --ep-backend host-staged")
    if not distributed.is_nccl_available():
        raise BackendUnavailable("--ep-backend nccl needs a torch built with NCCL; use --ep-backend host-staged")
