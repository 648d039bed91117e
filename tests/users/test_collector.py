"""The files of a run: written as they come, and never again once the run is over."""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

from analysis import ids, manifest
from analysis.observation import LoopLag
from tests.analysis import build
from users.collector import Collector


def lag() -> LoopLag:
    """Any observation."""
    return LoopLag(at_unix_s=time.time(), worker=0, lag_s=0.2)


def collector_of(run_dir: Path, unwritable: Callable[[OSError], None] = lambda _: None) -> Collector:
    return Collector(run_dir=run_dir, nonce="0" * 16, revision="r", unwritable=unwritable)


def test_what_comes_after_the_end_does_not_touch_sealed_evidence(tmp_path: Path) -> None:
    collector = collector_of(tmp_path)
    collector.observe(lag())
    collector.close()
    manifest.seal(tmp_path, {})
    collector.observe(lag())
    collector.problem("a message that came late")
    assert manifest.broken_seals(tmp_path) == []


def test_a_shard_that_stays_open_is_named_when_the_run_ends(tmp_path: Path) -> None:
    collector = collector_of(tmp_path)
    collector.begin(0, "r", "host", 1)
    collector.close()
    assert '"event":"missing"' in (tmp_path / manifest.OBSERVATIONS).read_text()


def test_records_that_come_after_the_end_are_not_written(tmp_path: Path) -> None:
    collector = collector_of(tmp_path)
    collector.begin(0, "r", "host", 1)
    collector.close()
    manifest.seal(tmp_path, {})
    record = dataclasses.replace(build.completed("control", 0.0), request_id=ids.make("0" * 16, 0, 0))
    assert collector.add(0, 0, [record.line()]) == []
    assert manifest.broken_seals(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_told_once_and_nothing_is_tried_again(tmp_path: Path) -> None:
    told: list[OSError] = []
    (tmp_path / "file").write_text("")
    collector = collector_of(tmp_path / "file", told.append)  # no folder: writing below it fails
    collector.begin(0, "r", "host", 1)
    collector.problem("nobody hears this")
    assert len(told) == 1
