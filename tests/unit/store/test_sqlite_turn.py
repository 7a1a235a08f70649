"""Writing transactions on a SQLite file go one after another, in one process."""

import asyncio

import pytest

from rowmill.store import sqlite_turn
from rowmill.store.sqlite_turn import Turns


class Hall:
    """Where those who write are, and how many there were at once."""

    def __init__(self) -> None:
        self.turns, self.go = Turns(), asyncio.Event()
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
    monkeypatch.setattr(sqlite_turn, "LONGEST_WAIT", 0.01)
    hall = Hall()
    first, second = (asyncio.create_task(hall.write()) for _ in range(2))
    while hall.inside < 2:
        await asyncio.sleep(0.005)
    hall.go.set()
    await asyncio.gather(first, second)
    async with asyncio.timeout(1), hall.turns.turn():
        pass
