"""The Locust users: what they have in common, and one class for each way a client behaves.

A user takes the next item of the plan that is meant for its class, does it, and takes another. What it does is said by the
item's fault; the classes keep the kinds apart in Locust's user mix, statistics and web UI.
"""

from typing import Any, ClassVar

from locust import User, task

from analysis.record import RequestRecord
from analysis.vocabulary import Contract, Outcome, Role
from users.exchange import Exchange
from users.wire import Link
from users.worker import Worker

FRESH = 4
"""Every so many items a normal client comes with a fresh connection: both ways have to work."""


class Client(User):
    """Takes items and does them."""

    abstract = True
    keeps_connection: ClassVar[bool] = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._link: Link | None = None

    @task
    def work(self) -> None:
        """One item of the plan."""
        worker = Worker.of(self.environment)
        job = worker.agenda.take(type(self).__name__)
        if self._link is None:
            self._link = worker.link()
        if not self.keeps_connection or (job.item.role is not Role.BAD and job.index % FRESH == FRESH - 1):
            self._link.drop()
        exchange = None
        try:
            exchange = Exchange(worker.request(job), self._link, job.release, lambda phase: worker.agenda.note(job, phase))
            exchange.run()
        finally:
            if exchange is not None:
                record = worker.finished(exchange)
                self._tell_locust(record, None if record.row is None else worker.plan.rows[record.row].contract)
            worker.agenda.end(job)

    def on_stop(self) -> None:
        """Leave no connection behind."""
        if self._link is not None:
            self._link.drop()

    def _tell_locust(self, record: RequestRecord, contract: Contract | None) -> None:
        """Locust's own statistics: what was expected is a success there."""
        self.environment.events.request.fire(
            request_type="POST",
            name=kind(record, contract),
            response_time=record.ended_s * 1000,
            response_length=len(record.text),
            exception=None if expected(record, contract) else Unexpected(f"{record.outcome}: {record.detail}"),
            context={"request_id": record.request_id},
            start_time=record.started_unix_s,
            url=None,
        )


class NormalUser(Client):
    """Sends a request and reads the answer to its end."""


class CancellingUser(Client):
    """Leaves after some tokens."""

    keeps_connection = False


class DisconnectingUser(Client):
    """Leaves before the first token, while queued, in prefill, or with nothing of a whole answer seen."""

    keeps_connection = False


class HoldingUser(Client):
    """Holds a slot until the stage lets go."""

    keeps_connection = False


class MalformedUser(Client):
    """Sends bad and corner-case requests."""


USERS: tuple[type[Client], ...] = (NormalUser, CancellingUser, DisconnectingUser, HoldingUser, MalformedUser)


class Unexpected(Exception):
    """An end that the item did not aim at; shown in Locust's failures."""


_KINDS = {Contract.MUST_REFUSE: "bad request", Contract.EITHER: "odd request", Contract.MUST_SERVE: "legal corner case"}
_SERVED = (Outcome.COMPLETED, Outcome.CANCELLED)
_ENDS = {Contract.MUST_REFUSE: (Outcome.REJECTED,), Contract.EITHER: (Outcome.REJECTED, *_SERVED), Contract.MUST_SERVE: _SERVED}


def kind(record: RequestRecord, contract: Contract | None) -> str:
    """What a request is called in Locust's statistics."""
    if contract is not None:
        return _KINDS[contract]
    return f"{record.endpoint} {'stream' if record.stream else 'whole'}" if record.fault == "none" else record.fault.replace("_", " ")


def expected(record: RequestRecord, contract: Contract | None) -> bool:
    """It ended in a way that its kind may end; whether that was right in every respect is for the judge to say."""
    if contract is not None:
        return record.outcome in _ENDS[contract]
    if record.fault == "none":
        return record.outcome is Outcome.COMPLETED
    return record.outcome in (Outcome.CANCELLED, Outcome.DISCONNECTED, Outcome.COMPLETED)
