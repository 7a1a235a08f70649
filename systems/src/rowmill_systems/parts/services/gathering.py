"""Items that are asked for at the same moment, in one call."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from rowmill_systems.parts.services.flights import seen

PAUSE = 0.03
"""Seconds for which items gather before we look which of them are known."""
Item = TypeVar("Item")
Take = Callable[[], Sequence[Item]]
"""Takes the items of one call out of those that wait. To be called once, when the call can be made."""


class Gatherer(Generic[Item]):
    """Asks for an item once, however many want it, and for many in one call.

    Items that are known already are not asked for. The rest waits while the call waits for its turn: which items go
    into it is decided when it is made. Those who wait may be cancelled; the others get their answer.
    """

    def __init__(
        self,
        known: Callable[[Sequence[Item]], Awaitable[Mapping[Item, Any]]],
        ask: Callable[[Take[Item]], Awaitable[Mapping[Item, Any]]],
        *,
        most: int,
        pause: float = PAUSE,
    ) -> None:
        """`ask` takes items, and answers for each of them, with an exception for those that it has no answer for."""
        self._known, self._ask, self._most, self._pause = known, ask, most, pause
        self._wanted: dict[Item, asyncio.Future[Any]] = {}
        """All that are not answered yet."""
        self._new: dict[Item, asyncio.Future[Any]] = {}
        """Those of them that were not looked up yet."""
        self._unknown: dict[Item, asyncio.Future[Any]] = {}
        """Those of them that wait for a call, the oldest first."""
        self._callers = 0
        """Calls that wait for their turn: as many as it takes for all that are unknown."""
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def get(self, items: Sequence[Item]) -> dict[Item, Any]:
        futures = {item: self._future(item) for item in items}
        if futures:
            await asyncio.wait(futures.values())
        return {item: future.result() for item, future in futures.items()}

    def _future(self, item: Item) -> "asyncio.Future[Any]":
        if item in self._wanted:
            return self._wanted[item]
        loop = asyncio.get_running_loop()
        future = self._wanted[item] = loop.create_future()
        future.add_done_callback(seen)
        self._new[item] = future
        if len(self._new) >= self._most:
            self._look_up()
        elif self._timer is None:
            self._timer = loop.call_later(self._pause, self._look_up)
        return future

    def _look_up(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        some, self._new, self._timer = self._new, {}, None
        self._start(self._sort_out(some))

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work, name="entities batch")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sort_out(self, some: "dict[Item, asyncio.Future[Any]]") -> None:
        """Tell what is known, and let the rest wait for a call."""
        try:
            known = await self._known(list(some))
        except Exception as error:
            known = dict.fromkeys(some, error)
        except BaseException:
            self._give_up(some)
            raise
        self._tell(some, known)
        self._unknown |= {item: future for item, future in some.items() if item not in known}
        while self._callers * self._most < len(self._unknown):
            self._callers += 1
            self._start(self._call())

    async def _call(self) -> None:
        taken: dict[Item, asyncio.Future[Any]] = {}
        waits = True

        def take() -> Sequence[Item]:
            nonlocal waits
            if waits:
                waits = False
                self._callers -= 1
                for item in list(self._unknown)[: self._most]:
                    taken[item] = self._unknown.pop(item)
            return list(taken)

        try:
            self._tell(taken, await self._ask(take))
        except Exception as error:
            self._tell(taken, dict.fromkeys(take(), error))
        finally:
            take()
            self._give_up(taken)

    def _tell(self, some: "Mapping[Item, asyncio.Future[Any]]", answers: Mapping[Item, Any]) -> None:
        for item, answer in answers.items():
            future = some[item]
            self._answered(item, future)
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _give_up(self, some: "Mapping[Item, asyncio.Future[Any]]") -> None:
        """Those that were not told."""
        for item, future in some.items():
            future.cancel()
            self._answered(item, future)

    def _answered(self, item: Item, future: "asyncio.Future[Any]") -> None:
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
