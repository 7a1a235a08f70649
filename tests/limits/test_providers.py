"""Providers that ask us to wait, are down, or take us for strangers: the whole fleet knows at once."""

import asyncio
from typing import Any

from sqlalchemy import Connection

import rowmill as rm
from rowmill.maintenance import cleanup
from rowmill.model.limits import RefusalReason
from rowmill.store.limits import sweeping, views
from tests.limits.granting import NOON, Asker, limiter_on, rules
from tests.support.provider import Provider, get, provider
from tests.work.shop import Shop, shop_on, until


async def called(told: Provider, key: object) -> None:
    """As a client of a provider does it."""
    status, headers = await asyncio.to_thread(lambda: asyncio.run(get(told.url, f"/{key}")))
    match status:
        case 429:
            raise rm.RateLimited("slow down", retry_after=float(headers["retry-after"]))
        case 401:
            raise rm.errors.ProviderRefused("who are you?")
        case 500:
            raise rm.errors.ProviderDown("away", retry_after=0.2)


def declared(shop: Shop, told: Provider, **options: Any) -> rm.limits.Limit:
    eqc = shop.mill.limit("eqc", **options)

    @shop.jobs.handler(limits=[eqc], concurrency=1)
    async def look_up(job: rm.Lease[Any]) -> None:
        await called(told, job.key)

    return eqc


async def test_a_429_parks_the_provider_for_all_workers(database_url: str) -> None:
    with provider() as told:
        told.reply = lambda number, path: (429, {"Retry-After": "600"}) if number == 3 else (200, {})
        async with shop_on(database_url) as shop:
            eqc = declared(shop, told)
            await shop.put(10)
            async with shop.working():
                await until(lambda: shop.named("limit_parked"))
            state, rows = await eqc.state(), await shop.rows()
            async with shop_on(database_url, fresh=False) as another:
                with_it = declared(another, told)
                await another.put(1)
                async with another.working() as working:
                    await until(lambda: working.worker.report.held)
                assert not (await with_it.state()).available

        assert shop.named("limit_parked") == [{"limit": "eqc", "seconds": 600.0}]
        assert len(told.arrivals) == 3, "nobody calls after the third"
        assert state.parked_until is not None
        assert {row.attempts for row in rows.values() if row.state != "done"} == {0}


async def test_a_401_switches_the_provider_off_until_told_otherwise(database_url: str) -> None:
    with provider() as told:
        told.reply = lambda number, path: (401 if number == 2 else 200, {})
        async with shop_on(database_url) as shop:
            eqc = declared(shop, told)
            await shop.put(6)
            async with shop.working() as working:
                await until(lambda: shop.named("limit_off"))
                await until(lambda: working.worker.report.held)
                assert len(told.arrivals) == 2
                await eqc.on()
                await shop.sql("UPDATE job SET available_at = NULL WHERE state IN ('ready', 'waiting')")
                await until(lambda: working.worker.report.done == 6)
            assert shop.named("limit_off") == [{"limit": "eqc"}]


async def test_a_provider_that_is_down_is_left_alone_and_tried_by_one_call_at_a_time(database_url: str) -> None:
    with provider() as told:
        async with shop_on(database_url) as shop:
            told.reply = lambda number, path: (200 if len(shop.named("limit_opened")) > 1 else 500, {})
            declared(shop, told, breaker=rm.limits.Breaker(failures=3, pause=0.3))
            await shop.put(30)
            async with shop.working() as working:
                await until(lambda: shop.named("limit_closed"))
                await shop.sql("UPDATE job SET available_at = NULL WHERE state IN ('ready', 'waiting')")
                await until(lambda: working.worker.report.done == 30)
            names = [event for event, _ in shop.events if event.startswith("limit_")]
            rows = await shop.rows()

        assert names == ["limit_opened", "limit_opened", "limit_closed"], "the one call failed, and then it did not"
        assert {row.state for row in rows.values()} == {"done"}


async def test_permits_that_were_had_ahead_are_not_used_on_a_provider_that_is_down(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", breaker=rm.limits.Breaker(failures=3, pause=300.0))
        in_time, too_late = list[int](), list[int]()

        @shop.jobs.handler(limits=[eqc], concurrency=1)
        async def look_up(job: rm.Lease[Any]) -> None:
            (too_late if shop.named("limit_opened") else in_time).append(job.key)
            await asyncio.sleep(0.001)  # a call takes time, in which the failures before it are reported
            raise rm.errors.ProviderDown

        await shop.put(1000)
        async with shop.working():
            await until(lambda: shop.named("limit_opened"))
            while (await shop.states()).get("running", 0):  # those with permits, until they are given back
                await asyncio.sleep(0.005)
        assert too_late == []
        assert 3 <= len(in_time) < 1000


async def test_a_handler_may_look_and_ask_somebody_else(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(5, per=1.0))
        assert (await eqc.state()).available
        await eqc.off()
        assert not (await eqc.state("any key")).available
        await eqc.on()
        await eqc.park(60.0, "tenant")
        assert [(await eqc.state(key)).available for key in ("", "tenant")] == [True, False]


async def test_an_error_that_is_not_the_provider_s_does_not_count_against_it(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", breaker=rm.limits.Breaker(failures=1))
        for error in (ValueError(), rm.PermanentError("no match"), rm.TransientError()):
            try:
                async with eqc.call():
                    raise error
            except type(error):
                pass
        assert (await eqc.state()).breaker == "closed"


async def test_a_call_that_was_to_see_whether_the_provider_is_back_and_did_not(database_url: str) -> None:
    async with limiter_on(database_url) as limiter:
        asker = Asker(limiter, rules(breaker=rm.limits.Breaker(failures=1, pause=5.0)))
        await asker.take(NOON)
        assert await asker.finish(NOON, "down") == "opened"
        probe, _ = await asker.take(NOON + 6)
        assert probe.probe
        assert await asker.finish(NOON + 7, "unknown", probe=True) is None
        again, _ = await asker.take(NOON + 8)
        assert (again.granted, again.reason) == (0, RefusalReason.OPEN)
        assert (await asker.take(NOON + 12.5))[0].probe


async def test_old_keys_are_forgotten_and_what_is_off_stays_off(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        long_ago = Asker(shop.mill.store.limiter, rules(rate=rm.limits.Rate(5, per=1.0), slots=1))
        for key in ("old", "off"):
            await long_ago.take(1_000_000.0, key=key)
        await long_ago.finish(1_000_000.0, "refused", key="off")
        eqc = shop.mill.limit("eqc", concurrent=1)
        async with eqc.call("new"):
            gone = await shop.run(lambda connection: sweeping.sweep(connection, 100))
            left = await shop.run(lambda connection: sorted(view.key for view in views.views(connection)))
    assert gone == 3, "a key and two tickets"
    assert left == ["new", "off"]


async def test_the_upkeep_forgets_keys_a_batch_at_a_time(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        long_ago = Asker(shop.mill.store.limiter, rules(rate=rm.limits.Rate(5, per=1.0)))
        for tenant in range(5):
            await long_ago.take(1_000_000.0, key=f"tenant {tenant}")

        def tidied(connection: Connection) -> int:
            cleanup.tidy(connection, 86400.0, most=2)
            return len(views.views(connection))

        assert [await shop.run(tidied) for _ in range(3)] == [3, 1, 0]
