"""The master's eyes on the server: health, gauges and process figures while the load runs and when it rests.

Reads with its own short-lived requests, never with a user's connection. What cannot be read is noted as such, never as zero.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import gevent
import psutil
import requests
from prometheus_client.parser import text_string_to_metric_families

from analysis.observation import HealthReading, MetricsReading, Observation, ProcessReading, ServerExit
from analysis.plan import Target

HEALTH_STEP_S = 0.5
METRICS_STEP_S = 0.25
TIMEOUT_S = 5.0
SETTLE_LIMIT_S = 5.0
SETTLE_FLOOR_S = 0.3


@dataclass(slots=True)
class Observer:
    """`pid` None: the server's process is not on this machine or not known. `exit_code` tells of a launched server that ended."""

    target: Target
    pid: int | None
    observe: Callable[[Observation], None]
    exit_code: Callable[[], int | None]
    headers: dict[str, str]
    token_gap_s: Callable[[], float]
    _stage: str = ""
    _exited: bool = False
    _greenlets: list[gevent.Greenlet] = field(default_factory=list)

    def start(self) -> None:
        """Begin the periodic readings."""
        loops: list[tuple[Callable[[], object], float]] = [(self._health, HEALTH_STEP_S)] if self.target.health_path else []
        loops += [(lambda: self._metrics("sample"), METRICS_STEP_S)] if self.target.metrics_path else []
        self._greenlets = [gevent.spawn(self._every, step_s, read) for read, step_s in [*loops, (self._alive, HEALTH_STEP_S)]]

    def stop(self) -> None:
        """End them."""
        gevent.killall(self._greenlets, block=False)
        self._alive()

    # --- what the director asks ----------------------------------------------------------------------------------

    def now_in(self, stage: str) -> None:
        """A stage began."""
        self._stage = stage

    def settle(self, stage: str) -> None:
        """Until the gauges say zero twice, or a pause of some steps where there are none."""
        pause_s = max(SETTLE_FLOOR_S, 3 * self.token_gap_s())
        gevent.sleep(pause_s)
        until = time.monotonic() + SETTLE_LIMIT_S + 10 * self.token_gap_s()
        calm = 0
        while self.target.metrics_path and calm < 2 and time.monotonic() < until:
            gauges = self._metrics("sample")
            if not gauges:
                return
            calm = calm + 1 if not any(gauges.values()) else 0
            gevent.sleep(0.1)

    def reading(self, stage: str, moment: str) -> None:
        """Gauges and process figures at rest."""
        if self.target.metrics_path:
            self._metrics(moment)
        self._process(moment)

    def watch(self, stage: str, seconds: float) -> None:
        """The periodic readings go on; at the end the process is looked at once more."""
        gevent.sleep(seconds)
        self._process("watched")

    # --- readings ------------------------------------------------------------------------------------------------

    def _every(self, step_s: float, read: Callable[[], object]) -> None:
        while True:
            read()
            gevent.sleep(step_s)

    def _get(self, path: str) -> requests.Response:
        url = self.target.base_url.rstrip("/") + path
        return requests.get(url, headers=self.headers, timeout=TIMEOUT_S, allow_redirects=False)

    def _health(self) -> None:
        began_s, at_unix_s = time.perf_counter(), time.time()
        status, error = None, ""
        try:
            status = self._get(self.target.health_path or "").status_code
        except requests.RequestException as trouble:
            error = type(trouble).__name__
        latency_s = time.perf_counter() - began_s
        self.observe(HealthReading(at_unix_s=at_unix_s, stage=self._stage, status=status, latency_s=latency_s, error=error))

    def _metrics(self, moment: str) -> dict[str, float]:
        gauges: dict[str, float] = {}
        counters: dict[str, float] = {}
        error = ""
        at_unix_s = time.time()
        try:
            answer = self._get(self.target.metrics_path or "")
            if answer.status_code == 200:
                gauges, counters = parse_metrics(answer.text, self.target)
            else:
                error = f"status {answer.status_code}"
        except (requests.RequestException, ValueError) as trouble:
            error = type(trouble).__name__
        self.observe(
            MetricsReading(at_unix_s=at_unix_s, stage=self._stage, moment=moment, gauges=gauges, counters=counters, error=error)
        )
        return gauges

    def _alive(self) -> None:
        code = self.exit_code()
        if code is not None and not self._exited:
            self._exited = True
            self.observe(ServerExit(at_unix_s=time.time(), stage=self._stage, code=code))

    def _process(self, moment: str) -> None:
        if self.pid is not None:
            self.observe(process_reading(self.pid, self._stage, moment))


def parse_metrics(text: str, target: Target) -> tuple[dict[str, float], dict[str, float]]:
    """Gauges under our names and counters under theirs, summed over labels. Raises ValueError for text that is no metrics."""
    sums: dict[str, float] = defaultdict(float)
    counters: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            sums[sample.name] += sample.value
            if family.type == "counter" and sample.name.endswith("_total"):
                reason = sample.labels.get("finished_reason")
                counters[f"{sample.name}{{{reason}}}" if reason else sample.name] += sample.value
    names = {"running": target.running_gauge, "waiting": target.waiting_gauge}
    return {ours: sums[theirs] for ours, theirs in names.items() if theirs in sums}, dict(counters)


@dataclass(frozen=True, slots=True)
class _Figures:
    rss_bytes: int = 0
    fd_count: int = 0
    thread_count: int = 0
    socket_count: int = 0


def process_reading(pid: int, stage: str, moment: str) -> ProcessReading:
    """Figures of a process and its children; `pid` None in the answer when it is gone."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            raise psutil.NoSuchProcess(pid)
        family = [_figures(process), *_children(process)]
        return ProcessReading(
            at_unix_s=time.time(),
            stage=stage,
            moment=moment,
            pid=pid,
            started_unix_s=process.create_time(),
            rss_bytes=sum(each.rss_bytes for each in family),
            fd_count=sum(each.fd_count for each in family),
            thread_count=sum(each.thread_count for each in family),
            socket_count=sum(each.socket_count for each in family),
            child_count=len(family) - 1,
        )
    except psutil.AccessDenied:
        return _nothing(pid, stage, moment)
    except psutil.NoSuchProcess:
        return _nothing(None, stage, moment)


def _figures(process: psutil.Process) -> _Figures:
    """Raises psutil.NoSuchProcess, also for one that ends while it is looked at."""
    sockets = len(process.net_connections())
    return _Figures(process.memory_info().rss, process.num_fds(), process.num_threads(), sockets)


def _children(process: psutil.Process) -> Iterator[_Figures]:
    """Of those that are there: a child may end at any moment, and says nothing about its parent then."""
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            yield _figures(child)


def _nothing(pid: int | None, stage: str, moment: str) -> ProcessReading:
    return ProcessReading(
        at_unix_s=time.time(), stage=stage, moment=moment, pid=pid, started_unix_s=None, rss_bytes=None, fd_count=None,
        thread_count=None, socket_count=None, child_count=None,
    )  # fmt: skip
