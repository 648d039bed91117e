"""`python -m server_launch`: a server by hand, with documented exit codes."""

import subprocess
import sys
from pathlib import Path

import pytest

from server_launch.launch import ROOT


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "server_launch", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nobody",), 2, "no server profile 'nobody'"),
        (("openai",), 1, "cannot be started from here"),
        (("vllm",), 1, "--model-path"),
        (("reference", "--prot", "1"), 2, "unrecognized arguments"),
        (("reference", "--", "--no-such-option"), 1, "before it was ready"),
    ],
)
def test_what_cannot_be_is_one_line_and_its_code(tmp_path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    log = ("--log", str(tmp_path / "server.log"))
    ended = run(words[0], *log, *words[1:])
    assert (ended.returncode, ended.stdout) == (code, ""), ended.stderr
    assert said in ended.stderr.splitlines()[-1]


def test_a_server_that_ends_by_itself_is_told(tmp_path: Path) -> None:
    toml = tmp_path / "short.toml"
    program = "import time; print('ready', flush=True); time.sleep(1)"
    toml.write_text(f'about = "ends soon"\nready_line = "(ready)"\nlaunch = ["{{python}}", "-c", "{program}"]\n')
    ended = run(str(toml), "--log", str(tmp_path / "server.log"))
    assert ended.returncode == 1 and "ended by itself with 0" in ended.stderr
