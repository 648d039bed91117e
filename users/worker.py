"""What a worker process holds during a run: its part of the plan, its account of requests, and its line to the master."""

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import gevent

from analysis.plan import Plan
from analysis.record import RequestRecord
from faults import proofs
from users import lessons
from users.agenda import Agenda, Job
from users.exchange import Exchange
from users.lessons import Book, Lesson
from users.making import Maker
from users.recorder import Recorder
from users.request import Request
from users.rounds import Round
from users.wire import Address, Link

FLUSH_S = 0.5
LAG_STEP_S = 0.05
LAG_NOTED_S = 0.1

Send = Callable[[str, dict[str, Any]], None]
"""Sends a message of this type to the master."""


@dataclass(slots=True)
class Worker:
    """One for each process that runs users, from the plan's arrival to the last footer."""

    plan: Plan
    index: int
    api_key: str | None
    revision: str
    send: Send
    address: Address = field(init=False)
    agenda: Agenda = field(init=False)
    recorder: Recorder = field(init=False)
    book: Book = field(default_factory=Book)
    _maker: Maker = field(init=False)
    _batch: int = 0
    _closed: bool = False
    _links: list[Link] = field(default_factory=list)
    _news: list[Lesson] = field(default_factory=list)
    _greenlets: list[gevent.Greenlet] = field(default_factory=list)
    _of: ClassVar[dict[int, "Worker"]] = {}

    def __post_init__(self) -> None:
        self.address = Address.parse(self.plan.target.base_url)
        self.agenda = Agenda(self.plan, self.index, self._tell)
        self.recorder = Recorder(nonce=self.plan.nonce, worker=self.index, ship=self._ship)
        self._maker = Maker(plan=self.plan, worker=self.index, api_key=self.api_key, address=self.address, book=self.book)

    @classmethod
    def of(cls, environment: Any) -> "Worker":
        """The worker of a Locust environment."""
        return cls._of[id(environment)]

    def start(self, environment: Any) -> None:
        """Begin: announce the shard, flush regularly, watch our own clock."""
        self._of[id(environment)] = self
        self.send("gate_shard_begin", {"worker": self.index, "revision": self.revision, "host": socket.gethostname(), "pid": os.getpid()})
        self._greenlets = [gevent.spawn(self._flush_forever), gevent.spawn(self._watch_lag)]

    def begin(self, new: Round) -> None:
        """A round arrived from the master, with what all workers know by now."""
        self.book.lessons[:] = new.lessons
        self.agenda.begin(new)

    def stop(self) -> None:
        """Ship what is left and close the shard; idempotent. Call when no user is in the middle of a request any more."""
        if self._closed:
            return
        self._closed = True
        gevent.killall(self._greenlets, block=False)
        self.recorder.flush()
        self.send("gate_shard_end", {"worker": self.index, "count": self.recorder.count - self.recorder.open_count})

    # --- for the users -------------------------------------------------------------------------------------------

    def link(self) -> Link:
        """A user's connection to the server; all are dropped when a round is over, so that none of ours is open while the server rests."""
        self._links.append(Link(self.address))
        return self._links[-1]

    def request(self, job: Job) -> Request:
        """The request of an item, numbered and ready to be sent."""
        sequence, request_id = self.recorder.open()
        try:
            return self._maker.make(job, sequence, request_id)
        except Exception:
            self.recorder.forget(sequence)
            raise

    def finished(self, exchange: Exchange) -> RequestRecord:
        """Close the record of an exchange, whatever became of it."""
        record = exchange.record()
        if record.row is not None:
            known = proofs.Known(prompt=self.plan.prompts[record.prompt], reference=self.book.text(record.prompt, record.endpoint))
            record = proofs.proven(record, self.plan.rows[record.row].proof, known)
        self.recorder.close(record)
        lesson = lessons.learned(record)
        self._news += [lesson] if lesson is not None else []
        return record

    # --- to the master -------------------------------------------------------------------------------------------

    def _tell(self, kind: str, number: int, value: str) -> None:
        news: list[Lesson] = []
        if kind == "done":
            for link in self._links:
                link.drop()
            news, self._news = self._news, []
            self.recorder.flush()
        message = {"worker": self.index, "round": number, "kind": kind, "value": value, "lessons": [each.message() for each in news]}
        self.send("gate_progress", message)

    def _ship(self, records: list[RequestRecord]) -> None:
        self.send("gate_records", {"worker": self.index, "batch": self._batch, "lines": [record.line() for record in records]})
        self._batch += 1

    def _flush_forever(self) -> None:
        while True:
            gevent.sleep(FLUSH_S)
            self.recorder.flush()

    def _watch_lag(self) -> None:
        """Our loop should come round every step; when it does not, nobody else is to blame for that time."""
        while True:
            before_s = time.perf_counter()
            gevent.sleep(LAG_STEP_S)
            lag_s = time.perf_counter() - before_s - LAG_STEP_S
            if lag_s > LAG_NOTED_S:
                self.send("gate_lag", {"worker": self.index, "at_unix_s": time.time(), "lag_s": lag_s})
