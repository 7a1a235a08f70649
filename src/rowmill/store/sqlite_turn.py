"""Whose turn it is to write to a SQLite file, in one process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

LONGEST_WAIT = 5.0
"""Seconds; as long as SQLite itself would wait."""


class Turns:
    """One writing transaction after another. SQLite would let them wait as well, but by looking again and again: of
    fifty that wait, none gets far. Other processes are waited for in SQLite's way."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._ours: ContextVar[bool] = ContextVar("ours", default=False)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Whoever has the turn already, or waits for it in vain, goes on and hears from SQLite."""
        taken = not self._ours.get() and await self._taken()
        token = self._ours.set(True)
        try:
            yield
        finally:
            self._ours.reset(token)
            if taken:
                self._lock.release()

    async def _taken(self) -> bool:
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                return await self._lock.acquire()
        except TimeoutError:
            return False
