"""An inventory: items of one kind in one place, listed in the order of their keys, page by page.

An item that was not observed is never taken for absent. An inventory that fails, ends early or returns too few items
raises, and rules conclude nothing from the missing part.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from datetime import datetime
from itertools import islice
from typing import Any, Literal

from rowmill.model.duration import Duration, in_seconds
from rowmill.model.errors import DeclarationError, RowmillError
from rowmill.reconcile.item import END, Facts, Item, as_item, time_in
from rowmill.reconcile.sorting import SortedRuns
from rowmill.store.port import Store

PAGE = 2000
Page = Sequence[Item]
Pages = AsyncGenerator[Page, None]
Expected = int | Callable[[], int | Awaitable[int]] | None
Source = Callable[[], Any] | Iterable[Any]
Look = Callable[[Sequence[Any]], Awaitable[Mapping[Any, Facts] | Iterable[Any]]]


class Incomplete(RowmillError):
    """An inventory ended before it had listed everything."""

    def __init__(self, message: str, code: str, *, anywhere: bool) -> None:
        super().__init__(message)
        self.code = code
        self.anywhere = anywhere
        """True if items may be missing anywhere, not only at the end."""


class Inventory:
    """Base of all inventories. A run reads `walk`."""

    sort = False
    """True if keys come in any order and have to be sorted first."""
    timeout: float | None = None
    """Seconds for one page. A page that takes longer counts as not observed."""

    def __init__(
        self, *, at: str | None, many: bool = False, expects: Expected = None, epoch: Literal["s", "ms"] = "s"
    ) -> None:
        self.at = at
        self.many = many
        self.expects = expects
        self.epoch = epoch

    @property
    def can_look(self) -> bool:
        """Whether single items can be rechecked up again."""
        return True

    def time_of(self, facts: Facts) -> datetime | None:
        return time_in(facts, self.at, self.epoch)

    def pages(self, store: Store) -> Pages:
        """Yield all items in pages, in the order of keys; in any order with `sort`."""
        raise NotImplementedError

    async def look(self, store: Store, keys: Sequence[Any]) -> dict[Any, Facts]:
        """Return those of these items that exist now, with their facts."""
        raise NotImplementedError

    async def walk(self, store: Store) -> Pages:
        """Yield all items in pages, in the order of keys. Raises Incomplete if there were fewer than expected."""
        expected = self.expects() if callable(self.expects) else self.expects
        least = await expected if inspect.isawaitable(expected) else expected
        given = 0
        async with aclosing(self._sorted(store) if self.sort else self.pages(store)) as pages:
            async for page in pages:
                given += len(page)
                yield page
        if least is not None and given < least:
            raise Incomplete(f"it gave {given:,} things and should have {least:,}", "too_few", anywhere=True)

    async def _sorted(self, store: Store) -> Pages:
        """Sort all items before the first is yielded. A source that breaks off has shown no range of keys
        completely."""
        runs = SortedRuns()
        try:
            async with aclosing(self.pages(store)) as pages:
                async for page in pages:
                    await asyncio.to_thread(runs.add, page)
            entries = iter(runs)
            while page := await asyncio.to_thread(lambda: list(islice(entries, PAGE))):
                yield page
        finally:
            runs.close()


class IterableInventory(Inventory):
    """An inventory of any iterable, async or not."""

    def __init__(
        self, source: Source, *, sort: bool, marked: bool, look: Look | None, timeout: float | None, **common: Any
    ) -> None:  # fmt: skip
        super().__init__(**common)
        if hasattr(source, "__anext__") or hasattr(source, "__next__"):
            raise DeclarationError(
                "inventory",
                [
                    "its source can be read only once, and the second run would find nothing there: "
                    "pass the function that makes it, not what it made"
                ],
                "source of an",
            )
        self.source = source
        self.sort = sort
        self.marked = marked
        self.timeout = timeout
        self._look = look

    @property
    def can_look(self) -> bool:
        return self._look is not None

    async def look(self, store: Store, keys: Sequence[Any]) -> dict[Any, Facts]:
        assert self._look is not None
        found = await self._look(keys)
        return dict(found) if isinstance(found, Mapping) else dict(as_item(one) for one in found)

    async def pages(self, store: Store) -> Pages:
        made = self.source() if callable(self.source) else self.source
        if inspect.isawaitable(made):
            made = await made
        ended = False
        async with aclosing(async_pages(made) if hasattr(made, "__aiter__") else sync_pages(made)) as given:
            async for page in given:
                if self.marked and page and page[-1] is END:
                    ended = True
                    page = page[:-1]
                yield [as_item(one) for one in page]
        if self.marked and not ended:
            raise Incomplete("it ended without its end marker", "ended_early", anywhere=False)


async def async_pages(source: Any) -> AsyncGenerator[list[Any], None]:
    page: list[Any] = []
    try:
        async for given in source:
            page.append(given)
            if len(page) >= PAGE:
                yield page
                page = []
    except Exception:
        if page:  # items before the failure were observed
            yield page
        raise
    if page:
        yield page


async def sync_pages(source: Iterable[Any]) -> AsyncGenerator[list[Any], None]:
    """Read a sync iterable in pages, always in the same thread: it may block, and may hold objects that belong to a
    thread."""
    loop = asyncio.get_running_loop()
    thread = ThreadPoolExecutor(1, thread_name_prefix="rowmill-inventory")
    try:
        iterator = await loop.run_in_executor(thread, iter, source)
        while True:
            page, error = await loop.run_in_executor(thread, _take, iterator)
            if page:
                yield page
            if error is not None:
                raise error
            if len(page) < PAGE:
                return
    finally:
        thread.shutdown(wait=False)


def _take(iterator: Any) -> tuple[list[Any], Exception | None]:
    page: list[Any] = []
    try:
        for given in islice(iterator, PAGE):
            page.append(given)  # noqa: PERF402 items before an error are kept
    except Exception as error:
        return page, error
    return page, None


def inventory(
    source: Source,
    *,
    at: str | None = "at",
    sort: bool = False,
    many: bool = False,
    expects: Expected = None,
    end_marker: bool = False,
    look: Look | None = None,
    timeout: Duration | None = None,
    epoch: Literal["s", "ms"] = "s",
) -> IterableInventory:
    """Return an inventory of anything: objects of a bucket, points of a vector store.

    `source` is a function that returns an iterable, async or not, of keys or `(key, facts)` in ascending order; with
    `sort`, in any order. A blocking iterable is read in a thread. `at` names the fact that holds the item's time. With
    `many`, a key may occur several times, like the points of one document. `expects` is the least number of items, or a
    function that returns it: with fewer, the inventory counts as not observed. With `end_marker`, the last item must be
    `END`. `look` gets keys and returns those that exist, for a second look at suspects. `timeout` is the most seconds
    for a page of two thousand items: a slower page counts as not observed.
    """
    return IterableInventory(
        source, sort=sort, marked=end_marker, look=look, timeout=in_seconds(timeout), at=at, many=many,
        expects=expects, epoch=epoch,
    )  # fmt: skip
