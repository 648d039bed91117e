"""How activations travel between the ranks: torch.distributed point-to-point, through host memory (gloo) or between CUDA devices (NCCL)."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed

from server_launch.reference.backends import EpBackend

# A rank that is alive but does not keep up is given this long; one that is dead or stopped is noticed by its watcher.
_EXCHANGE_LIMIT = timedelta(seconds=300)

# Groups are built directly instead of as torch's one global group, so that a process may hold several engines. The type
# stubs leave these classes out.
_distributed: Any = torch.distributed


class Transport(Protocol):
    """One end of the exchange, which goes strictly to and fro; a broken one raises RuntimeError."""

    device: torch.device

    def send(self, tensor: torch.Tensor) -> None:
        """Start sending; the tensor must not change before the other end has answered."""

    def receive(self, shape: Sequence[int], dtype: torch.dtype) -> Callable[[], torch.Tensor]:
        """Start receiving a tensor of known shape; the call returned blocks until it is here."""

    def abort(self) -> None:
        """Make a blocked exchange give up; called from another thread once the peer is known to be gone."""


class _PointToPoint:
    """Send and receive over a process group of two."""

    def __init__(self, group: Any, other_rank: int, device: torch.device) -> None:
        self.device = device
        self._group = group
        self._other_rank = other_rank
        self._sending: tuple[Any, torch.Tensor] | None = None

    def send(self, tensor: torch.Tensor) -> None:
        """See Transport."""
        # Kept, but never waited for: the answer proves that it has arrived, and when the other rank dies, gloo ends every wait
        # for a tensor but not every wait for one that it sends.
        self._sending = (self._group.send([tensor], self._other_rank, 0), tensor)

    def receive(self, shape: Sequence[int], dtype: torch.dtype) -> Callable[[], torch.Tensor]:
        """See Transport."""
        tensor = torch.empty(shape, dtype=dtype, device=self.device)
        work = self._group.recv([tensor], self._other_rank, 0)

        def finish() -> torch.Tensor:
            work.wait()
            return tensor

        return finish


class HostStaged(_PointToPoint):
    """Gloo over the loopback interface, tensors in host memory."""

    def __init__(self, rank: int, rendezvous: Path) -> None:
        """Blocks until both ranks have come to the `rendezvous` file. Raises RuntimeError."""
        options = _distributed.ProcessGroupGloo._Options()
        options._timeout = _EXCHANGE_LIMIT
        options._devices = [_distributed.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
        group = _distributed.ProcessGroupGloo(_store(rendezvous), rank, 2, options)
        super().__init__(group, 1 - rank, torch.device("cpu"))

    def abort(self) -> None:
        """Nothing to do: the peer's death closes the connection, which ends the wait for its answer."""


class Nccl(_PointToPoint):
    """NCCL between the CUDA devices 0 and 1, rank by rank."""

    def __init__(self, rank: int, rendezvous: Path) -> None:
        """Blocks until both ranks have come to the `rendezvous` file. Raises RuntimeError."""
        device = torch.device("cuda", rank)
        torch.cuda.set_device(device)
        options = _distributed.ProcessGroupNCCL.Options()
        options._timeout = _EXCHANGE_LIMIT
        group = _distributed.ProcessGroupNCCL(_store(rendezvous), rank, 2, options)
        super().__init__(group, 1 - rank, device)

    def abort(self) -> None:
        """A kernel that waits for a dead peer never ends by itself."""
        self._group.abort()


def connect(backend: EpBackend, rank: int, rendezvous: Path) -> Transport:
    """Join the exchange as `rank` 0 or 1; returns once both have joined. Raises RuntimeError."""
    transport = Nccl(rank, rendezvous) if backend is EpBackend.NCCL else HostStaged(rank, rendezvous)
    _greet(transport, rank)
    return transport


def _greet(transport: _PointToPoint, rank: int) -> None:
    """One word each way: a rank may be through with the rendezvous while the other still reads it, and rank 0 removes it then."""
    word = torch.zeros(1, device=transport.device)
    for speaker in (0, 1):
        if speaker == rank:
            transport.send(word)
        else:
            transport.receive((1,), word.dtype)()


def _store(rendezvous: Path) -> Any:
    return _distributed.FileStore(str(rendezvous), 2)
