"""Send a question that several callers ask at once only once."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class PendingCall:
    task: "asyncio.Task[Any]"
    waiting: int = 0


class SingleFlight:
    """Runs one call per key at a time, and gives its result to all who wait for it.

    Each call runs in a task of its own: the first caller may be cancelled, and the others still get the result. A call
    that nobody waits for is cancelled.
    """

    def __init__(self) -> None:
        self._under_way: dict[str, PendingCall] = {}

    async def join(self, key: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Return the result of the call of this key. Starts `work` unless a call is under way."""
        flight = self._under_way.get(key) or self._begin(key, work)
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                self._end(key, flight)
                flight.task.cancel()

    def _begin(self, key: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> PendingCall:
        flight = self._under_way[key] = PendingCall(asyncio.create_task(work(), name="service question"))
        flight.task.add_done_callback(lambda task: self._end(key, flight))
        flight.task.add_done_callback(seen)
        return flight

    def _end(self, key: str, flight: PendingCall) -> None:
        if self._under_way.get(key) is flight:
            del self._under_way[key]

    async def close(self) -> None:
        tasks = [flight.task for flight in self._under_way.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def seen(future: "asyncio.Future[Any]") -> None:
    """Mark the error of a future as retrieved: it may have no caller left."""
    if not future.cancelled():
        future.exception()
