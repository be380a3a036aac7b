"""The time of a server in a thread, which a test turns: how fast the machine is changes nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

WAIT_S = 60
TURNS = 10
"""Of the loop, in which it takes what has come and does what is due."""


class Clock:
    """Stands still, but for what a test lets pass."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._now = loop.time()

    def let_pass(self, seconds: float) -> None:
        """So many seconds are over, and the server has done what was due by then."""
        asyncio.run_coroutine_threadsafe(self._pass(seconds), self._loop).result(WAIT_S)

    def read(self) -> float:
        """What the server takes for the time."""
        return self._now

    async def _pass(self, seconds: float) -> None:
        await self._turn()
        self._now += seconds
        await self._turn()

    async def _turn(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)


@contextmanager
def stopped(loop: asyncio.AbstractEventLoop) -> Iterator[Clock]:
    """The clock of a loop in another thread; after the block it goes on from where it stands."""
    clock = Clock(loop)
    loop.time = clock.read  # type: ignore[method-assign]
    try:
        yield clock
    finally:
        ahead = clock.read() - time.monotonic()
        loop.time = lambda: time.monotonic() + ahead  # type: ignore[method-assign]
        loop.call_soon_threadsafe(lambda: None)  # it may be waiting for a time that is nearer now
