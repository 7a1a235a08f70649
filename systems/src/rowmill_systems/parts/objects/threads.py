"""Run blocking calls of a storage in threads of its own, so that a bucket that hangs does not block other users of the
loop's default threads."""

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
        """Run a call. A caller that is cancelled leaves at once; the call goes on unseen."""
        return await asyncio.wrap_future(self._pool.submit(work, *args, **kwargs))

    async def finish(self, work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        """Run a call.

        A caller that is cancelled waits for its end: a file must not be closed while a thread uses it, since its
        descriptor could be another file's by then. `undo` gets the result that nobody takes.
        """
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
        """Iterate over a blocking iterable, a page at a time."""
        iterator = iter(items)
        while page := await self.run(lambda: list(islice(iterator, PAGE))):
            for item in page:
                yield item

    def close(self) -> None:
        self._pool.shutdown(wait=False)
