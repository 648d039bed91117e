"""The workers of a run as Locust's runners know them, named by their index; a run without workers is a fleet of one."""

from collections.abc import Callable, Mapping
from typing import Any

from locust.runners import STATE_MISSING, LocalRunner, MasterRunner

LOCAL = "0"


class LocustFleet:
    """Messages and seats over a LocalRunner or a MasterRunner."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    def seats(self) -> Mapping[str, Mapping[str, int]]:
        """Users by class for each worker."""
        if isinstance(self._runner, LocalRunner):
            return {LOCAL: dict(self._runner.user_classes_count)}
        indexes = self._runner.worker_indexes
        there = [node for node in self._runner.clients.all if node.id in indexes and node.state != STATE_MISSING]
        return {str(indexes[node.id]): dict(node.user_classes_count) for node in there}

    def send(self, kind: str, data: dict[str, Any], worker: str | None = None) -> None:
        """A message to one worker, or to all."""
        client = None
        if worker is not None and isinstance(self._runner, MasterRunner):
            client = next((name for name, index in self._runner.worker_indexes.items() if str(index) == worker), None)
            if client is None:
                return
        self._runner.send_message(kind, data, client)


def listen(runner: Any, listeners: Mapping[str, Callable[[dict[str, Any]], None]]) -> None:
    """Register listeners by kind of message; each gets the message's data."""
    for kind, listener in listeners.items():
        runner.register_message(kind, _listener(listener))


def _listener(listener: Callable[[dict[str, Any]], None]) -> Callable[..., None]:
    def receive(environment: Any, msg: Any, **_: Any) -> None:
        listener(msg.data)

    return receive
