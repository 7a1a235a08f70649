"""The queue under the names that callers know: A4+."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import rowmill as rm
from rowmill_systems.articles import classification_queue_service
from rowmill_systems.articles.classification_queue_service import (
    ClassificationQueueService,
    RememberedTokens,
)
from rowmill_systems.articles.classifying.port import TopicScore
from systems.tests.articles.harness import ArticlesHarness, articles_on, entry


def service(harness: ArticlesHarness) -> ClassificationQueueService:
    """The queue, with a transaction for each call."""
    return ClassificationQueueService(harness.mill.store.engine)


async def test_a_round_through_the_queue(database_url: str) -> None:
    """A4+."""
    async with articles_on(database_url) as harness:
        await harness.save("a", entry("b", published_at=None))
        queue = service(harness)
        first, second = await queue.dequeue_batch()
        contents = await harness.contents()
        assert [item.content_id for item in (first, second)] == [contents["a"].id, contents["b"].id]
        assert (first.priority, first.retry_count, second.priority) == (10, 0, 0)
        assert await queue.get_queue_stats() == {
            "pending": 0, "processing": 2, "completed": 0, "failed": 0, "cancelled": 0,
        }  # fmt: skip
        assert await queue.mark_completed(first.id, ["technology.ai", "health"])
        assert await queue.mark_failed(second.id, "model is away")
        contents, rows = await harness.contents(), await harness.requests()
        assert (contents["a"].topics, contents["a"].topic_scores) == (["technology.ai", "health"], None)
        assert (rows["a"].status, rows["a"].retry_count, rows["a"].processed_at is None) == ("completed", 0, False)
        assert (rows["b"].status, rows["b"].retry_count, rows["b"].error_message) == ("pending", 1, "model is away")
        assert await queue.dequeue_batch() == [], "it waits for its next try"
        stats = await queue.get_queue_stats()
        assert (stats["pending"], stats["completed"], stats.exact) == (1, 1, True)


async def test_an_article_is_queued_once(database_url: str) -> None:
    """A2, A4+: a conflict changes nothing."""
    async with articles_on(database_url) as harness:
        await harness.save("a")
        await harness.sql("DELETE FROM classification_queue")
        queue, key = service(harness), (await harness.contents())["a"].id
        assert await queue.enqueue(key, priority=7)
        assert not await queue.enqueue(key)
        row = (await harness.requests())["a"]
        assert (row.status, row.priority, row.retry_count) == ("pending", 7, 0)
        [item] = await queue.dequeue_batch()
        await queue.mark_completed(item, [])
        assert not await queue.enqueue(key), "conflict: nothing"
        with pytest.raises(sa.exc.IntegrityError):
            await queue.enqueue(uuid.uuid4())


async def test_the_third_failure_is_the_last(database_url: str) -> None:
    """A5."""
    async with articles_on(database_url) as harness:
        await harness.save("a")
        queue = service(harness)
        for failures, status in ((1, "pending"), (2, "pending"), (3, "failed")):
            [item] = await queue.dequeue_batch()
            assert item.retry_count == failures - 1
            assert await queue.mark_failed(item, ValueError("words of the article"))
            row = (await harness.requests())["a"]
            assert (row.status, row.retry_count, row.error_message) == (status, failures, "ValueError")
            await harness.bench.advance(3600)
        assert row.processed_at is not None
        assert await queue.dequeue_batch() == []


async def test_a_row_that_was_put_back_with_its_tries_used_up_is_failed(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        await harness.save("a", "b")
        await harness.sql("UPDATE classification_queue SET retry_count = 3 WHERE content_id = :a",
                          a=bound(harness, (await harness.contents())["a"].id))  # fmt: skip
        assert len(await service(harness).dequeue_batch(1)) == 1
        row = (await harness.requests())["a"]
        assert (row.status, row.error_message) in (("failed", "attempts_used_up"), ("pending", None))
        await service(harness).dequeue_batch(1)
        row = (await harness.requests())["a"]
        assert (row.status, row.error_message, row.retry_count) == ("failed", "attempts_used_up", 3)


def bound(harness: ArticlesHarness, key: uuid.UUID) -> Any:
    return key if harness.mill.url.get_backend_name() == "postgresql" else key.hex


async def test_priority_then_oldest_first_over_many_priorities(database_url: str) -> None:
    """A3: also with more priorities than are looked at one by one."""
    async with articles_on(database_url) as harness:
        await harness.save(*(entry(f"e{n:02}") for n in range(24)))
        for n in range(24):
            await harness.sql(
                "UPDATE classification_queue SET priority = :level, created_at = :at WHERE content_id = "
                "(SELECT id FROM contents WHERE identity = :identity)",
                level=n % 12, identity=f"e{n:02}",
                at=moment(database_url, n),
            )  # fmt: skip
        keys = {row.id: identity for identity, row in (await harness.contents()).items()}
        queue = service(harness)
        taken = [item for size in (5, 30) for item in await queue.dequeue_batch(size)]
        expected = [f"e{n:02}" for level in reversed(range(12)) for n in (level, level + 12)]
        assert [keys[item.content_id] for item in taken] == expected


def moment(url: str, minutes: int) -> Any:
    made = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    return made if url.startswith("postgresql") else f"{made:%Y-%m-%d %H:%M:%S.%f}"


async def test_a_mark_counts_only_for_the_one_who_has_the_row(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        await harness.save("a")
        queue = service(harness)
        [late] = await queue.dequeue_batch()
        await harness.bench.advance(3600)
        await harness.bench.drain()
        assert (await harness.contents())["a"].topics == ["news"], "a worker has taken it over"
        assert not await queue.mark_completed(late, ["late"])
        assert not await queue.mark_failed(late, "late")
        assert (await harness.contents())["a"].topics == ["news"]
        assert await harness.states() == {"a": "completed"}


async def test_a_worker_leaves_taken_rows_alone_until_their_time_is_over(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        await harness.save("a")
        [item] = await service(harness).dequeue_batch()
        await harness.bench.advance(899)
        assert (await harness.bench.drain()).claimed == 0
        assert await service(harness).mark_completed(item, ["x"])


async def test_topics_of_a_former_text_are_refused(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        await harness.save("a")
        queue = service(harness)
        [item] = await queue.dequeue_batch()
        await harness.save(entry("a", text="other words"))
        assert not await queue.mark_completed(item, ["old"])
        assert (await harness.contents())["a"].topics is None
        assert await harness.states() == {"a": "pending"}


async def test_an_article_that_was_deleted_is_nobodys_error(database_url: str) -> None:
    """A6."""
    async with articles_on(database_url) as harness:
        await harness.save("a", "b")
        queue = service(harness)
        items = await queue.dequeue_batch()
        await harness.sql("DELETE FROM contents")
        assert [await queue.mark_completed(items[0], ["x"]), await queue.mark_failed(items[1], "x")] == [False, False]
        assert await harness.requests() == {}


async def test_in_the_transaction_of_a_session_the_caller_commits(database_url: str) -> None:
    """A4+."""
    async with articles_on(database_url) as harness:
        await harness.save("a")
        async with AsyncSession(harness.mill.store.engine) as session:
            assert len(await ClassificationQueueService(session).dequeue_batch()) == 1
            await session.rollback()
        assert await harness.states() == {"a": "pending"}
        async with AsyncSession(harness.mill.store.engine) as session:
            [item] = await ClassificationQueueService(session).dequeue_batch()
            await session.commit()
            async with harness.mill.store.engine.connect() as connection:
                # As code does that makes a service for each step: this process knows the token.
                assert await ClassificationQueueService(connection).mark_completed(item.id, ["x"])
                await connection.commit()
        assert await harness.states() == {"a": "completed"}


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_on_an_engine_of_the_callers_own(database_url: str, driver: str) -> None:
    async with articles_on(database_url) as harness:
        await harness.save("a", "b")
        chosen = f"postgresql+{driver}" if database_url.startswith("postgresql") else "sqlite+aiosqlite"
        engine = create_async_engine(make_url(database_url).set(drivername=chosen))
        queue = ClassificationQueueService(engine)
        first, second = await queue.dequeue_batch()
        assert await queue.mark_completed(first, ["x"])
        assert await queue.mark_failed(second, "no")
        assert not await queue.enqueue(first.content_id)
        assert sum((await queue.get_queue_stats(at_most=1)).values()) == 2
        await engine.dispose()
        assert sorted((await harness.states()).values()) == ["completed", "pending"]


@pytest.mark.parametrize(
    ("given", "names", "scores"),
    [
        (["a", "b"], ["a", "b"], None),
        ([], [], None),
        ({"a": 0.5}, ["a"], {"a": 0.5}),
        ([TopicScore("a", 0.75)], ["a"], {"a": 0.75}),
    ],
)
async def test_topics_with_and_without_scores(database_url: str, given: Any, names: Any, scores: Any) -> None:
    async with articles_on(database_url) as harness:
        await harness.save("a")
        queue = service(harness)
        [item] = await queue.dequeue_batch()
        await queue.mark_completed(item, given)
        row = (await harness.contents())["a"]
        assert (row.topics, row.topic_scores) == (names, scores)


async def test_what_can_t_be_is_refused_with_what_to_do(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        queue = service(harness)
        with pytest.raises(rm.errors.BadRequest, match="Pass the item that dequeue_batch"):
            await queue.mark_completed(uuid.uuid4(), ["x"])
        await harness.save("a")
        [item] = await queue.dequeue_batch()
        with pytest.raises(rm.errors.BadRequest, match="a list of keys"):
            await queue.mark_completed(item, "technology")
        with pytest.raises(rm.errors.BadRequest, match="takes an AsyncSession"):
            await ClassificationQueueService(harness.mill.store.sync_engine).get_queue_stats()  # type: ignore[arg-type]


async def test_topics_that_are_none_are_refused(database_url: str) -> None:
    given: list[Any] = [
        None, 5, [None], ["a\x00"], ["\ud800"], [""], {"a": None}, {"a": float("nan")}, {"a": 2.0}, {None: 0.5},
        [TopicScore("a", 0.5), "b"], [TopicScore("a", None)],  # type: ignore[arg-type]
    ]  # fmt: skip
    async with articles_on(database_url) as harness:
        await harness.save("a")
        [item] = await service(harness).dequeue_batch()
        for topics in given:
            with pytest.raises(rm.errors.BadRequest, match="these are no topics"):
                await service(harness).mark_completed(item, topics)
        assert await harness.states() == {"a": "processing"}


async def test_an_unknown_article_is_refused_where_nobody_enforces_foreign_keys(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        chosen = "postgresql+asyncpg" if database_url.startswith("postgresql") else "sqlite+aiosqlite"
        engine = create_async_engine(make_url(database_url).set(drivername=chosen))
        with pytest.raises(sa.exc.IntegrityError, match="there is no such article"):
            await ClassificationQueueService(engine).enqueue(uuid.uuid4())
        await engine.dispose()
        assert await harness.read(sa.text("SELECT 1 FROM classification_queue")) == []


async def test_a_small_table_is_counted_as_the_endpoint_does_it(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        await harness.save(*(entry(f"e{n}") for n in range(30)))
        await harness.sql("UPDATE classification_queue SET status = 'failed' WHERE content_id IN "
                          "(SELECT id FROM contents WHERE identity IN ('e1', 'e2'))")  # fmt: skip
        stats, counts = await service(harness).get_queue_stats(at_most=10), await harness.articles.requests.counts()
        assert stats.exact
        assert counts.exact
        assert stats == {status: counts[status] for status in stats}
        assert (stats["pending"], stats["failed"], len(stats)) == (28, 2, 5)


async def test_many_rows_are_estimated(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("SMALL_BYTES", "SMALL_ROWS"):
        monkeypatch.setattr(classification_queue_service, limit, 0)
    async with articles_on(database_url) as harness:
        await harness.save(*(entry(f"e{n}") for n in range(30)))
        stats = await service(harness).get_queue_stats(at_most=10)
        assert not stats.exact
        assert stats["pending"] >= 10
        assert (await service(harness).get_queue_stats(at_most=30)).exact


def test_only_the_last_tokens_are_remembered() -> None:
    tokens = RememberedTokens(2)
    items = [
        classification_queue_service.QueuedArticle(uuid.UUID(int=n), uuid.UUID(int=n), 0, 0, datetime.now(UTC), n)
        for n in range(3)
    ]
    tokens.add(items)
    assert [tokens.of(item.id) for item in items] == [None, 1, 2]
