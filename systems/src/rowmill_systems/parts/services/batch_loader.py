"""Load items that several callers want at the same moment by one call."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from rowmill_systems.parts.services.single_flight import seen

PAUSE = 0.03
"""Seconds for which items are collected before they are looked up."""
Item = TypeVar("Item")
Take = Callable[[], Sequence[Item]]
"""Takes the items of one call from those that wait. Call it once, when the call can be made."""


class BatchLoader(Generic[Item]):
    """Loads each item once for all callers, and many items in one call.

    Items are looked up first, and those that are known are not asked for. The others wait until a call can be made:
    which items go into it is decided then. Callers may be cancelled; the others get their result.
    """

    def __init__(
        self,
        known: Callable[[Sequence[Item]], Awaitable[Mapping[Item, Any]]],
        ask: Callable[[Take[Item]], Awaitable[Mapping[Item, Any]]],
        *,
        most: int,
        pause: float = PAUSE,
    ) -> None:
        """`known` looks items up. `ask` takes items, and returns an answer or an exception for each of them."""
        self._known, self._ask, self._most, self._pause = known, ask, most, pause
        self._wanted: dict[Item, asyncio.Future[Any]] = {}
        """All items without an answer."""
        self._new: dict[Item, asyncio.Future[Any]] = {}
        """Of these, those that were not looked up yet."""
        self._unknown: dict[Item, asyncio.Future[Any]] = {}
        """Of these, those that wait for a call, the oldest first."""
        self._callers = 0
        """Calls that wait to be made: as many as all unknown items need."""
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
        task = asyncio.create_task(work, name="service batch")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sort_out(self, some: "dict[Item, asyncio.Future[Any]]") -> None:
        """Return what is known to its callers, and let the other items wait for a call."""
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
        """Cancel the futures that have no answer."""
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
