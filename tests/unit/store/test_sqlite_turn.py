"""Whose turn it is to write: it ends with its block, for whoever knew it."""

import asyncio
from collections.abc import AsyncGenerator

from rowmill.store.sqlite_turn import Turns


async def is_free(turns: Turns) -> bool:
    """Does somebody else get the turn at once?"""

    async def take() -> None:
        async with turns.turn():
            pass

    other = asyncio.create_task(take())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    free = other.done()
    other.cancel()
    await asyncio.wait([other])
    return free


async def test_a_turn_in_a_generator_that_is_closed_elsewhere_comes_back() -> None:
    turns = Turns()

    async def reading() -> AsyncGenerator[int, None]:
        async with turns.turn():
            yield 1

    generator = reading()
    assert await anext(generator) == 1
    await asyncio.create_task(generator.aclose())  # as the loop does with one that nobody reads to its end
    assert await is_free(turns)


async def test_a_task_that_was_started_in_a_turn_waits_for_its_own_afterwards() -> None:
    turns, over, has_it, go = Turns(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def later() -> None:
        async with turns.turn():
            pass  # it is its parent's still
        await over.wait()
        async with turns.turn():
            has_it.set()
            await go.wait()

    async with turns.turn():
        started = asyncio.create_task(later())
        await asyncio.sleep(0)
    over.set()
    await has_it.wait()
    assert not await is_free(turns)
    go.set()
    await started
