"""Whose turn it is to write to a SQLite file, in one process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

LONGEST_WAIT = 5.0
"""Seconds; as long as SQLite itself would wait."""


class Held:
    """A turn. Tasks that were started in it know it for as long as they live, and it may end in another task than it
    began in, as in a generator that nobody reads to its end: so it says itself whether it is over."""

    now = True


class Turns:
    """One writing transaction after another. SQLite would let them wait as well, but by looking again and again: of
    fifty that wait, none gets far. Other processes are waited for in SQLite's way."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._held: ContextVar[Held | None] = ContextVar("held", default=None)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Whoever has the turn already, or waits for it in vain, goes on and hears from SQLite."""
        ours = self._held.get()
        if ours is not None and ours.now:
            yield
            return
        taken = await self._taken()
        held = Held()
        self._held.set(held)
        try:
            yield
        finally:
            held.now = False
            if taken:
                self._lock.release()

    async def _taken(self) -> bool:
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                return await self._lock.acquire()
        except TimeoutError:
            return False
