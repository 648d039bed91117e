"""Two operating-system ranks: who holds what, and what happens to one when the other dies, stops or never starts."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file

from server_launch.reference.backends import BackendUnavailable, EpBackend
from server_launch.reference.build import build
from server_launch.reference.checkpoint import default_checkpoint
from server_launch.reference.config import CheckpointError, read_config
from server_launch.reference.engine import RankFailed
from server_launch.reference.ep2 import Ep2Engine
from server_launch.reference.experts import Experts
from server_launch.reference.model import DeepseekV2
from server_launch.reference.peer import Peer
from server_launch.reference.weights import COMPUTE_DTYPE, Weights
from tests.server_launch.reference.server import eventually

TIMEOUT_S = 0.6
PROMPT = [200, 300, 400]

pytestmark = pytest.mark.slow


@pytest.fixture
def engine() -> Iterator[Ep2Engine]:
    built, _ = build(rank_timeout_s=TIMEOUT_S)
    assert isinstance(built, Ep2Engine)
    yield built
    built.close()


@contextlib.contextmanager
def server_process(**options: Any) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """A process that holds an engine and takes one prefill step a line; and its rank 1."""
    program = (
        "import sys; from server_launch.reference.build import build\n"
        f"engine, _ = build(**{options!r})\n"
        "print(engine.peer.pid, flush=True)\n"
        f"for line in sys.stdin: print(engine.healthy(), engine.prefill({PROMPT!r})[1], flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    rank = psutil.Process(int(process.stdout.readline()))
    try:
        yield process, rank
    finally:
        process.kill()
        process.wait()
        with contextlib.suppress(psutil.NoSuchProcess):
            rank.kill()


def half_checkpoint(directory: Path, rank: int) -> Path:
    """The weights of one rank only; an index still tells of the others."""
    source = default_checkpoint()
    config = read_config(source, context_limit=4096)
    second = {f".experts.{expert}." for expert in config.experts_of_rank(1)}
    weights = load_file(source / "model.safetensors")
    owner = {name: int(any(part in name for part in second)) for name in weights}
    save_file({name: tensor for name, tensor in weights.items() if owner[name] == rank}, directory / f"rank{rank}.safetensors")
    index = {"weight_map": {name: f"rank{owner[name]}.safetensors" for name in weights}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (directory / name).write_bytes((source / name).read_bytes())
    return directory


def test_rank_1_needs_nothing_but_the_second_half_of_the_experts(tmp_path: Path) -> None:
    directory = half_checkpoint(tmp_path, rank=1)
    arguments = [f"--checkpoint={directory}", "--ep-backend=host-staged", f"--rendezvous={tmp_path / 'rendezvous'}"]
    peer = Peer(arguments, timeout_s=TIMEOUT_S)
    ready = peer.wait_ready()
    peer.close()
    assert (ready.first_expert, ready.last_expert) == (32, 63)
    assert ready.parameter_bytes == 2 * 32 * 3 * 64 * 32 * COMPUTE_DTYPE.itemsize


def test_rank_0_needs_nothing_of_the_second_half(tmp_path: Path) -> None:
    directory = half_checkpoint(tmp_path, rank=0)
    config = read_config(directory, context_limit=4096)
    weights = Weights(directory, COMPUTE_DTYPE, torch.device("cpu"))
    assert Experts(config, weights, config.experts_of_rank(0)).indices == range(32)
    DeepseekV2(config, weights, lambda layer, hidden, shares: hidden)
    with pytest.raises(CheckpointError):
        Experts(config, weights, config.experts_of_rank(1))


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_without_its_weights_fails_the_start(tmp_path: Path, rank: int, capfd: pytest.CaptureFixture[str]) -> None:
    before = set(psutil.Process().children())
    with pytest.raises((CheckpointError, RankFailed)) as caught:
        build(half_checkpoint(tmp_path, rank=1 - rank))
    assert "\n" not in str(caught.value)
    assert rank == 0 or "rank 1: cannot read" in capfd.readouterr().err
    assert set(psutil.Process().children()) == before


def test_a_killed_rank_fails_the_step_and_everything_after(engine: Ep2Engine) -> None:
    cache, token = engine.prefill(PROMPT)
    os.kill(engine.peer.pid, signal.SIGKILL)
    with pytest.raises(RankFailed, match="ended by signal 9"):
        for _ in range(1000):
            [token] = engine.decode([cache], [token])
    assert not engine.healthy()
    with pytest.raises(RankFailed):
        engine.prefill(PROMPT)
    with pytest.raises(RankFailed):
        engine.decode([cache], [token])


def test_a_killed_rank_is_noticed_without_a_step(engine: Ep2Engine) -> None:
    os.kill(engine.peer.pid, signal.SIGTERM)
    eventually(lambda: not engine.healthy(), "unhealthy")


def test_a_stopped_rank_fails_the_step_within_its_bound(engine: Ep2Engine) -> None:
    cache, token = engine.prefill(PROMPT)
    os.kill(engine.peer.pid, signal.SIGSTOP)
    started_s = time.monotonic()
    with pytest.raises(RankFailed, match=r"no sign of life for 0\.6 s"):
        engine.decode([cache], [token])
    assert time.monotonic() - started_s > TIMEOUT_S / 2
    assert not engine.healthy()
    eventually(lambda: not psutil.pid_exists(engine.peer.pid), "rank 1 is buried")


def test_a_stopped_rank_is_noticed_without_a_step(engine: Ep2Engine) -> None:
    os.kill(engine.peer.pid, signal.SIGSTOP)
    eventually(lambda: not engine.healthy(), "unhealthy")
    with pytest.raises(RankFailed):
        engine.prefill(PROMPT)


def test_closing_ends_a_stopped_rank_and_may_be_repeated() -> None:
    engine, _ = build()
    assert isinstance(engine, Ep2Engine)
    os.kill(engine.peer.pid, signal.SIGSTOP)
    engine.close()
    engine.close()
    assert not psutil.pid_exists(engine.peer.pid)
    assert not engine.healthy()
    with pytest.raises(RankFailed, match="closed"):
        engine.prefill(PROMPT)


def test_a_step_longer_than_the_bound_is_no_failure(engine: Ep2Engine) -> None:
    engine.prefill([5 + number % 700 for number in range(engine.context_length)])
    assert engine.healthy()


@pytest.mark.parametrize("stopped", [False, True], ids=["idle", "stopped"])
def test_rank_1_does_not_outlive_a_killed_rank_0(stopped: bool) -> None:
    with server_process() as (process, rank):
        if stopped:
            rank.suspend()
        process.kill()
        process.wait()
        eventually(lambda: not rank.is_running() or rank.status() == psutil.STATUS_ZOMBIE, "rank 1 ends")


def test_a_pause_of_rank_0_is_not_held_against_rank_1() -> None:
    with server_process(rank_timeout_s=TIMEOUT_S) as (process, _):
        assert process.stdin and process.stdout
        answers = []
        for _ in range(2):
            process.send_signal(signal.SIGSTOP)
            time.sleep(2 * TIMEOUT_S)  # the length of the pause, nothing is waited for
            process.send_signal(signal.SIGCONT)
            process.stdin.write("\n")
            process.stdin.flush()
            answers.append(process.stdout.readline())
        assert answers[0] == answers[1]
        assert answers[0].startswith("True ")


def test_several_engines_share_a_process() -> None:
    built = [build()[0] for _ in range(2)]
    first, second = (engine.prefill(PROMPT)[1] for engine in built)
    built[0].close()
    assert first == second == built[1].prefill(PROMPT)[1]
    built[1].close()


@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="this machine can run it")
def test_nccl_without_two_devices_is_refused_at_once() -> None:
    before = set(psutil.Process().children())
    with pytest.raises(BackendUnavailable, match=r"nccl needs two CUDA devices, this machine has \d; use --ep-backend host-staged"):
        build(ep_backend=EpBackend.NCCL)
    assert set(psutil.Process().children()) == before


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(ValueError, match="carrier-pigeon"):
        build(ep_backend="carrier-pigeon")
