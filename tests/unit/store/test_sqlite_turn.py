"""Writing transactions on a SQLite file go one after another, in one process."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from rowmill.store.sqlite import writer
from rowmill.store.sqlite.writer import WriteTurns


class Hall:
    """Where those who write are, and how many there were at once."""

    def __init__(self) -> None:
        self.turns, self.go = WriteTurns(), asyncio.Event()
        self.inside = self.most = 0

    async def write(self) -> None:
        async with self.turns.turn():
            self.inside += 1
            self.most = max(self.most, self.inside)
            await self.go.wait()
            await asyncio.sleep(0)
            self.inside -= 1


async def test_one_after_another() -> None:
    hall = Hall()
    hall.go.set()
    await asyncio.gather(*(hall.write() for _ in range(20)))
    assert hall.most == 1


async def test_who_has_the_turn_has_it_still() -> None:
    hall = Hall()
    hall.go.set()
    async with hall.turns.turn(), asyncio.timeout(1):
        await hall.write()
    async with asyncio.timeout(1):
        await hall.write()


async def test_who_is_cancelled_keeps_nobody() -> None:
    hall = Hall()
    first, second, third = (asyncio.create_task(hall.write()) for _ in range(3))
    while not hall.inside:
        await asyncio.sleep(0)
    second.cancel()
    first.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    hall.go.set()
    async with asyncio.timeout(1):
        await third


async def test_who_waits_in_vain_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "LONGEST_WAIT", 0.01)
    hall = Hall()
    first, second = (asyncio.create_task(hall.write()) for _ in range(2))
    while hall.inside < 2:
        await asyncio.sleep(0.005)
    hall.go.set()
    await asyncio.gather(first, second)
    async with asyncio.timeout(1), hall.turns.turn():
        pass


async def is_free(turns: WriteTurns) -> bool:
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
    turns = WriteTurns()

    async def reading() -> AsyncGenerator[int, None]:
        async with turns.turn():
            yield 1

    generator = reading()
    assert await anext(generator) == 1
    await asyncio.create_task(generator.aclose())  # as the loop does with one that nobody reads to its end
    assert await is_free(turns)


async def test_a_task_that_was_started_in_a_turn_waits_for_its_own_afterwards() -> None:
    turns, over, has_it, go = WriteTurns(), asyncio.Event(), asyncio.Event(), asyncio.Event()

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
