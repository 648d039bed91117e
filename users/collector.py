"""The master's side of the evidence: shards and observations, written as they come so that a killed run leaves them.

What a worker sends is checked before it is written, and the names of files are made here, never by a sender.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from analysis import manifest, observation, shard
from analysis.observation import Observation, Problem, WorkerMark
from analysis.record import RequestRecord

MAX_WORKERS = 1_000


@dataclass(slots=True)
class _Shard:
    sheet: shard.Sheet
    batches: int = 0
    closed: bool = False


@dataclass(slots=True)
class Collector:
    """Owns the files of a run directory until the run is sealed.

    `unwritable` is told, once, that the evidence cannot be written; everything after it is dropped, so nothing here raises OSError.
    """

    run_dir: Path
    nonce: str
    revision: str
    unwritable: Callable[[OSError], None]
    _shards: dict[int, _Shard] = field(default_factory=dict)
    _sealed: bool = False
    """Nothing is written any more: the run is over, or the disk is full."""

    def observe(self, note: Observation) -> None:
        """Append an observation; what comes after `close` is dropped, since the run is over and its evidence about to be sealed."""
        if not self._sealed:
            self._write(manifest.OBSERVATIONS, [observation.line(note)])

    def problem(self, detail: str) -> None:
        """Note evidence that could not be collected."""
        self.observe(Problem(at_unix_s=time.time(), detail=detail))

    def begin(self, worker: int, revision: str, host: str, pid: int) -> None:
        """Start the shard of a worker; a second start of the same worker is a problem, and so is another revision."""
        if not 0 <= worker < MAX_WORKERS or worker in self._shards:
            self.problem(f"a worker joined as number {worker}, which is taken or impossible; its records are not kept")
            return
        header = shard.Header(nonce=self.nonce, worker=worker, revision=revision[:64], host=host[:200], pid=pid)
        self._shards[worker] = _Shard(sheet=shard.Sheet(header))
        self._write(shard.name(worker), [self._shards[worker].sheet.begin()])
        self.observe(WorkerMark(at_unix_s=time.time(), worker=worker, event="joined", detail=host[:200]))
        if revision != self.revision:
            self.observe(WorkerMark(at_unix_s=time.time(), worker=worker, event="other_revision", detail=revision[:64]))

    def add(self, worker: int, batch: int, lines: list[str]) -> list[RequestRecord]:
        """Records of a worker, batch by batch from 0; a gap, a bad line or a stranger is a problem. Returns what was written."""
        known = self._shards.get(worker)
        if self._sealed:
            return []
        if known is None or known.closed:
            self.problem(f"records came from worker {worker}, which has no open shard")
            return []
        if batch != known.batches:
            self.problem(f"worker {worker} sent batch {batch} where {known.batches} was due")
        known.batches = batch + 1
        records = []
        for line in lines:
            try:
                records.append(RequestRecord.parse(line))
            except ValueError as error:
                self.problem(f"worker {worker} sent something that is no record: {str(error)[:200]}")
        self._write(shard.name(worker), [known.sheet.row(record) for record in records])
        return records

    def end(self, worker: int, count: int) -> None:
        """The worker says that it is done and has sent `count` records; only then does its shard get a footer."""
        known = self._shards.get(worker)
        if known is None or known.closed:
            return
        known.closed = True
        if count != known.sheet.count:
            self.problem(f"worker {worker} closed {count} records and {known.sheet.count} arrived")
            return
        self._write(shard.name(worker), [known.sheet.end()])
        self.observe(WorkerMark(at_unix_s=time.time(), worker=worker, event="closed"))

    @property
    def all_closed(self) -> bool:
        """Every worker that began has ended."""
        return bool(self._shards) and all(known.closed for known in self._shards.values())

    def close(self) -> None:
        """Name the shards that stay open, and close the files."""
        for worker, known in self._shards.items():
            if not known.closed:
                self.observe(WorkerMark(at_unix_s=time.time(), worker=worker, event="missing", detail="its shard was never closed"))
        self._sealed = True

    def _write(self, name: str, lines: list[str]) -> None:
        if self._sealed:
            return
        try:
            shard.append(self.run_dir / name, lines)
        except OSError as error:
            self._sealed = True
            self.unwritable(error)
