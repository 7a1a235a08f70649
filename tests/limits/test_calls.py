"""Calls within limits, in plain code: they wait as long as they are told, or raise."""

import asyncio
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pytest

import rowmill as rm
from rowmill.store.limits.asks import PermitsTaken, TakePermits
from rowmill.store.sqlite.writer import Writer
from tests.limits.granting import client_of
from tests.work.shop import shop_on


def stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole process, for longer than permits are fresh: its clock is further on than it has run."""
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + 0.3)


async def test_a_call_without_room_is_refused_with_the_time_to_wait(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(1, per=60.0))
        async with eqc.call():
            pass
        with pytest.raises(rm.errors.Limited) as refused:
            async with eqc.call():
                raise AssertionError("it must not get here")

    assert (refused.value.limit, refused.value.reason, refused.value.code) == ("eqc", "rate", "limit_rate")
    assert 55 < refused.value.retry_after < 70


async def test_a_call_may_wait_for_room(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(2, per=0.1))
        made = 0
        for _ in range(6):
            async with eqc.call(wait=10.0):
                made += 1
    assert made == 6


async def test_calls_at_the_same_time_are_one_question(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(500, per=60.0))
        asked = []
        take = shop.mill.store.limiter.take

        async def counted(asks: Sequence[TakePermits]) -> list[PermitsTaken]:
            asked.append(sum(ask.calls for ask in asks))
            return await take(asks)

        monkeypatch.setattr(client_of(shop)._limiter, "take", counted)

        async def one(key: int) -> None:
            async with eqc.call(key % 3):
                pass

        await asyncio.gather(*(one(key) for key in range(200)))
    assert sum(asked) == 200
    assert len(asked) <= 3


async def test_a_permit_that_has_grown_old_is_given_back_and_asked_for_again(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(5, per=60.0, margin=0.2))
        asked = []
        take = shop.mill.store.limiter.take

        async def stalled(asks: Sequence[TakePermits]) -> list[PermitsTaken]:
            found = await take(asks)
            asked.append(1)
            if len(asked) == 1:
                stand_still(monkeypatch)
            return found

        monkeypatch.setattr(client_of(shop)._limiter, "take", stalled)
        async with eqc.call():
            pass
        await shop.mill.limits.closed()
        assert (len(asked), (await eqc.state()).calls) == (2, 1)


async def test_rows_whose_permits_have_grown_old_ask_again(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(500, per=60.0, margin=0.2))
        late: list[float] = []
        granted = [0.0]
        take = shop.mill.store.limiter.take

        async def noted(asks: Sequence[TakePermits]) -> list[PermitsTaken]:
            granted[0] = time.monotonic()
            for ask in asks:
                ask.late = 0.0
            return await take(asks)

        monkeypatch.setattr(client_of(shop)._limiter, "take", noted)

        @shop.jobs.handler(limits=[eqc], concurrency=4)
        async def look_up(job: rm.Lease[Any]) -> None:
            late.append(time.monotonic() - granted[0])
            if job.key % 50 == 0:
                stand_still(monkeypatch)

        await shop.put(200)
        await shop.drain()
        assert max(late) < 0.3, "none ran on a permit from before the process stood still"


async def test_a_budget_takes_the_true_cost_and_gives_back_the_rest(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        model = shop.mill.limit("model", budget=rm.limits.Budget(Decimal("1.00"), per="day"))
        async with model.call(cost=Decimal("0.75")) as call:
            inside = await model.state()
            call.cost(Decimal("0.100001"))
        after = await model.state()
        with pytest.raises(rm.errors.Limited) as refused:
            async with model.call(cost=Decimal("0.9")):
                pass
        with pytest.raises(rm.PermanentError, match="more than the whole budget"):
            async with model.call(cost=2):
                pass

    assert (inside.spent, inside.reserved) == (0, Decimal("0.75"))
    assert (after.spent, after.reserved) == (Decimal("0.100001"), 0)
    assert refused.value.reason == "budget"


async def test_a_budget_per_run_begins_anew_with_each_run(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", budget=rm.limits.Budget(2, per="run"))
        made = []
        for run in ("monday", "tuesday", "monday"):
            eqc.begin_run(run)
            for _ in range(3):
                try:
                    async with eqc.call():
                        made.append(run)
                except rm.errors.Limited:
                    pass
    assert made == ["monday", "monday", "tuesday", "tuesday"]


async def test_several_limits_as_one_call(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        a = shop.mill.limit("a", rate=rm.limits.Rate(5, per=60.0), concurrent=2)
        b = shop.mill.limit("b", rate=rm.limits.Rate(1, per=60.0))
        async with rm.limits.together(b.call(), a.call(cost=1)) as (second, first):
            assert (second.limit, first.limit) == (b, a)
        with pytest.raises(rm.errors.Limited, match="b"):
            async with rm.limits.together(b.call(), a.call()):
                pass
        assert ((await a.state()).calls, (await a.state()).slots) == (1, 0), "given back"


async def test_a_call_that_was_made_counts_although_another_limit_has_no_room(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        a = shop.mill.limit("a", rate=rm.limits.Rate(2, per=60.0), budget=rm.limits.Budget(5, per="run"))
        b = shop.mill.limit("b", rate=rm.limits.Rate(1, per=60.0))
        async with b.call():
            pass
        made, refused = 0, []
        for _ in range(3):
            try:
                async with a.call():
                    made += 1
                    async with b.call():
                        raise AssertionError("it must not get here")
            except rm.errors.Limited as limited:
                refused.append(limited.limit)
        stands = await a.state()
    assert (made, refused, stands.calls) == (2, ["b", "b", "a"], 2)


def test_plain_code_without_a_loop(database_url: str) -> None:
    async def migrate() -> None:
        await rm.Mill(database_url).migrate()

    asyncio.run(migrate())
    eqc = rm.Mill(database_url).limit("eqc", rate=rm.limits.Rate(2, per=60.0), concurrent=1)
    with eqc.call(), pytest.raises(rm.errors.Limited) as busy, eqc.call():
        pass
    assert (busy.value.reason, eqc.state_now().slots) == ("slots", 0)
    with eqc.call():
        assert eqc.state_now().calls == 2
    with pytest.raises(rm.errors.Limited), rm.limits.together(eqc.call()):
        pass


async def test_a_loop_is_not_blocked_by_mistake(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", concurrent=1)
        with pytest.raises(rm.RowmillError, match="async with"), eqc.call():
            pass


async def test_a_ticket_is_renewed_for_as_long_as_its_call_takes(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", concurrent=1, lease=1.0)
        async with eqc.call() as call:
            await asyncio.sleep(1.6)
            with pytest.raises(rm.errors.Limited):
                async with eqc.call():
                    pass
            assert not call.lost


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: rm.limits.Rate(0, per=1.0),
        lambda: rm.limits.Rate(5, per=0.0),
        lambda: rm.limits.Rate(5, per=1.0, margin=-1.0),
        lambda: rm.limits.Budget(0),
        lambda: rm.limits.Budget(5, per="week"),  # type: ignore[arg-type]
        lambda: rm.limits.Budget(5, zone="Mars/Olympus"),
        lambda: rm.limits.Budget(5, crashed="gone"),  # type: ignore[arg-type]
        lambda: rm.limits.Budget(0.5),  # type: ignore[arg-type]
        lambda: rm.limits.Budget(Decimal("0.0000001")),
        lambda: rm.limits.Breaker(failures=0),
        lambda: rm.Mill("sqlite:///never-opened.db").limit("eqc", concurrent=0),
        lambda: rm.Mill("sqlite:///never-opened.db").limit("eqc", lease=0.0),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_declared(wrong: Callable[[], object]) -> None:
    with pytest.raises((ValueError, TypeError, rm.errors.DeclarationError)):
        wrong()


def test_a_limit_is_declared_once_and_used_where_it_is_declared() -> None:
    mill, other = rm.Mill("sqlite:///never-opened.db"), rm.Mill("sqlite:///never-opened.db")
    eqc = mill.limit("eqc", concurrent=1)
    with pytest.raises(rm.errors.DeclarationError, match="already"):
        mill.limit("eqc", concurrent=2)
    from tests.work.shop import job_table

    with pytest.raises(rm.errors.DeclarationError, match="another mill"):
        other.queue(job_table()).handler(limits=[eqc])(lambda job: None)
    with pytest.raises(rm.errors.DeclarationError, match="twice"):
        mill.queue(job_table()).handler(limits=[eqc, eqc.by("title")])(lambda job: None)


async def test_calls_that_end_at_the_same_time_are_told_in_one_transaction(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of whatever keys: each for itself would wait for all the others."""
    async with shop_on(sqlite_url) as shop:
        eqc = shop.mill.limit("eqc", concurrent=1)
        written, write, go = 0, Writer.write, asyncio.Event()

        async def counted(writer: Writer, work: Any) -> Any:
            nonlocal written
            written += 1
            return await write(writer, work)

        async def one(key: int) -> None:
            async with eqc.call(key):
                await go.wait()

        calls = [asyncio.create_task(one(key)) for key in range(20)]
        while not all([(await eqc.state(key)).slots for key in range(20)]):
            await asyncio.sleep(0.01)
        monkeypatch.setattr(Writer, "write", counted)
        go.set()
        await asyncio.gather(*calls)
        assert not any([(await eqc.state(key)).slots for key in range(20)])
    assert 0 < written <= 4


async def test_a_call_whose_end_the_database_refuses_says_so_and_keeps_nobody_waiting(sqlite_url: str) -> None:
    async with shop_on(sqlite_url) as shop:
        eqc = shop.mill.limit("eqc", concurrent=1)
        async with asyncio.timeout(60):
            with pytest.raises(Exception, match="rowmill_ticket"):
                async with eqc.call():
                    await shop.sql("ALTER TABLE rowmill_ticket RENAME TO elsewhere")
            await shop.sql("ALTER TABLE elsewhere RENAME TO rowmill_ticket")
            other = shop.mill.limit("other", concurrent=1)
            async with other.call():
                pass
