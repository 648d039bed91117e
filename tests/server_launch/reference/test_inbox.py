"""Events go from a thread to the loop, all of them and in order, and a burst does not cost the loop a wake-up each."""

import asyncio
import threading
from typing import Any

from server_launch.reference.inbox import Inbox
from server_launch.reference.request import Piece

COUNT = 20_000


def piece(number: int) -> Piece:
    return Piece(str(number))


def test_all_events_arrive_in_order_while_both_sides_run() -> None:
    async def got() -> list[str]:
        inbox = Inbox(asyncio.get_running_loop())
        putting = threading.Thread(target=lambda: [inbox.put(piece(number)) for number in range(COUNT)])
        putting.start()
        texts = []
        async with asyncio.timeout(60):
            while len(texts) < COUNT:
                event = await inbox.get()
                assert isinstance(event, Piece)
                texts.append(event.text)
        return texts

    assert asyncio.run(got()) == [str(number) for number in range(COUNT)]


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts how often it is woken from outside."""

    woken = 0

    def call_soon_threadsafe(self, *args: Any, **options: Any) -> asyncio.Handle:
        self.woken += 1
        return super().call_soon_threadsafe(*args, **options)


def test_a_burst_wakes_the_loop_once() -> None:
    async def woken() -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CountingLoop)
        inbox = Inbox(loop)
        for number in range(COUNT):
            inbox.put(piece(number))
        await inbox.get()
        return loop.woken

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        assert runner.run(woken()) == 1
