"""The numbers of an outbox."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.operator.change import prune
from rowmill.operator.filters import Filter
from rowmill.store.postgres.session import index_plans
from tests.outbox.post import Post, post_on


async def outcomes(post: Post) -> None:
    """Five processed (one by `settling`), one dead with two behind it, one that waits, one parked, one being handled,
    one due."""

    @post.outbox.on("good", "settles", "bad", "slow")
    async def handle(event: rm.outbox.Event) -> None:
        if event.type == "bad":
            raise rm.PermanentError("no use", code="broken")
        if event.type == "slow":
            raise rm.TransientError("later", code="later")
        if event.type == "settles":
            async with event.settling():
                pass

    await post.add(*(("good", n) for n in range(4)), ("settles", 4))
    await post.add(("bad", "a"), ("good", "a"), ("good", "a"), ("slow", "b"), ("strange", "c"))
    await post.drain()
    async with post.mill.worker():
        await post.add(("good", "d"))
        [_] = await post.mill.store.claim(post.outbox.queue, post.outbox.queue.step(), 1)
    await post.add(("good", "e"))


async def test_the_numbers(database_url: str) -> None:
    """K8."""
    async with post_on(database_url) as post:
        assert (await post.outbox.stats()).as_dict() == {
            "pending_events": 0, "failed_events": 0, "processed_last_hour": 0, "processed_last_24h": 0,
            "queue_depth": 0, "average_processing_time_ms": None, "parked_events": 0,
        }  # fmt: skip
        await outcomes(post)
        found = await post.outbox.stats()
        assert found.pending_events == 6, "two behind the dead one, one waits, one parked, one handled, one due"
        assert found.failed_events == 1
        assert (found.processed_last_hour, found.processed_last_24h) == (5, 5)
        assert found.queue_depth == 3, "what is due, held back or not"
        assert found.parked_events == 1


async def test_what_was_processed_stays_counted_when_it_is_deleted(database_url: str) -> None:
    async with post_on(database_url) as post:
        await outcomes(post)
        await post.sql("DELETE FROM outbox WHERE state = 'processed'")
        found = await post.outbox.stats()
        assert (found.processed_last_hour, found.average_processing_time_ms) == (5, None)


async def test_the_average_is_over_the_last_hundred(database_url: str) -> None:
    """K8."""
    async with post_on(database_url) as post:
        postgres = post.mill.store.dialect.name == "postgresql"

        def done(number: int, ago: int, took: int) -> str:
            at = [f"now() - interval '{n} seconds'" if postgres else f"datetime('now', '-{n} seconds')"
                  for n in (ago + took, ago)]  # fmt: skip
            made, finished = at
            counted = (
                f"WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < {number}) SELECT n FROM g"
            )
            numbers = f"generate_series(1, {number})" if postgres else f"({counted})"
            return (
                "INSERT INTO outbox (event_type, state, created_at, processed_at) "
                f"SELECT 'x', 'processed', {made}, {finished} FROM {numbers} AS g"
            )

        await post.sql(done(50, 7200, 1000))
        await post.sql(done(60, 100, 4))
        await post.sql(done(40, 50, 14))
        found = (await post.outbox.stats()).average_processing_time_ms
        assert found == pytest.approx((60 * 4 + 40 * 14) / 100 * 1000)


async def test_the_numbers_of_a_big_outbox_are_read_by_its_indexes(pg_url: str) -> None:
    """Not by walking over what was processed."""
    async with post_on(pg_url) as post:
        await post.sql(
            "INSERT INTO outbox (event_type, state, processed_at) "
            "SELECT 'x', CASE WHEN n % 5000 = 0 THEN 'dead' ELSE 'processed' END, now() "
            "FROM generate_series(1, 20000) n"
        )

        def explained(connection: sa.Connection) -> str:
            plans = []
            with index_plans(connection):
                for wanted in (
                    "count(*) FROM outbox WHERE state IN ('dead') AND processed_at IS NOT NULL",
                    "created_at FROM outbox WHERE state IN ('processed') AND processed_at IS NOT NULL "
                    "ORDER BY processed_at DESC LIMIT 100",
                ):
                    plans += [row[0] for row in connection.exec_driver_sql(f"EXPLAIN SELECT {wanted}")]
            return "\n".join(plans)

        plan = await post.do(explained)
        assert plan.count("outbox_finished") >= 1
        assert "Seq Scan" not in plan
        assert "Sort" not in plan


async def test_old_events_are_deleted_by_state_and_age(database_url: str) -> None:
    """K7: processed ones after seven days, dead ones after thirty; nothing that is not finished."""
    async with post_on(database_url) as post:
        postgres = post.mill.store.dialect.name == "postgresql"
        for state, days in [(state, days) for state in ("processed", "dead") for days in (6, 8, 31)]:
            at = f"now() - interval '{days} days'" if postgres else f"datetime('now', '-{days} days')"
            await post.sql(
                "INSERT INTO outbox (event_type, state, created_at, processed_at) "
                f"VALUES ('{state} {days}', '{state}', {at}, {at})"
            )
        await post.add(("pending", 1))
        for state, age in (("processed", timedelta(days=7)), ("dead", timedelta(days=30))):
            await prune(post.mill.store, post.outbox.queue, Filter(states=(state,)), age)
        assert [row.event_type for row in await post.rows()] == ["processed 6", "dead 6", "dead 8", "pending"]
