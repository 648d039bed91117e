"""The way of one request's events from the scheduler's thread to the event loop.

A burst of events costs the loop one wake-up and not one each, so that an engine that is faster than its clients' sockets
cannot keep the loop from hearing who left, from health checks or from signals.
"""

import asyncio
from collections import deque

from server_launch.reference.request import Event


class Inbox:
    """Events in the order in which they were put; one thread puts, one task gets."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._events: deque[Event] = deque()
        self._arrived = asyncio.Event()
        self._woken = False

    def put(self, event: Event) -> None:
        """From any thread."""
        self._events.append(event)
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._arrived.set)

    async def get(self) -> Event:
        """The next one, once it is there."""
        while not self._events:
            self._arrived.clear()
            self._woken = False
            if not self._events:  # one that came before the flag fell woke nobody
                await self._arrived.wait()
        return self._events.popleft()
