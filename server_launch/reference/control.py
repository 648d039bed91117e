"""What the two ranks say to each other beside the activations, over one socket pair: calls to rank 1, signs of life from it.

The socket is also the leash: whoever holds one end learns of the other's death as end of file, idle or not.
"""

import json
import socket
import struct
from dataclasses import asdict, dataclass

MESSAGE_LIMIT_BYTES = 4096
BEAT = b"."

_CALL = struct.Struct("<II")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Rank 1 has loaded its experts: indices `first_expert`..`last_expert` of every mixture layer."""

    first_expert: int
    last_expert: int
    parameter_bytes: int

    def pack(self) -> bytes:
        """One message."""
        return json.dumps(asdict(self)).encode()


def unpack_ready(message: bytes) -> Ready:
    """Inverse of `Ready.pack`. Raises ValueError or TypeError for anything else."""
    return Ready(**json.loads(message))


def pack_call(layer: int, row_count: int) -> bytes:
    """Rank 0 is about to send `row_count` rows for a layer."""
    return _CALL.pack(layer, row_count)


def unpack_call(message: bytes) -> tuple[int, int]:
    """Layer and row count of a call."""
    layer, row_count = _CALL.unpack(message)
    return layer, row_count


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends that keep message boundaries."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
