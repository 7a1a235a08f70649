"""Events go to the handler of their type, in order per aggregate; those of unknown types wait."""

import asyncio
import logging
import threading
from collections import defaultdict
from typing import Any

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.mill.outboxes import RETRY
from rowmill.model.judge import judge
from rowmill.operator.why import Obstacle, why
from tests.outbox.post import post_on


async def test_an_event_carries_what_was_written(database_url: str) -> None:
    async with post_on(database_url) as post:
        seen: list[rm.outbox.Event] = []

        @post.outbox.on("document.process")
        async def process(event: rm.outbox.Event) -> None:
            seen.append(event)

        await post.add(("document.process", 17), payload={"path": "a.pdf"})
        await post.drain()
        [event], row = seen, await post.row()
        assert (event.id, event.type, event.aggregate_id) == (row.id, "document.process", "17")
        assert (event.payload, event.attempt, event.last_attempt) == ({"path": "a.pdf"}, 1, False)
        assert event.created_at is not None
        assert event.created_at.tzinfo is not None
        assert (row.state, row.attempts, row.last_error) == ("processed", 1, None)
        assert row.processed_at is not None


async def test_types_go_to_their_own_handlers_before_patterns(database_url: str) -> None:
    async with post_on(database_url) as post:
        seen: defaultdict[str, list[str]] = defaultdict(list)

        @post.outbox.on("document.*")
        async def documents(event: rm.outbox.Event) -> None:
            seen["documents"].append(event.type)

        @post.outbox.on("document.delete", "kb.delete")
        async def delete(event: rm.outbox.Event) -> None:
            seen["delete"].append(event.type)

        await post.add(("document.process", 1), ("document.delete", 2), ("kb.delete", 3), ("document.reprocess", 4))
        await post.drain()
        assert seen["delete"] == ["document.delete", "kb.delete"]
        assert seen["documents"] == ["document.process", "document.reprocess"]


async def test_a_type_has_one_handler(database_url: str) -> None:
    async with post_on(database_url) as post:

        @post.outbox.on("document.process")
        async def process(event: rm.outbox.Event) -> None: ...

        post.outbox.on("document.process")(process)
        with pytest.raises(rm.errors.DeclarationError, match="have a handler already"):

            @post.outbox.on("document.process")
            async def another(event: rm.outbox.Event) -> None: ...

        with pytest.raises(rm.errors.DeclarationError, match="name a type"):
            post.outbox.on()(process)


async def test_sync_and_async_handlers_side_by_side(database_url: str) -> None:
    async with post_on(database_url) as post:
        threads: dict[str, str] = {}

        @post.outbox.on("slow")
        def slow(event: rm.outbox.Event) -> None:
            threads[event.type] = threading.current_thread().name
            with event.settling() as session:
                session.execute(sa.text("INSERT INTO document (id, title) VALUES (1, 'by slow')"))

        @post.outbox.on("quick")
        async def quick(event: rm.outbox.Event) -> None:
            threads[event.type] = threading.current_thread().name
            async with event.settling() as session:
                await session.execute(sa.text("INSERT INTO document (id, title) VALUES (2, 'by quick')"))

        await post.add(("slow", 1), ("quick", 2))
        report = await post.drain()
        assert report.done == 2
        assert threads["slow"].startswith("rowmill-handler")
        assert threads["quick"] == threading.main_thread().name
        titles = await post.do(lambda c: c.scalars(sa.text("SELECT title FROM document ORDER BY id")).all())
        assert titles == ["by slow", "by quick"]


async def test_in_order_per_aggregate_also_past_a_failure(database_url: str) -> None:
    """K2: strictly in order per aggregate; another aggregate does not wait."""
    async with post_on(database_url, concurrency=4) as post:
        seen: defaultdict[str, list[int]] = defaultdict(list)

        @post.outbox.on("document.*")
        async def process(event: rm.outbox.Event) -> Any:
            await asyncio.sleep(0)
            if event.aggregate_id == "a" and event.payload == 1 and event.attempt == 1:
                raise rm.TransientError("later", code="busy")
            seen[event.aggregate_id].append(event.payload)

        for n in range(5):
            await post.add(("document.process", "a"), ("document.process", "b"), payload=n)
        await post.drain()
        assert seen == {"a": [0], "b": [0, 1, 2, 3, 4]}
        await post.advance(13)
        await post.drain()
        assert seen == {"a": [0, 1, 2, 3, 4], "b": [0, 1, 2, 3, 4]}


