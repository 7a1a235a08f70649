"""Blocking work of a storage, beside the loop.

The threads are its own: a bucket that hangs must not take the loop's default ones from everybody else.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
PAGE = 500


class StorageThreads:
    def __init__(self, name: str, most: int = 8) -> None:
        self.most = most
        self._pool = ThreadPoolExecutor(most, thread_name_prefix=name)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Whoever is cancelled leaves at once. The work goes on, and nobody sees its end."""
        return await asyncio.wrap_future(self._pool.submit(work, *args, **kwargs))

    async def finish(self, work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        """Whoever is cancelled waits for the work, and leaves then: for files, which must not be closed under a thread.
        Its descriptor could be somebody else's file by then. `undo` is given what nobody takes any more."""
        future = asyncio.wrap_future(self._pool.submit(work))
        cancelled: asyncio.CancelledError | None = None
        while not future.done():
            try:
                await asyncio.wait({future})
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            if future.exception() is None and undo is not None:
                undo(future.result())
            raise cancelled
        return future.result()

    async def pages(self, items: Iterable[T]) -> AsyncIterator[T]:
        """What a blocking iterable gives, a page at a time."""
        iterator = iter(items)
        while page := await self.run(lambda: list(islice(iterator, PAGE))):
            for item in page:
                yield item

    def close(self) -> None:
        self._pool.shutdown(wait=False)
