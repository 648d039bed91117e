"""The Locust users: what they have in common, and one class for each way a client behaves.

A user takes the next item of the plan that is meant for its class, does it, and takes another. What it does is said by the
item's fault; the classes keep the kinds apart in Locust's user mix, statistics and web UI.
"""

from typing import Any, ClassVar

from locust import User, task

from analysis.record import RequestRecord
from analysis.vocabulary import Outcome, Role
from users.agenda import Job
from users.exchange import Exchange, Link
from users.worker import Worker


class Client(User):
    """Takes items and does them; `worker` is set for all users of a process before the first is spawned."""

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
        fresh_one = job.item.role is not Role.BAD and job.index % 4 == 3  # now and then: both ways have to work
        if fresh_one or not self.keeps_connection:
            self._link.drop()
        exchange = None
        try:
            exchange = Exchange(
                worker.request(job), self._link, job.release, lambda phase: worker.agenda.note(job, phase)
            )
            exchange.run()
        finally:
            if exchange is not None:
                record = worker.finished(job, exchange)
                self._tell_locust(job, record)
            worker.agenda.end(job)

    def on_stop(self) -> None:
        """Leave no connection behind."""
        if self._link is not None:
            self._link.drop()

    def _tell_locust(self, job: Job, record: RequestRecord) -> None:
        """Locust's own statistics: what was expected is a success there."""
        self.environment.events.request.fire(
            request_type="POST",
            name=_name(record),
            response_time=record.ended_s * 1000,
            response_length=len(record.text),
            exception=None if _expected(record) else Unexpected(f"{record.outcome}: {record.detail}"),
            context={"request_id": record.request_id},
            start_time=record.started_unix_s,
            url=None,
        )


class Unexpected(Exception):
    """An end that the item did not aim at; shown in Locust's failures."""


def _name(record: RequestRecord) -> str:
    if record.role is Role.BAD:
        return "bad request"
    mode = "stream" if record.stream else "whole"
    return f"{record.endpoint} {mode}" if record.fault == "none" else record.fault.replace("_", " ")


def _expected(record: RequestRecord) -> bool:
    if record.role is Role.BAD and record.outcome in (Outcome.REJECTED, Outcome.COMPLETED):
        return True
    if record.fault == "none":
        return record.outcome is Outcome.COMPLETED
    return record.outcome in (Outcome.CANCELLED, Outcome.DISCONNECTED, Outcome.COMPLETED)


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
