"""Items that are asked for at the same moment, in one call."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from rowmill.systems.entities.asking.flights import seen

PAUSE = 0.03
"""Seconds for which items gather."""


class Gatherer:
    """Asks for an item once, however many want it: of what is known already, it asks nothing; for the rest, once so
    many have gathered or a moment has passed. Those who wait may be cancelled; the others get their answer."""

    def __init__(
        self,
        known: Callable[[Sequence[str]], Awaitable[Mapping[str, Any]]],
        ask: Callable[[Sequence[str]], Awaitable[Mapping[str, Any]]],
        *,
        most: int,
        pause: float = PAUSE,
    ) -> None:
        """`ask` answers for every item, with an exception for those that it has no answer for."""
        self._known, self._ask, self._most, self._pause = known, ask, most, pause
        self._wanted: dict[str, asyncio.Future[Any]] = {}
        """All that are not answered yet."""
        self._gathered: dict[str, asyncio.Future[Any]] = {}
        """Those of them that wait for the next call."""
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def get(self, items: Sequence[str]) -> dict[str, Any]:
        futures = {item: self._future(item) for item in items}
        if futures:
            await asyncio.wait(futures.values())
        return {item: future.result() for item, future in futures.items()}

    def _future(self, item: str) -> "asyncio.Future[Any]":
        if item in self._wanted:
            return self._wanted[item]
        loop = asyncio.get_running_loop()
        future = self._wanted[item] = loop.create_future()
        future.add_done_callback(seen)
        self._gathered[item] = future
        if len(self._gathered) >= self._most:
            self._go()
        elif self._timer is None:
            self._timer = loop.call_later(self._pause, self._go)
        return future

    def _go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        some, self._gathered, self._timer = self._gathered, {}, None
        task = asyncio.create_task(self._answer(some), name="entities batch")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, some: "Mapping[str, asyncio.Future[Any]]") -> None:
        """These and no others: what is told is wanted anew by the next one, perhaps before the rest is answered."""
        try:
            known = await self._known(list(some))
            self._tell(some, known)
            left = [item for item in some if item not in known]
            self._tell(some, await self._ask(left) if left else {})
        except Exception as error:
            self._tell(some, {item: error for item, future in some.items() if not future.done()})
        finally:
            for item, future in some.items():
                future.cancel()
                self._answered(item, future)

    def _tell(self, some: "Mapping[str, asyncio.Future[Any]]", answers: Mapping[str, Any]) -> None:
        for item, answer in answers.items():
            future = some[item]
            self._answered(item, future)
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _answered(self, item: str, future: "asyncio.Future[Any]") -> None:
        if self._wanted.get(item) is future:
            del self._wanted[item]

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for future in self._wanted.values():
            future.cancel()
