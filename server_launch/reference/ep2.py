"""The engine on two ranks: rank 0's model here, half of the routed experts behind the exchange."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from server_launch.reference.backends import EpBackend
from server_launch.reference.cache import LatentCache
from server_launch.reference.config import ModelConfig
from server_launch.reference.engine import Cache, RankFailed
from server_launch.reference.experts import Experts
from server_launch.reference.model import DeepseekV2
from server_launch.reference.peer import Peer
from server_launch.reference.transport import Transport, connect
from server_launch.reference.weights import COMPUTE_DTYPE, Weights

_ROWS_PER_EXCHANGE = 512  # bounds the buffers of a long prompt


class SplitExperts:
    """All routed experts: the first half computed here while rank 1 computes the second."""

    def __init__(self, own: Experts, peer: Peer, transport: Transport) -> None:
        self._own = own
        self._peer = peer
        self._transport = transport

    def __call__(self, layer: int, hidden: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        """`hidden` [n, hidden], `shares` [n, routed experts] -> [n, hidden]. Raises RankFailed."""
        chunks = zip(torch.split(hidden, _ROWS_PER_EXCHANGE), torch.split(shares, _ROWS_PER_EXCHANGE), strict=True)
        return torch.cat([self._exchange(layer, *chunk) for chunk in chunks])

    def _exchange(self, layer: int, hidden: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        own_shares, other_shares = shares.chunk(2, dim=1)
        with self._failures():
            self._peer.call(layer, hidden.shape[0])
            self._transport.send(torch.cat((hidden, other_shares), dim=1))
            finish_receiving = self._transport.receive(hidden.shape, hidden.dtype)
        own = self._own.forward(layer, hidden, own_shares)
        with self._failures():
            return own + finish_receiving()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Whatever breaks in the exchange means that rank 1 is lost."""
        try:
            yield
        except (RuntimeError, OSError) as error:
            raise RankFailed(self._peer.lost()) from error


class Ep2Engine:
    """The Engine seam. One thread drives it; `healthy` may be called from any."""

    def __init__(self, config: ModelConfig, model: DeepseekV2, peer: Peer) -> None:
        self.eos_token_id = config.eos_token_id
        self.vocab_size = config.vocab_size
        self.context_length = config.context_length
        self._model = model
        self._peer = peer

    @property
    def peer(self) -> Peer:
        """Rank 1."""
        return self._peer

    @torch.inference_mode()
    def prefill(self, prompt: Sequence[int]) -> tuple[Cache, int]:
        """See Engine."""
        self._require_peer()
        cache, logits = self._model.prefill(prompt)
        [token] = self._choose(logits)
        return cache, token

    @torch.inference_mode()
    def decode(self, caches: Sequence[Cache], tokens: Sequence[int]) -> list[int]:
        """See Engine."""
        self._require_peer()
        own = [cache for cache in caches if isinstance(cache, LatentCache)]
        return self._choose(self._model.decode(own, tokens))

    def healthy(self) -> bool:
        """See Engine."""
        return self._peer.failure is None

    def close(self) -> None:
        """See Engine."""
        self._peer.close()

    def _choose(self, logits: torch.Tensor) -> list[int]:
        chosen: list[int] = logits.argmax(dim=-1).tolist()
        # An aborted device exchange ends without an exception and with garbage in the buffers.
        self._require_peer()
        return chosen

    def _require_peer(self) -> None:
        if self._peer.failure:
            raise RankFailed(self._peer.failure)


def load(directory: Path, config: ModelConfig, backend: EpBackend, peer: Peer, rendezvous: Path) -> Ep2Engine:
    """Load rank 0's share while `peer` loads its own, then join it. Raises CheckpointError, RankFailed."""
    torch.set_num_threads(1)
    device = torch.device("cuda", 0) if backend is EpBackend.NCCL else torch.device("cpu")
    weights = Weights(directory, COMPUTE_DTYPE, device)
    own = Experts(config, weights, config.experts_of_rank(0))
    peer.wait_ready()
    try:
        transport = connect(backend, 0, rendezvous)
    except RuntimeError as error:
        raise RankFailed(peer.fail(f"rank 1 did not join the exchange: {error}")) from error
    peer.on_failure(transport.abort)
    return Ep2Engine(config, DeepseekV2(config, weights, SplitExperts(own, peer, transport)), peer)
