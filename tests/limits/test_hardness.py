"""What a fleet does to limits on a bad day: lost answers, cancellations, leases of every length, odd keys."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import rowmill as rm
from rowmill.limits.clock import SECONDS, DatabaseClock
from rowmill.limits.grants import Grant
from rowmill.store.limits.asks import Limiter, PermitsTaken, TakePermits
from rowmill.store.port import Disconnected
from tests.limits.granting import client_of
from tests.work.shop import shop_on, soon, until


class AnswersLost:
    """A limiter over a connection that breaks after the database has done what it was asked, so many times."""

    def __init__(self, limiter: Limiter, times: int) -> None:
        self.limiter, self.times = limiter, times
        self.finish, self.renew = limiter.finish, limiter.renew

    async def take(self, asks: Sequence[TakePermits]) -> list[PermitsTaken]:
        answer = await self.limiter.take(asks)
        if self.times:
            self.times -= 1
            raise Disconnected("the answer was lost")
        return answer


async def test_a_question_whose_answer_was_lost_is_asked_again(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", concurrent=5, budget=rm.limits.Budget(10))
        client = client_of(shop)
        client._limiter = AnswersLost(client._limiter, 2)
        async with eqc.call():
            state = await eqc.state()
        after = await eqc.state()

    assert (state.slots, state.reserved) == (3, 3), "what was granted in vain comes back with its lease"
    assert (after.slots, after.reserved, after.spent) == (2, 2, 1)


async def test_a_call_that_is_given_up_just_as_it_is_granted_holds_nothing(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", concurrent=5)
        client = client_of(shop)
        given_up: list[asyncio.Task[None]] = []

        async def first() -> None:
            [grant] = await client.take(eqc.terms, "", 1, [0])
            assert isinstance(grant, Grant)
            given_up[0].cancel()  # the other's answer is there, and it has not seen it yet
            ended = client.end_soon([grant], "ok")
            assert ended is not None
            await ended

        async def second() -> None:
            await client.take(eqc.terms, "", 1, [0])
            raise AssertionError("it was given up before")

        waits = asyncio.create_task(first())
        given_up.append(asyncio.create_task(second()))
        await waits
        await asyncio.wait(given_up)
        assert given_up[0].cancelled()
        await shop.mill.limits.closed()
        assert (await eqc.state()).slots == 0


async def test_a_block_of_several_calls_that_is_cancelled_at_its_end_holds_nothing(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shop_on(database_url) as shop:
        a, b = shop.mill.limit("a", concurrent=5), shop.mill.limit("b", concurrent=5)
        client = client_of(shop)
        finish, ending, go_on = client._limiter.finish, asyncio.Event(), asyncio.Event()

        async def slow(ask: Any) -> Any:
            ending.set()
            await go_on.wait()
            return await finish(ask)

        monkeypatch.setattr(client._limiter, "finish", slow)

        async def both() -> None:
            async with rm.limits.together(a.call(), b.call()):
                pass

        task = asyncio.create_task(both())
        await soon(ending)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.wait([task])
        await shop.mill.limits.closed()
        assert [(await limit.state()).slots for limit in (a, b)] == [0, 0]


async def test_an_end_that_fails_is_heard_of_by_its_own_call_alone(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls that end at the same time are told together, whatever their limits."""
    async with shop_on(database_url) as shop:
        a, b = shop.mill.limit("a", concurrent=5), shop.mill.limit("b", concurrent=5)
        client, begun = client_of(shop), asyncio.Barrier(2)
        finish = client._limiter.finish

        async def refused(ask: Any) -> Any:
            if ask.rules.name == "a":
                raise RuntimeError("the database does not take what it cost")
            return await finish(ask)

        monkeypatch.setattr(client._limiter, "finish", refused)

        async def call(limit: rm.limits.Limit) -> None:
            async with limit.call():
                await begun.wait()

        ends = await asyncio.gather(call(a), call(b), return_exceptions=True)
        assert [type(end) for end in ends] == [RuntimeError, type(None)]
        assert (await b.state()).slots == 0


