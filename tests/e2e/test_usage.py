"""What cannot be used gets one line that says what to do, and the documented exit code; nothing is left behind."""

from pathlib import Path

import pytest

from tests.e2e.gate import gate
from tests.e2e.test_reference import free_port

pytestmark = pytest.mark.e2e


def line(said: str) -> str:
    """The one line of the gate."""
    [only] = [each for each in said.splitlines() if each.startswith("gate: ")]
    assert "Traceback" not in said
    return only


def test_a_server_that_is_not_there_is_unknown(tmp_path: Path) -> None:
    with gate(tmp_path, "--host", f"http://127.0.0.1:{free_port()}", "--server", "openai") as run:
        assert run.wait() == 3
        assert "no server answers" in line(run.said)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--server", "no-such-server"], "no server profile"),
        (["--scenario", "no-such-scenario"], "no scenario"),
        (["--endpoint", "embeddings"], "use completions or chat"),
        (["--active-cap", "0"], "at least 1"),
        (["--host", "http://127.0.0.1:1", "--server", "pegainfer", "--server-log", "no/such/log"], "cannot read the server log"),
    ],
)
def test_an_option_that_cannot_be_used_is_usage(tmp_path: Path, options: list[str], words: str) -> None:
    with gate(tmp_path, *options) as run:
        assert run.wait() == 2, run.said
        assert words in line(run.said)
        assert not (run.run_dir / "verdict.json").exists()
