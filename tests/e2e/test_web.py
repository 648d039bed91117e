"""The web UI: a person starts a run in the browser and stops it, and finds the same files as after a headless run."""

from pathlib import Path

import pytest
import requests

from tests.e2e.gate import gate, until
from tests.e2e.test_reference import free_port

pytestmark = pytest.mark.e2e


def test_a_run_started_and_stopped_in_the_web_ui_leaves_a_verdict(tmp_path: Path) -> None:
    port = str(free_port())
    with gate(tmp_path, "--seed", "1", "--web-host", "127.0.0.1", "--web-port", port, headless=False) as run:
        page = f"http://127.0.0.1:{port}"
        until(lambda: "Starting web interface" in run.said, "the web interface", run)
        until(lambda: answers(page), "the page", run)
        started = requests.post(f"{page}/swarm", data={"user_count": "1", "spawn_rate": "1"}, timeout=30)
        assert started.json()["success"], started.text
        run.wait_for_stage("control")
        assert requests.post(f"{page}/stop", timeout=60).ok
        until(lambda: (run.run_dir / "verdict.json").exists(), "the verdict", run)
        assert run.verdict["verdict"] == "unknown", run.said[-6000:]
        assert run.status("evidence.complete") == "unknown"
        assert run.status("outcomes.normal") != "fail"
        run.process.terminate()
        assert run.wait() == 3, run.said[-2000:]


def answers(page: str) -> bool:
    """Whether somebody serves the page."""
    try:
        return requests.get(page, timeout=5).status_code == 200
    except requests.ConnectionError:
        return False
