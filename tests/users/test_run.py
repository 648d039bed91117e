"""The end of a run: what is said when the judge itself does not come to an end."""

import os
import signal
import threading
import time
from pathlib import Path

import psutil

from analysis.vocabulary import ExitCode
from users.run import judge


def test_a_judge_that_is_killed_is_broken_and_says_how_to_judge_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "plan.json")  # nobody writes: the judge waits for its first file

    def kill() -> None:
        until_s = time.monotonic() + 60
        while time.monotonic() < until_s:
            for child in psutil.Process().children():
                if str(tmp_path) in child.cmdline():
                    child.send_signal(signal.SIGKILL)
                    return

    killer = threading.Thread(target=kill)
    killer.start()
    code, said = judge(tmp_path)
    killer.join()
    assert code is ExitCode.BROKEN
    assert said == f"verdict: none (exit 4): the judge ended with -9; judge again with python -m analysis {tmp_path}\n"