async def test_events_without_an_aggregate_wait_for_nobody(database_url: str) -> None:
    async with post_on(database_url, concurrency=2) as post:
        both = asyncio.Barrier(2)

        @post.outbox.on("tick")
        async def tick(event: rm.outbox.Event) -> None:
            async with asyncio.timeout(30):
                await both.wait()

        await post.add(("tick", None), ("tick", None))
        assert (await post.drain()).done == 2


def test_the_waits_give_an_outage_a_chance() -> None:
    waits = [RETRY.wait(attempt, 0.0) for attempt in range(1, RETRY.attempts)]
    assert RETRY.attempts == 5
    assert waits == [10, 40, 160, 600]


async def test_an_event_of_an_unknown_type_waits_without_an_attempt_and_holds_up_only_its_aggregate(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """K4: a warning, no loop, not dead; it is handled when somebody comes who knows it."""
    async with post_on(database_url) as post:
        seen = []

        @post.outbox.on("document.process")
        async def process(event: rm.outbox.Event) -> None:
            seen.append(event.aggregate_id)

        await post.add(("document.sign", "a"), ("document.process", "a"), ("document.process", "b"))
        await post.add(("document.sign", "c"))
        with caplog.at_level(logging.WARNING, "rowmill"):
            await post.drain()
        warnings = [record for record in caplog.records if "document.sign" in record.getMessage()]
        assert len(warnings) == 1, "once per type"
        assert warnings[0].levelno == logging.WARNING
        assert seen == ["b"]
        first = (await post.rows())[0]
        assert (first.state, first.attempts, first.last_error.partition(":")[0]) == ("waiting", 0, "unknown_type")
        sql = post.mill.store.sql(post.outbox.queue)
        _, holds = await post.do(lambda connection: why(connection, sql, str(first.id)))
        assert holds[0].reason is Obstacle.BACKOFF
        assert "unknown_type" in holds[0].text

        claimed = (await post.drain()).claimed
        assert claimed == 0, "it does not loop"

        @post.outbox.on("document.sign")
        async def sign(event: rm.outbox.Event) -> None:
            assert event.attempt == 1
            seen.append("signed " + event.aggregate_id)

        await post.advance(13)
        await post.drain()
        assert sorted(seen) == ["a", "b", "signed a", "signed c"]
        assert seen.index("signed a") < seen.index("a")


async def test_an_old_event_of_an_unknown_type_is_looked_at_seldom(database_url: str) -> None:
    async with post_on(database_url) as post:

        @post.outbox.on("document.process")
        async def process(event: rm.outbox.Event) -> None: ...

        await post.add(("document.sign", "a"))
        for age, least, most in ((0, 7.5, 12.5), (400, 300, 501), (100_000, 675, 1125)):
            shift = f"created_at - interval '{age} seconds'"
            if post.mill.store.dialect.name == "sqlite":
                shift = f"datetime(created_at, '-{age} seconds')"
            await post.sql(f"UPDATE outbox SET created_at = {shift}")
            await post.drain()
            row, now = await post.row(), await post.do(lambda c: c.scalar(sa.select(sa.func.now())))
            wait = (row.available_at.replace(tzinfo=None) - now.replace(tzinfo=None)).total_seconds()
            assert least - 5 <= wait <= most + 1
            await post.advance(2000)


async def test_an_outbox_without_handlers_is_not_claimed_from(database_url: str) -> None:
    async with post_on(database_url) as post:
        await post.add(("document.process", 1))
        assert (await post.drain()).claimed == 0
        assert await post.states() == ["pending"]


async def test_an_event_that_is_tried_again_is_not_starved_by_new_ones(database_url: str) -> None:
    async with post_on(database_url) as post:
        store, queue = post.mill.store, post.outbox.queue
        await post.add(("old", "a"))
        async with post.mill.worker():
            [lease] = await store.claim(queue, queue.step(), 1)
            await store.settle([judge(lease, rm.RetryLater(0, "busy"), 0.0)])
            await post.advance(5)
            await post.add(*(("new", n) for n in range(10)))
            [lease] = await store.claim(queue, queue.step(), 1)
            assert lease.row.event_type == "old"
