"""One call for many articles, in which a bad one harms no other."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


async def in_halves(
    items: Sequence[Item],
    call: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
    *,
    blame: tuple[type[Exception], ...],
) -> list[Result | Exception]:
    """Call once for all items. If that raises an error that one item may be to blame for, call for the halves, until
    the bad item is alone: the error takes its place. Other errors are raised.
    """
    if not items:
        return []
    try:
        return list(await call(items))
    except blame as error:
        if len(items) == 1:
            return [error]
    middle = len(items) // 2
    first = await in_halves(items[:middle], call, blame=blame)
    return first + await in_halves(items[middle:], call, blame=blame)


def run_blocking(work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run a coroutine to its end from code that does not await. In a thread of its own, if a loop runs in this one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(work())).result()
