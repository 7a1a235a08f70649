"""An inventory: things of one kind in one place, listed in the order of their keys, page by page.

"Could not observe" is never "absent": an inventory that fails, ends early or gives too few says so by an exception, and
what would follow from its silence is not concluded.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from datetime import datetime
from itertools import islice
from typing import Any, Literal

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
    """An inventory ended before it had given everything."""

    def __init__(self, message: str, code: str, *, anywhere: bool) -> None:
        super().__init__(message)
        self.code = code
        self.anywhere = anywhere
        """What is missing may be missing at any place, not only at the end."""


class Inventory:
    """What all inventories have in common. `walk` is what a run reads."""

    sort = False
    """It gives keys in any order: they are sorted on the way."""
    timeout: float | None = None
    """Seconds for a page. One that takes longer was not observed."""

    def __init__(
        self, *, at: str | None, many: bool = False, expects: Expected = None, epoch: Literal["s", "ms"] = "s"
    ) -> None:
        self.at = at
        self.many = many
        self.expects = expects
        self.epoch = epoch

    @property
    def can_look(self) -> bool:
        """Can single things be looked at again?"""
        return True

    def time_of(self, facts: Facts) -> datetime | None:
        return time_in(facts, self.at, self.epoch)

    def pages(self, store: Store) -> Pages:
        """Everything, in pages, in the order of keys; or in any order, to be sorted."""
        raise NotImplementedError

    async def look(self, store: Store, keys: Sequence[Any]) -> dict[Any, Facts]:
        """Those of these things that are there now."""
        raise NotImplementedError

    async def walk(self, store: Store) -> Pages:
        """Everything, in the order of keys. Raises Incomplete when it gave fewer things than it has to."""
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
        """Nothing is given until all was seen: a source that breaks before has shown no stretch of keys completely."""
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


class Listed(Inventory):
    """An inventory out of any iterable of the user's, async or not."""

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
        if page:  # what it gave before it failed was seen
            yield page
        raise
    if page:
        yield page


async def sync_pages(source: Iterable[Any]) -> AsyncGenerator[list[Any], None]:
    """In a thread, always the same one: an iterable may block, and may hold what belongs to a thread."""
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
            page.append(given)  # noqa: PERF402 what came before an error was seen
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
    timeout: float | None = None,
    epoch: Literal["s", "ms"] = "s",
) -> Listed:
    """An inventory of anything: objects of a bucket, points of a vector store.

    `source` is a function that gives an iterable, async or not (one that blocks is read in a thread), of keys or
    `(key, facts)`, in ascending order; with `sort`, in any order. `at` names the fact that is the thing's time. With
    `many`, a key may come several times, as those of the points of one document do. `expects` is the least number of
    things, or a function that asks for it: with fewer, the inventory was not observed. With `end_marker`, the last
    item has to be `END`. `look` is given keys and answers those that are there, for a second look at suspects. An
    inventory that takes longer than `timeout` seconds for a page of two thousand things was not observed any further.
    """
    return Listed(
        source, sort=sort, marked=end_marker, look=look, timeout=timeout, at=at, many=many, expects=expects, epoch=epoch
    )  # fmt: skip
