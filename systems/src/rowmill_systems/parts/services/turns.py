"""Whose turn it is to call a service: in this process first, then in the fleet."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import rowmill as rm

LEAST_PERIOD = 0.05
MARGIN_SHARE, LEAST_MARGIN, MOST_MARGIN = 0.5, 0.2, 2.0
"""A call often has to open a connection first, and reaches the service later than calls usually do. To be on the safe
side costs a third of the calls that the service would have allowed."""


class Turns:
    """Calls queue up here before they ask the limit, so that fifty handlers don't ask the database all at once."""

    def __init__(self, limit: rm.limits.Limit, at_once: int, wait: float) -> None:
        self._limit, self._wait = limit, wait
        self._inside = asyncio.Semaphore(at_once)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Room for one call, for the time of the block. Who has waited in vain asks the limit all the same: it says
        when to come back, and gives those who wait turns one after another."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._wait
        ours = await self._came_in()
        try:
            async with self._limit.call(wait=max(until - loop.time(), 0.0)):
                yield
        finally:
            if ours:
                self._inside.release()

    async def _came_in(self) -> bool:
        try:
            async with asyncio.timeout(self._wait):
                await self._inside.acquire()
        except TimeoutError:
            return False
        return True


def rate_of(calls_per_second: float) -> rm.limits.Rate:
    """Whole numbers as they are; with a fraction, one call every so often, so that no second has more than the next
    whole number."""
    calls, per = int(calls_per_second), 1.0
    if calls != calls_per_second and 1 / calls_per_second >= LEAST_PERIOD:
        calls, per = 1, 1 / calls_per_second
    return rm.limits.Rate(calls, per, margin=min(max(per * MARGIN_SHARE, LEAST_MARGIN), MOST_MARGIN))
