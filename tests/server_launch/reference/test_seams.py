"""The seams: the honest server is the base class, and a subclass that overrides one method changes that decision alone."""

import inspect

import pytest

from server_launch.reference import http, scheduler
from server_launch.reference.planted import load
from server_launch.reference.request import Request
from server_launch.reference.scheduler import Scheduler
from server_launch.reference.seams import Seams
from tests.server_launch.reference.test_scheduler import Bench, NotedSeams


class CancelLeaksSlot(NotedSeams):
    """A request that was cancelled in decode keeps its slot for ever; the gauges say that it is free."""

    def __init__(self) -> None:
        super().__init__()
        self._leaked = 0

    def free(self, scheduler: Scheduler, request: Request) -> None:
        if request.gone and request in scheduler.active:
            self._leaked += 1
        super().free(scheduler, request)

    def may_admit(self, scheduler: Scheduler) -> bool:
        return len(scheduler.active) + self._leaked < scheduler.options.active_cap


def test_without_a_name_the_server_is_honest() -> None:
    assert type(load(None)) is Seams


@pytest.mark.parametrize(("seams", "served"), [(NotedSeams(), 2), (CancelLeaksSlot(), 1)])
def test_one_override_is_one_bug(seams: NotedSeams, served: int) -> None:
    bench = Bench.with_seams(seams)
    leaver = bench.submit(20, max_tokens=9)
    bench.scheduler.round()
    bench.scheduler.abort(leaver)
    bench.run()
    assert seams.running(bench.scheduler) == 0
    bench.submit(30, max_tokens=9), bench.submit(40, max_tokens=9)
    bench.scheduler.round()
    assert len(bench.scheduler.active) == served


def test_every_seam_is_asked_by_the_server() -> None:
    asking = inspect.getsource(scheduler) + inspect.getsource(http) + inspect.getsource(Seams)
    for name in vars(Seams):
        if not name.startswith("__"):
            assert f"seams.{name}(" in asking or f"self.{name}(" in asking, name