async def test_a_short_lease_is_renewed_beside_a_long_one(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with shop_on(database_url) as shop:
        long = shop.mill.limit("long", concurrent=1, lease=3600.0)
        short = shop.mill.limit("short", concurrent=1, lease=1.0)
        client, renewed = client_of(shop), asyncio.Event()
        renew = client._limiter.renew

        async def noted(tickets: Sequence[int], seconds: float) -> set[int]:
            found = await renew(tickets, seconds)
            if seconds == 1.0:
                renewed.set()
            return found

        monkeypatch.setattr(client._limiter, "renew", noted)
        async with long.call():
            await asyncio.sleep(0)  # its renewals have begun
            async with short.call():
                await soon(renewed)


async def test_a_row_without_a_key_does_not_stand_for_all_keys(database_url: str) -> None:
    """What holds for the whole limit is kept under no key: a tenant without a name must not switch off all others."""
    async with shop_on(database_url, retry=rm.Retry(attempts=1)) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(50, per=60.0))

        @shop.jobs.handler(limits=[eqc.by("title")])
        async def look_up(job: rm.Lease[Any]) -> None:
            if not job.row.title:
                raise rm.errors.ProviderRefused("no token for them")

        await shop.put(1, title="")
        await shop.put(1, title=None)
        async with shop.working():
            await until(lambda: shop.named("limit_off"))
            await shop.put(1, title="known")
            await until(lambda: any(one["move"] == "done" for one in shop.named("settled")))
        assert (await eqc.state("known")).available
        assert not (await eqc.state("(none)")).available


@pytest.mark.parametrize("key", ["\0", "\ud800", "x" * 1001], ids=["nul", "surrogate", "long"])
async def test_a_key_that_no_database_takes_is_a_failure_of_its_row_alone(database_url: str, key: str) -> None:
    async with shop_on(database_url, retry=rm.Retry(attempts=1)) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(50, per=60.0))

        @shop.jobs.handler(limits=[eqc.by(lambda job: key if job.id == 2 else "fine")])
        async def look_up(job: rm.Lease[Any]) -> None: ...

        await shop.put(3)
        await shop.drain()
        assert await shop.states() == {"done": 2, "dead": 1}
        with pytest.raises(ValueError, match="key of a limit"):
            eqc.call(key)


@pytest.mark.parametrize("name", ["", "two words", "tab\tbed", "line\n", "x" * 201])
def test_a_name_that_could_not_be_told_from_a_key_is_refused(sqlite_url: str, name: str) -> None:
    with pytest.raises(rm.errors.DeclarationError, match="name"):
        rm.Mill(sqlite_url).limit(name, concurrent=1)


@pytest.mark.parametrize("wait", [float("nan"), float("inf"), -5.0])
async def test_a_provider_that_says_nonsense_is_not_parked_for_ever(database_url: str, wait: float) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(5, per=1.0))
        with pytest.raises(rm.RateLimited):
            async with eqc.call():
                raise rm.RateLimited(retry_after=wait)
        parked = (await eqc.state()).parked_until
    assert (parked is not None) == (wait != -5.0), "a time that nobody can read is the usual minute"


def test_a_comparison_of_clocks_is_forgotten_after_a_pause() -> None:
    clock = DatabaseClock()
    clock.note(0.0, 100.0)
    clock.note(10 * SECONDS, 10 * SECONDS + 200.0)  # the database moved to a machine whose clock is ahead
    assert clock.ours(1000.0) == 800.0
    clock.note(10 * SECONDS + 1, 10 * SECONDS + 201.5)
    assert clock.ours(1000.0) == 800.0, "the quickest answer counts"


def test_a_period_that_is_longer_than_calls_are_remembered_is_refused() -> None:
    with pytest.raises(ValueError, match="30 days"):
        rm.limits.Rate(5, per=rm.days(31))
