"""Logs that scream at every client that leaves."""

import logging

from server_launch.reference.planted.bug import Kind, Planted, plant
from server_launch.reference.request import Request
from server_launch.reference.scheduler import Scheduler

_log = logging.getLogger("reference::http")


@plant(Kind.LOST_ABORT, "InternLM/lmdeploy #4776", "log.clean")
class AbortLogsTraceback(Planted):
    """Cleaning up after a client that left calls a method that does not exist, and the error is only logged."""

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        try:
            raise AttributeError("'Session' object has no attribute 'async_end'")
        except AttributeError:
            _log.exception("cleaning up after %s failed", request.id)


@plant(Kind.LOST_ABORT, "sgl-project/sglang #36876", "log.clean")
class AbortFloodsLog(Planted):
    """Each client that left is warned of two hundred times."""

    def after_abort(self, scheduler: Scheduler, request: Request) -> None:
        for attempt in range(200):
            _log.warning("request %s not found in the batch, attempt %d", request.id, attempt)
