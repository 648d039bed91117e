"""One honest server for all tests of a module that do not end it, and a factory for the others."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.server_launch.reference.server import Server, serving

STEP_MS = 10


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Ten milliseconds a token, a cap of four; left at rest by each test, which is checked at the end."""
    with serving(tmp_path_factory.mktemp("server"), "--step-interval-ms", str(STEP_MS), "--active-cap", "4") as running:
        yield running
        assert running.process.poll() is None, running.log()
        assert "Traceback" not in running.log()


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., AbstractContextManager[Server]]:
    """Starts a server of one's own: `with start("--option", …) as server`."""
    return partial(serving, tmp_path)
