"""A worker's account of its requests: each is numbered when it starts and handed on exactly once when it ends."""

from collections.abc import Callable
from dataclasses import dataclass, field

from analysis import ids
from analysis.record import RequestRecord


@dataclass(slots=True)
class Recorder:
    """`ship` takes the records of a batch; it is called from `flush` only, never from inside a request."""

    nonce: str
    worker: int
    ship: Callable[[list[RequestRecord]], None]
    _next: int = 0
    _open: set[int] = field(default_factory=set)
    _ready: list[RequestRecord] = field(default_factory=list)

    def open(self) -> tuple[int, str]:
        """Number and id of a request that begins now."""
        sequence, self._next = self._next, self._next + 1
        self._open.add(sequence)
        return sequence, ids.make(self.nonce, self.worker, sequence)

    def forget(self, sequence: int) -> None:
        """A number whose request could not even be built: it is given to the next, or stays a gap that the judge names."""
        self._open.remove(sequence)
        if sequence == self._next - 1:
            self._next = sequence

    def close(self, record: RequestRecord) -> None:
        """The one record of a request. Raises KeyError for one that is not open: that would be a second."""
        self._open.remove(record.sequence)
        self._ready.append(record)

    def flush(self) -> None:
        """Ship what is ready."""
        if self._ready:
            batch, self._ready = self._ready, []
            self.ship(batch)

    @property
    def count(self) -> int:
        """Requests opened so far."""
        return self._next

    @property
    def open_count(self) -> int:
        """Requests that are open now."""
        return len(self._open)
