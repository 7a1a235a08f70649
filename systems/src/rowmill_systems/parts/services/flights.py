"""The same question, asked by several at once, goes out once."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Flight:
    task: "asyncio.Task[Any]"
    waiting: int = 0


class Flights:
    """Each runs in a task of its own: whoever asked first may be cancelled, and the others still get their answer. If
    nobody waits any more, it is given up."""

    def __init__(self) -> None:
        self._under_way: dict[str, Flight] = {}

    async def join(self, key: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """What the work answers or raises, begun now unless it is under way."""
        flight = self._under_way.get(key) or self._begin(key, work)
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                self._end(key, flight)
                flight.task.cancel()

    def _begin(self, key: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> Flight:
        flight = self._under_way[key] = Flight(asyncio.create_task(work(), name="entities question"))
        flight.task.add_done_callback(lambda task: self._end(key, flight))
        flight.task.add_done_callback(seen)
        return flight

    def _end(self, key: str, flight: Flight) -> None:
        if self._under_way.get(key) is flight:
            del self._under_way[key]

    async def close(self) -> None:
        tasks = [flight.task for flight in self._under_way.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def seen(future: "asyncio.Future[Any]") -> None:
    """Its error is nobody's loss if nobody waits for it."""
    if not future.cancelled():
        future.exception()
