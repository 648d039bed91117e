"""What the master reads of a server's process and of its metrics."""

import dataclasses
import os
import subprocess
import sys
import threading

import pytest

from tests.users.test_scenario import TARGET
from users.observer import parse_metrics, process_reading


def test_a_process_that_is_gone_has_no_pid() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert process_reading(process.pid, "s", "settled").pid is None


def test_a_child_that_ends_while_it_is_looked_at_says_nothing_about_its_parent() -> None:
    script = "import subprocess, sys\nprint(flush=True)\nwhile True: subprocess.run([sys.executable, '-S', '-c', ''])"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        try:
            assert parent.stdout is not None and parent.stdout.readline()
            readings = [process_reading(parent.pid, "s", "sample") for _ in range(300)]
        finally:
            parent.kill()
    assert {one.child_count for one in readings} >= {0, 1}, "no child was seen coming and going, so nothing was shown"
    assert all(one.pid == parent.pid for one in readings)


def test_figures_are_those_of_this_very_process() -> None:
    idle = threading.Event()
    thread = threading.Thread(target=idle.wait)
    before = process_reading(os.getpid(), "s", "settled")
    thread.start()
    reading, writing = os.pipe()
    after = process_reading(os.getpid(), "s", "settled")
    idle.set()
    thread.join()
    os.close(reading)
    os.close(writing)
    assert before.thread_count is not None and after.thread_count == before.thread_count + 1
    assert before.fd_count is not None and after.fd_count == before.fd_count + 2


def test_a_series_that_is_absent_is_absent_and_labels_are_summed() -> None:
    text = (
        '# TYPE run gauge\nrun{engine="0"} 2\nrun{engine="1"} 3\n'
        '# TYPE done_total counter\ndone_total{finished_reason="stop"} 4\ndone_total{finished_reason="abort"} 1\n'
    )
    target = dataclasses.replace(TARGET, running_gauge="run", waiting_gauge="wait")
    assert parse_metrics(text, target) == ({"running": 5.0}, {"done_total{stop}": 4.0, "done_total{abort}": 1.0})


@pytest.mark.parametrize("text", ["<html>not metrics</html>", "run{ 5", "run five"])
def test_text_that_is_no_metrics_is_said_so(text: str) -> None:
    with pytest.raises(ValueError):
        parse_metrics(text, TARGET)
