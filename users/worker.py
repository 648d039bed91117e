"""What a worker process holds during a run: its part of the plan, its account of requests, and its line to the master."""

import os
import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import gevent

from analysis.plan import Group, Plan
from analysis.record import RequestRecord
from analysis.vocabulary import Endpoint, Outcome, Role
from faults import FAULTS, bad_requests, proofs
from faults.fault import Aim
from users import bodies
from users.agenda import Agenda, Job
from users.exchange import Exchange, Link
from users.recorder import Recorder
from users.request import Place, Request, head
from users.rounds import Round, Speed
from users.wire import Address

FLUSH_S = 0.5
LAG_STEP_S = 0.05
LAG_NOTED_S = 0.1
ENDLESS_S = 30.0
MARGIN_TOKENS = 96

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
    _batch: int = 0
    _closed: bool = False
    _links: list[Link] = field(default_factory=list)
    _speeds: list[tuple[float, float]] = field(default_factory=list)
    _references: dict[tuple[str, Endpoint], str] = field(default_factory=dict)
    _greenlets: list[gevent.Greenlet] = field(default_factory=list)
    _of: ClassVar[dict[int, "Worker"]] = {}

    def __post_init__(self) -> None:
        self.address = Address.parse(self.plan.target.base_url)
        self.agenda = Agenda(self.plan, self.index, self._tell)
        self.recorder = Recorder(nonce=self.plan.nonce, worker=self.index, ship=self._ship)

    @classmethod
    def of(cls, environment: Any) -> Self:
        """The worker of a Locust environment."""
        return cls._of[id(environment)]  # type: ignore[return-value]

    def start(self, environment: Any) -> None:
        """Begin: announce the shard, flush regularly, watch our own clock."""
        self._of[id(environment)] = self
        self.send("gate_shard_begin", {"worker": self.index, "revision": self.revision, "host": socket.gethostname(), "pid": os.getpid()})
        self._greenlets = [gevent.spawn(self._flush_forever), gevent.spawn(self._watch_lag)]

    def stop(self) -> None:
        """Ship what is left and close the shard; idempotent. Call when no user is in the middle of a request any more."""
        if self._closed:
            return
        self._closed = True
        gevent.killall(self._greenlets, block=False)
        self.recorder.flush()
        self.send("gate_shard_end", {"worker": self.index, "count": self.recorder.count - self.recorder.open_count})

    def link(self) -> Link:
        """A user's connection to the server; all are dropped when a round is over, so that none of ours is open while the server rests."""
        self._links.append(Link(self.address))
        return self._links[-1]

    # --- requests ------------------------------------------------------------------------------------------------

    def request(self, job: Job) -> Request:
        """The request of an item, numbered and ready to be sent."""
        sequence, request_id = self.recorder.open()
        try:
            return self._bad(job, sequence, request_id) if job.item.row else self._normal(job, sequence, request_id)
        except Exception:
            self.recorder.forget(sequence)
            raise

    def finished(self, job: Job, exchange: Exchange) -> RequestRecord:
        """Close the record of an exchange, whatever became of it."""
        record = exchange.record()
        if record.row is not None:
            known = proofs.Known(prompt=self.plan.prompts[record.prompt], reference=self._references.get((record.prompt, record.endpoint)))
            record = proofs.proven(record, self.plan.rows[record.row].proof, known)
        self.recorder.close(record)
        self._learn(record)
        return record

    def _normal(self, job: Job, sequence: int, request_id: str) -> Request:
        item, target = job.item, self.plan.target
        max_tokens = self._size(item.size, item.prompt, job.round.speed)
        body = bodies.normal(
            target, item.endpoint, self.plan.prompts[item.prompt], stream=item.stream, max_tokens=max_tokens, request_id=request_id
        )
        data = bodies.encode(body)
        headers = self._headers(request_id, item.stream) | {"Content-Type": "application/json", "Content-Length": str(len(data))}
        return Request(
            **self._common(job, sequence, request_id),
            method="POST",
            head=head("POST", self.address.prefix + bodies.PATHS[item.endpoint], headers),
            body=data,
            max_tokens=max_tokens,
            asked_usage=item.stream,
        )

    def _bad(self, job: Job, sequence: int, request_id: str) -> Request:
        item, target = job.item, self.plan.target
        assert item.row is not None
        unit = max(1, job.round.speed.unit_tokens)
        context = bad_requests.Context(
            target=target, prompt=self.plan.prompts[item.prompt], request_id=request_id, max_tokens=unit,
            reference=self._references.get((item.prompt, item.endpoint), ""),
        )  # fmt: skip
        built = bad_requests.build(bad_requests.catalogue()[item.row], item.endpoint, item.stream, context)
        headers = self._headers(request_id, item.stream) | {"Content-Length": str(len(built.body))} | built.headers
        return Request(
            **self._common(job, sequence, request_id),
            method=built.method,
            head=head(built.method, self.address.prefix + built.path, headers),
            body=built.body,
            max_tokens=built.max_tokens,
            asked_usage=False,
        )

    def _common(self, job: Job, sequence: int, request_id: str) -> dict[str, Any]:
        item, stage = job.item, self.plan.stages[job.round.stage]
        place = Place(stage=stage.name, group=job.group.name, item=job.index, role=item.role, prompt=item.prompt, row=item.row)
        fault = FAULTS[item.fault](self._aim(job))
        return {
            "request_id": request_id, "worker": self.index, "sequence": sequence, "place": place, "endpoint": item.endpoint,
            "stream": item.stream, "fault": fault, "ending": item.ending,
            "deadline_s": job.round.deadline_s * (3 if item.role is Role.HOLDER else 1),
            "refusal_event": self.plan.target.stream_refusal == "status_or_event",
        }  # fmt: skip

    def _aim(self, job: Job) -> Aim:
        group: Group = job.group
        speed = job.round.speed
        return Aim(
            tokens=job.item.tokens, hold_tokens=group.hold_tokens, hold_s=group.hold_s, first_token_s=speed.first_token_s,
            token_gap_s=speed.token_gap_s, draw=job.draw.random(),
        )  # fmt: skip

    def _headers(self, request_id: str, stream: bool) -> dict[str, str]:
        headers = {
            "Host": self.address.host_header,
            "User-Agent": "llm-reliability-gate",
            "Accept": "text/event-stream" if stream else "application/json",
            "X-Request-Id": request_id,
        }
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        return headers

    def _size(self, size: str, prompt: str, speed: Speed) -> int:
        """max_tokens of a request. Endless: as much as the context surely holds, and no more than half a minute of work."""
        if size == "unit":
            return speed.unit_tokens
        if size != "endless":
            return int(size)
        context = self.plan.target.context_length or 2048
        room = context - len(self.plan.prompts[prompt].encode()) - MARGIN_TOKENS
        work = int(ENDLESS_S / speed.token_gap_s) if speed.token_gap_s else room
        return max(16, min(room, max(256, work)))

    # --- what is learned on the way ------------------------------------------------------------------------------

    def _learn(self, record: RequestRecord) -> None:
        if record.outcome is not Outcome.COMPLETED or record.role not in (Role.WARM_UP, Role.REFERENCE):
            return
        if record.role is Role.REFERENCE:
            self._references.setdefault((record.prompt, record.endpoint), record.text)
        times = record.token_times_s
        if len(times) > 1 and record.sent_s is not None:
            gap_s = (times[-1] - times[0]) / (len(times) - 1)
            self._speeds.append((times[0] - record.sent_s, gap_s))

    def _tell(self, kind: str, number: int, value: str) -> None:
        speeds = [list(map(statistics.median, zip(*self._speeds, strict=True)))] if kind == "done" and self._speeds else []
        if kind == "done":
            for link in self._links:
                link.drop()
            self._speeds = []
            self.recorder.flush()
        self.send("gate_progress", {"worker": self.index, "round": number, "kind": kind, "value": value, "speeds": speeds})

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


def begin(new: Worker, message: dict[str, Any]) -> None:
    """A round arrived from the master."""
    new.agenda.begin(Round.parse(message))



