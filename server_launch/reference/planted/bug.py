"""What a planted bug is, and how one is written: a subclass of `Planted` whose docstring is its sentence, under `@plant`."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from server_launch.reference.http import HttpServer
from server_launch.reference.request import Phase, Request
from server_launch.reference.scheduler import Scheduler
from server_launch.reference.seams import Seams


class Kind(IntEnum):
    """The fifteen kinds of faults that public reports on LLM servers recur to."""

    LOST_ABORT = 1
    """A client that left is not noticed, or its abort is lost, in one phase or on one path."""
    ONE_FOR_ALL = 2
    """One request kills or freezes the server for everybody."""
    LEAK = 3
    """A cancel or an error keeps slots, cache, permits, descriptors or memory for ever."""
    NO_PROGRESS = 4
    """The server looks alive and makes no progress, or looks dead and works."""
    UNANSWERED = 5
    """A request is accepted and never answered."""
    WRONG_VERDICT = 6
    """A client's error gets the wrong answer, or a parameter is accepted and ignored."""
    NEIGHBOUR_HARMED = 7
    """A request suffers from the cancel or the failure of another."""
    OVERLOAD = 8
    """Pressure beyond the cap is unbounded, wrongly signalled, or leaves damage behind."""
    STARVATION = 9
    """Requests are overtaken, starved, or held up behind one."""
    PRESSURE = 10
    """Text is truncated, doubled or wrong when memory or batch are full."""
    STREAM_END = 11
    """A stream ends wrongly: sentinel, finish reason, end of body, error inside."""
    STREAM_CONTENT = 12
    """A stream carries wrong content: tokens, characters, usage, ids."""
    CROSSTALK = 13
    """An answer carries what belongs to another request, or depends on its neighbours."""
    FALSE_FIGURES = 14
    """Gauges, counters or traces do not tell what happened."""
    RANK_FAILURE = 15
    """A failure between ranks damages or hangs what is in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """One planted bug."""

    name: str
    sentence: str
    """What the server does wrong."""
    source: str
    """The public report that it follows."""
    kind: Kind
    checks: tuple[str, ...]
    """Checks of the gate, at least one of which has to fail."""
    seams: type[Seams]
    server: tuple[str, ...] = ()
    """Further options of the server."""
    gate: tuple[str, ...] = ()
    """Further options of the gate."""


BUGS: dict[str, Bug] = {}
"""Every bug whose module has been imported."""


_Class = TypeVar("_Class", bound=type[Seams])


def plant(kind: Kind, source: str, *checks: str, server: tuple[str, ...] = (), gate: tuple[str, ...] = ()) -> Callable[[_Class], _Class]:
    """Register a class under its own name in kebab case, with its docstring as the sentence."""

    def register(seams: _Class) -> _Class:
        name = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[0-9])(?=[A-Z])", "-", seams.__name__).lower()
        sentence = " ".join((seams.__doc__ or "").split())
        if name in BUGS:
            raise ValueError(f"two planted bugs are called {name}")
        BUGS[name] = Bug(name=name, sentence=sentence, source=source, kind=kind, checks=checks, seams=seams, server=server, gate=gate)
        return seams

    return register


class Planted(Seams):
    """Seams that count, so that a bug acts on every n-th occasion instead of by chance."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def nth(self, every: int, what: str = "") -> bool:
        """True on each `every`-th call for `what`."""
        self._counts[what] += 1
        return self._counts[what] % every == 0

    def client_gone(self, server: HttpServer, request: Request) -> None:
        super().client_gone(server, request)
        if request.gone:
            self.after_abort(server.scheduler, request)

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        """A client left and its abort was taken (event loop, no lock)."""


def others(scheduler: Scheduler, request: Request | None = None) -> list[Request]:
    """Requests in decode whose clients are there, apart from this one; the oldest first."""
    with scheduler.lock:
        return [each for each in scheduler.active if each is not request and each.phase is Phase.DECODE and not each.gone]


def wrong(scheduler: Scheduler, token: int) -> int:
    """Some other token than this one."""
    return (token + 7) % scheduler.engine.vocab_size
