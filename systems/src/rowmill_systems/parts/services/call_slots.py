"""Limit calls of a service: in this process first, then in the whole fleet."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import rowmill as rm

LEAST_PERIOD = 0.05
MARGIN_SHARE, LEAST_MARGIN, MOST_MARGIN = 0.5, 0.2, 2.0
"""The margin of a rate.

A call that has to connect first reaches the service later than others, so that two calls may arrive closer together
than they were sent. The margin costs a third of the calls that the service would allow.
"""


class CallSlots:
    """Lets only so many calls at once ask the limit: fifty handlers must not ask the database at the same moment."""

    def __init__(self, limit: rm.limits.Limit, at_once: int, wait: float) -> None:
        self._limit, self._wait = limit, wait
        self._inside = asyncio.Semaphore(at_once)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold a slot for one call. Raises Limited if there is none within the wait.

        A caller that has waited in vain asks the limit all the same: the limit says when to come back.
        """
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
    """Return the rate for so many calls a second.

    A fraction becomes one call per period, so that no second has more calls than the next whole number.
    """
    calls, per = int(calls_per_second), 1.0
    if calls != calls_per_second and 1 / calls_per_second >= LEAST_PERIOD:
        calls, per = 1, 1 / calls_per_second
    return rm.limits.Rate(calls, per, margin=min(max(per * MARGIN_SHARE, LEAST_MARGIN), MOST_MARGIN))
