"""From a checkpoint directory to a running engine and its tokenizer: the one function that the server calls."""

import tempfile
from pathlib import Path

from server_launch.reference.backends import EpBackend, require
from server_launch.reference.checkpoint import default_checkpoint
from server_launch.reference.config import read_config
from server_launch.reference.engine import Engine, Tokenizer
from server_launch.reference.peer import Peer
from server_launch.reference.tokenizer import CheckpointTokenizer

DEFAULT_RANK_TIMEOUT_S = 5.0
CONTEXT_LIMIT = 4096


def build(
    checkpoint_dir: Path | None = None,
    ep_backend: EpBackend | str = EpBackend.HOST_STAGED,
    rank_timeout_s: float = DEFAULT_RANK_TIMEOUT_S,
    context_limit: int = CONTEXT_LIMIT,
) -> tuple[Engine, Tokenizer]:
    """Start both ranks on a checkpoint (None: the generated one) and block until they are ready.

    `rank_timeout_s` bounds how long a stopped rank 1 goes unnoticed. Raises BackendUnavailable, CheckpointError,
    RankFailed, or ValueError for an unknown backend; the message of each is one line for the user.
    """
    backend = EpBackend(ep_backend)
    require(backend)
    directory = default_checkpoint() if checkpoint_dir is None else checkpoint_dir.resolve()
    config = read_config(directory, context_limit)
    tokenizer = CheckpointTokenizer(directory)
    with tempfile.TemporaryDirectory(prefix="ep2-") as scratch:
        rendezvous = Path(scratch, "rendezvous")
        arguments = [f"--checkpoint={directory}", f"--ep-backend={backend}", f"--rendezvous={rendezvous}"]
        peer = Peer(arguments, timeout_s=rank_timeout_s)
        try:
            # Imported this late because rank 1 starts up while this process imports torch.
            from server_launch.reference.ep2 import load

            return load(directory, config, backend, peer, rendezvous), tokenizer
        except BaseException:
            peer.close()
            raise
