"""What many ask of the database at the same moment is one round; one that can't be done keeps no other."""

import asyncio
from collections.abc import Sequence

import pytest

import rowmill as rm
from rowmill_systems.parts.services.batcher import Batcher


class Clerk:
    """Doubles numbers, in rounds that it notes; it can't do odd ones."""

    def __init__(self) -> None:
        self.rounds: list[list[int]] = []
        self.go = asyncio.Event()
        self.away = False

    async def work(self, asked: Sequence[int]) -> list[int]:
        self.rounds.append(list(asked))
        await self.go.wait()
        if self.away:
            raise rm.errors.DatabaseUnreachable("away")
        if any(number % 2 for number in asked):
            raise ValueError("odd")
        return [2 * number for number in asked]


async def begun(clerk: Clerk, rounds: int = 1) -> None:
    while len(clerk.rounds) < rounds:
        await asyncio.sleep(0)


async def test_those_who_ask_while_a_round_is_under_way_are_the_next() -> None:
    clerk = Clerk()
    rounds = Batcher(clerk.work)
    first = asyncio.create_task(rounds.ask(2))
    await begun(clerk)
    rest = [asyncio.create_task(rounds.ask(number)) for number in (4, 6, 8)]
    await asyncio.sleep(0)
    clerk.go.set()
    assert await asyncio.gather(first, *rest) == [4, 8, 12, 16]
    assert clerk.rounds == [[2], [4, 6, 8]]


async def test_one_that_cant_be_done_keeps_no_other() -> None:
    clerk = Clerk()
    clerk.go.set()
    rounds = Batcher(clerk.work)
    answers = await asyncio.gather(*(rounds.ask(number) for number in (2, 3, 4)), return_exceptions=True)
    assert (answers[0], answers[2]) == (4, 8)
    assert isinstance(answers[1], ValueError)


async def test_a_database_that_is_away_is_away_for_all() -> None:
    clerk = Clerk()
    clerk.away = True
    clerk.go.set()
    rounds = Batcher(clerk.work)
    answers = await asyncio.gather(*(rounds.ask(number) for number in (2, 4)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [rm.errors.DatabaseUnreachable] * 2
    assert clerk.rounds == [[2, 4]], "nobody is tried alone"


async def test_who_is_cancelled_is_left_out_and_the_rest_goes_on() -> None:
    clerk = Clerk()
    rounds = Batcher(clerk.work)
    first = asyncio.create_task(rounds.ask(2))
    await begun(clerk)
    gone, stays = asyncio.create_task(rounds.ask(4)), asyncio.create_task(rounds.ask(6))
    await asyncio.sleep(0)
    gone.cancel()
    first.cancel()
    await asyncio.gather(first, gone, return_exceptions=True)
    clerk.go.set()
    assert await stays == 12
    assert clerk.rounds == [[2], [6]]


async def test_a_round_of_nobody_is_none() -> None:
    clerk = Clerk()
    rounds = Batcher(clerk.work)
    first = asyncio.create_task(rounds.ask(2))
    await begun(clerk)
    gone = asyncio.create_task(rounds.ask(4))
    await asyncio.sleep(0)
    gone.cancel()
    clerk.go.set()
    assert await first == 4
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert await rounds.ask(6) == 12
    assert clerk.rounds == [[2], [6]]
