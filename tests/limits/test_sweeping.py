"""What keys that are used once leave behind goes when nothing depends on it any more."""

from typing import Any

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.maintenance import cleanup
from rowmill.model.limits import Budget, LimitDeclaration, Rate
from rowmill.store.limits import sweeping, views
from rowmill.store.limits.asks import KEEP_DONE
from rowmill.store.limits.declarations import declare
from rowmill.store.own.schema import own_tables
from tests.limits.granting import Asker, rules
from tests.work.shop import Shop, shop_on

DAY = 86400.0


async def now(shop: Shop) -> float:
    """By the database's clock."""
    found: float = await shop.run(
        lambda connection: connection.execute(sa.select(views.seconds(connection.dialect.name))).scalar_one()
    )
    return found


async def sweep(shop: Shop, most: int = 100) -> int:
    gone: int = await shop.run(lambda connection: sweeping.sweep(connection, most))
    return gone


async def keys(shop: Shop, table: str) -> list[str]:
    """The keys of which a table of limits has rows."""

    def work(connection: sa.Connection) -> list[str]:
        found = getattr(own_tables(connection.dialect.name).limits, table)
        return list(connection.scalars(sa.select(found.c.key).order_by(found.c.key)))

    left: list[str] = await shop.run(work)
    return left


async def spent(shop: Shop) -> dict[str, int]:
    def work(connection: sa.Connection) -> dict[str, int]:
        found = own_tables(connection.dialect.name).limits.spending.c
        return {row.key: row.used // 1_000_000 for row in connection.execute(sa.select(found.key, found.used))}

    used: dict[str, int] = await shop.run(work)
    return used


async def test_the_ticket_of_a_call_that_has_ended_goes_in_minutes(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        asker, at = Asker(shop.mill.store.limiter, rules(slots=2)), await now(shop)
        for key, ended in (("over", at - KEEP_DONE - 60), ("just now", at - 60)):
            _, tickets = await asker.take(ended - 1, key=key)
            await asker.finish(ended, tickets=tickets, key=key)
        await asker.take(at, key="under way")
        assert await keys(shop, "ticket") == ["just now", "over", "under way"]
        assert await sweep(shop) == 1
        assert await keys(shop, "ticket") == ["just now", "under way"]


@pytest.mark.parametrize("crashed", ["back", "spent"])
async def test_what_a_crashed_process_had_reserved_is_back_or_spent(database_url: str, crashed: Any) -> None:
    async with shop_on(database_url) as shop:
        budget, at = Budget(10, per="month", crashed=crashed), await now(shop)
        asker = Asker(shop.mill.store.limiter, rules(budget=budget), budget)
        await shop.run(lambda connection: declare(connection, {"eqc": LimitDeclaration(budget=budget)}))
        taken, tickets = await asker.take(at - 1800, 2, key="once", costs=[3, 4])
        assert await sweep(shop) == 2
        assert await keys(shop, "ticket") == []
        assert await spent(shop) == ({"once": 7} if crashed == "spent" else {})
        # It was not dead, only away: what its call cost in the end counts once.
        await asker.finish(at, tickets=tickets[:1], key="once", span=taken.span, cost=2)
        assert await spent(shop) == {"once": 7 - 1 + 2 if crashed == "spent" else 2}


async def test_what_was_spent_stays_for_as_long_as_it_counts(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        at = await now(shop)
        for per, age in (("hour", 3 * 3600.0), ("day", 3 * DAY), ("month", 20 * DAY), ("run", 20 * DAY)):
            budget = Budget(10, per=per)  # type: ignore[arg-type]
            asker = Asker(shop.mill.store.limiter, rules(per, budget=budget), budget)
            taken, tickets = await asker.take(at - age, key=per)
            await asker.finish(at - age, tickets=tickets, key=per, span=taken.span)
        await sweep(shop)
        assert await keys(shop, "spending") == ["month", "run"]
        assert await keys(shop, "ticket") == []
        assert await keys(shop, "limiter") == ["month", "run"], "where a budget is known, its key is"


async def test_a_key_is_known_for_as_long_as_its_window_reaches_back(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        at = await now(shop)
        for key, rate in (("short", Rate(5, per=1.0)), ("long", Rate(5, per=30 * DAY))):
            await Asker(shop.mill.store.limiter, rules(key, rate=rate)).take(at - 2 * DAY, key=key)
        await Asker(shop.mill.store.limiter, rules("short", rate=Rate(5, per=1.0))).take(at - 60, key="in use")
        await sweep(shop)
        assert await keys(shop, "limiter") == ["in use", "long"]


async def test_what_is_known_of_a_provider_stays(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        asker, at = Asker(shop.mill.store.limiter, rules(rate=Rate(5, per=1.0))), await now(shop) - DAY
        for key, outcome in (("well", "ok"), ("off", "refused"), ("failing", "down"), ("parked", "limited")):
            await asker.take(at, key=key)
            await asker.finish(at, outcome, key=key, seconds=2 * DAY)  # type: ignore[arg-type]
        await sweep(shop)
        assert await keys(shop, "limiter") == ["failing", "off", "parked"]


async def test_keys_go_a_batch_at_a_time_with_the_upkeep(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        asker, at = Asker(shop.mill.store.limiter, rules(slots=1)), await now(shop) - DAY
        for tenant in range(5):
            _, tickets = await asker.take(at, key=f"tenant {tenant}")
            await asker.finish(at, tickets=tickets, key=f"tenant {tenant}")
        left: list[int] = []
        while not left or left[-1]:
            await shop.run(lambda connection: cleanup.tidy(connection, DAY, most=2))
            left.append(len(await keys(shop, "ticket")) + len(await keys(shop, "limiter")))
        assert left[0] >= 5, "no more than two of each table at once"
        assert left[-1] == 0


async def test_a_budget_is_kept_to_through_a_sweep(database_url: str) -> None:
    """The calls of a key that was used once, long before, in this month."""
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", budget=rm.limits.Budget(2, per="month"))
        async with eqc.call("once"):
            pass
        await sweep(shop)
        async with eqc.call("once"):
            pass
        with pytest.raises(rm.errors.Limited):
            await eqc.call("once").__aenter__()
