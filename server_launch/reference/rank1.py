"""The second rank: loads its half of the routed experts and nothing else, then answers calls for as long as rank 0 lives."""

import argparse
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import torch

from server_launch.reference import control
from server_launch.reference.backends import EpBackend
from server_launch.reference.config import CheckpointError, read_config
from server_launch.reference.experts import Experts
from server_launch.reference.transport import Transport, connect
from server_launch.reference.weights import COMPUTE_DTYPE, Weights

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Entry of `python -m server_launch.reference.rank1`, which only rank 0 runs. Exits with one line on stderr if anything breaks."""
    options = _options()
    _die_with(options.parent_pid)
    # Ctrl-C reaches the whole terminal group; rank 0 decides when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    channel = socket.socket(fileno=options.control_fd)
    threading.Thread(target=_beat, args=(channel, options.beat_s), name="heartbeat", daemon=True).start()
    try:
        _run(options, channel)
    except (CheckpointError, RuntimeError, OSError) as error:
        sys.exit(f"rank 1: {error}")


@torch.inference_mode()
def serve(channel: socket.socket, transport: Transport, experts: Experts, hidden_size: int) -> None:
    """Answer calls until rank 0 closes the control socket. Raises RuntimeError or OSError when the exchange breaks."""
    width = hidden_size + len(experts.indices)
    while message := channel.recv(control.MESSAGE_LIMIT_BYTES):
        layer, row_count = control.unpack_call(message)
        rows = transport.receive((row_count, width), COMPUTE_DTYPE)()
        hidden, shares = torch.split(rows, [hidden_size, len(experts.indices)], dim=1)
        transport.send(experts.forward(layer, hidden, shares))


def _run(options: argparse.Namespace, channel: socket.socket) -> None:
    config = read_config(options.checkpoint, context_limit=1)
    device = torch.device("cuda", 1) if options.ep_backend is EpBackend.NCCL else torch.device("cpu")
    experts = Experts(config, Weights(options.checkpoint, COMPUTE_DTYPE, device), config.experts_of_rank(1))
    ready = control.Ready(first_expert=experts.indices[0], last_expert=experts.indices[-1], parameter_bytes=experts.parameter_bytes)
    channel.send(ready.pack())
    serve(channel, connect(options.ep_backend, 1, options.rendezvous), experts, config.hidden_size)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="server_launch.reference.rank1", description="rank 1; started by rank 0")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--ep-backend", type=EpBackend, required=True)
    parser.add_argument("--rendezvous", type=Path, required=True)
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--parent-pid", type=int, required=True)
    parser.add_argument("--beat-s", type=float, required=True)
    return parser.parse_args()


def _die_with(parent_pid: int) -> None:
    """Have the kernel kill this process when rank 0 dies: end of file on the control socket would not reach a stopped process."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        sys.exit("rank 1: rank 0 has already ended")


def _beat(channel: socket.socket, beat_s: float) -> None:
    """Signs of life, from a thread of its own so that a long computation does not silence them."""
    while True:
        try:
            channel.send(control.BEAT, socket.MSG_DONTWAIT)
        except OSError as error:
            # A full socket means that rank 0 does not read, being stopped itself. Anything else means that it is gone.
            if not isinstance(error, BlockingIOError):
                os._exit(1)
        time.sleep(beat_s)


if __name__ == "__main__":
    main()
