"""A rank that dies at any moment of the exchange ends the other's wait."""

import subprocess
import sys
from pathlib import Path

import pytest

KILLS = """
import os, random, signal, sys, threading, time
from pathlib import Path
import torch
from server_launch.reference.transport import HostStaged

ROWS = (8, 96)
random.seed(5)

def serve(rendezvous):
    transport = HostStaged(1, rendezvous)
    while True:
        transport.send(transport.receive(ROWS, torch.float64)() + 1)

def exchange(transport):
    transport.send(torch.zeros(ROWS, dtype=torch.float64))
    assert float(transport.receive(ROWS, torch.float64)().sum()) == ROWS[0] * ROWS[1]

for number in range(60):
    rendezvous = Path(sys.argv[1], str(number))
    rank = os.fork()
    if rank == 0:
        serve(rendezvous)
    transport = HostStaged(0, rendezvous)
    exchange(transport)
    threading.Timer(random.uniform(0, 0.01), os.kill, (rank, signal.SIGKILL)).start()
    try:
        while True:
            exchange(transport)
    except RuntimeError:
        os.waitpid(rank, 0)
print("ended", flush=True)
"""


@pytest.mark.slow
def test_every_wait_ends_when_the_other_rank_is_killed(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLS, str(tmp_path)], stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.stdout == "ended\n"
