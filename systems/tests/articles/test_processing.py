"""What becomes of articles that are classified."""

import asyncio
import logging
import math
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.testing import QUICK
from rowmill_systems.articles.articles import worker_settings
from rowmill_systems.articles.classifying.port import ArticleText, Topics, TopicScore
from rowmill_systems.articles.models import Content
from systems.tests.articles.harness import ArticlesHarness, articles_on, entry, settings_for


async def test_topics_and_completion_are_written_by_batches_of_one_call(database_url: str) -> None:
    """A4: ten at a time, each batch by one call of the model."""
    async with articles_on(database_url, {"e00": {"sports.football": 0.81239, "health": 0.4}, "e01": {}}) as harness:
        await harness.save(*(entry(f"e{n:02}") for n in range(23)))
        report = await harness.bench.drain()
        assert report.done == 23
        assert sorted(map(len, harness.classifier.calls)) == [3, 10, 10]
        contents, requests = await harness.contents(), await harness.requests()
        assert contents["e00"].topics == ["sports.football", "health"]
        assert contents["e00"].topic_scores == {"sports.football": 0.8124, "health": 0.4}
        assert (contents["e01"].topics, contents["e01"].topic_scores) == ([], {}), "looked at, and no topic fits"
        assert {(row.status, row.retry_count) for row in requests.values()} == {("completed", 0)}
        assert all(row.processed_at is not None for row in requests.values())


async def test_the_batch_size_is_a_setting(database_url: str) -> None:
    async with articles_on(database_url, batch_size=4) as harness:
        await harness.save("a", "b", "c", "d", "e")
        await harness.bench.drain()
        assert sorted(map(len, harness.classifier.calls)) == [1, 4]


async def test_one_bad_article_fails_alone_and_three_times(database_url: str) -> None:
    """A5, A2+: retry_count counts failures."""
    secret = "words of the article"
    async with articles_on(database_url, {"bad": ValueError(secret)}) as harness:
        await harness.save("a", "bad", "c")
        for failures, status in ((1, "pending"), (2, "pending"), (3, "failed")):
            await harness.bench.drain()
            rows = await harness.requests()
            bad = rows.pop("bad")
            assert (bad.status, bad.retry_count, bad.error_message) == (status, failures, "ValueError")
            assert {(row.status, row.retry_count) for row in rows.values()} == {("completed", 0)}
            await harness.bench.advance(3600)
        await harness.bench.drain()
        assert (await harness.contents())["bad"].topics is None
        assert [sorted(call) for call in harness.classifier.calls] == [["a", "bad", "c"], ["bad"], ["bad"]]


async def test_a_model_that_breaks_on_the_whole_batch_is_asked_for_each(database_url: str) -> None:
    """A5: also where the model does not say which article it can't take."""
    async with articles_on(database_url) as harness:
        harness.classifier.broken_by = "bad"
        await harness.save("a", "bad", "c")
        await harness.bench.drain()
        assert await harness.states() == {"a": "completed", "bad": "pending", "c": "completed"}
        assert sorted(map(len, harness.classifier.calls)) == [1, 1, 1, 3]


@pytest.mark.parametrize(
    ("error", "status", "failures"),
    [
        (rm.TransientError(code="model_busy"), "pending", 1),
        (rm.PermanentError(code="too_long"), "failed", 1),
        (rm.RateLimited(code="slow_down", retry_after=60), "pending", 0),
        (rm.errors.ProviderDown(code="no_answer", retry_after=60), "pending", 0),
    ],
)
async def test_an_error_with_a_code(database_url: str, error: Any, status: str, failures: int) -> None:
    async with articles_on(database_url, {"a": error}) as harness:
        await harness.save("a")
        await harness.bench.drain()
        row = (await harness.requests())["a"]
        assert (row.status, row.retry_count) == (status, failures)
        assert row.error_message.startswith(error.code)


async def test_a_service_that_is_down_is_not_asked_again_for_each_article(database_url: str) -> None:
    async with articles_on(database_url) as harness:

        def fail() -> None:
            raise rm.errors.ProviderDown(code="no_answer", retry_after=60)

        harness.classifier.before_answer = fail
        await harness.save("a", "b", "c")
        await harness.bench.drain()
        assert len(harness.classifier.calls) == 1
        assert {row.retry_count for row in (await harness.requests()).values()} == {0}


BAD_ANSWERS: list[Any] = [
    None, "news", 5, ["news"], [None], {"news": 0.9}, [TopicScore("news", None)], [TopicScore("news", math.nan)],  # type: ignore[arg-type]
    [TopicScore("news", 7.0)], [TopicScore("\ud800", 0.5)], [TopicScore("a\x00", 0.5)], [TopicScore("", 0.5)],
    [TopicScore(None, 0.5)], [TopicScore("x" * 201, 0.5)], [TopicScore("news", "0.5")],  # type: ignore[arg-type]
]  # fmt: skip


async def test_an_answer_that_is_none_fails_its_article_alone(database_url: str) -> None:
    """Of what is wrong, only the code is kept."""
    async with articles_on(database_url, batch_size=100) as harness:
        bad = {f"bad {number}": answer for number, answer in enumerate(BAD_ANSWERS)}

        async def answers(articles: Any, **_: Any) -> Any:
            return [bad.get(each.title, [TopicScore("news", 1.0001)] * 2) for each in articles]

        harness.classifier.classify_batch = answers  # type: ignore[method-assign]
        await harness.save("good", *bad)
        await harness.bench.drain()
        rows, contents = await harness.requests(), await harness.contents()
        assert rows.pop("good").status == "completed"
        for name, row in rows.items():
            found = (row.status, row.retry_count, row.error_message, contents[name].topics)
            assert found == ("pending", 1, "classifier_answer", None), bad[name]
        assert (contents["good"].topics, contents["good"].topic_scores) == (["news"], {"news": 1.0})


async def test_an_answer_of_another_length_is_nobodys(database_url: str) -> None:
    async with articles_on(database_url) as harness:

        async def too_few(articles: Any, **_: Any) -> Any:
            return []

        harness.classifier.classify_batch = too_few  # type: ignore[method-assign]
        await harness.save("a")
        await harness.bench.drain()
        row = (await harness.requests())["a"]
        assert (row.status, row.error_message) == ("pending", "classifier_count")


async def delete(harness: ArticlesHarness, identity: str) -> None:
    gone = sa.delete(Content).where(Content.identity == identity)
    await harness.mill.run(lambda connection: connection.execute(gone).close())


async def test_an_article_that_is_deleted_while_it_waits_or_runs(database_url: str) -> None:
    """A6: its row is gone with it; the others of its batch are not affected."""
    async with articles_on(database_url) as harness:
        await harness.save("waits", "runs", "stays")
        await delete(harness, "waits")
        harness.classifier.before_answer = lambda: delete(harness, "runs")
        report = await harness.bench.drain()
        assert (report.done, report.lost) == (1, 1)
        assert await harness.states() == {"stays": "completed"}
        assert (await harness.bench.drain()).claimed == 0


async def test_a_row_without_an_article_fails_for_good(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A5+, A6: on a table of before that has no foreign key."""
    async with articles_on(database_url) as harness:
        await harness.save("a", "b")
        await without_foreign_key(harness)
        await delete(harness, "a")
        with caplog.at_level(logging.INFO, "rowmill.systems.articles"):
            await harness.bench.drain()
        rows = await harness.read(sa.text("SELECT status, retry_count, error_message FROM classification_queue"))
        assert sorted(map(tuple, rows)) == [("completed", 0, None), ("failed", 1, "Content not found")]
        ours = [record for record in caplog.records if record.name == "rowmill.systems.articles"]
        events = {vars(record)["event"] for record in ours if record.levelno > logging.INFO}
        assert events == {"classification_worker.content_not_found"}
        await harness.bench.advance(100_000)
        assert (await harness.mill.drain([harness.articles.requests.name])).claimed == 0


async def without_foreign_key(harness: ArticlesHarness) -> None:
    """Make the table as a team may have had it."""
    if harness.mill.url.get_backend_name() == "postgresql":
        await harness.sql("ALTER TABLE classification_queue DROP CONSTRAINT classification_queue_content_id_fkey")
        return

    def rewrite(connection: sa.Connection) -> None:
        made = str(
            connection.exec_driver_sql(
                "SELECT sql FROM sqlite_master WHERE name = 'classification_queue' AND type = 'table'"
            ).scalar()
        )
        others = connection.exec_driver_sql(
            "SELECT sql FROM sqlite_master WHERE tbl_name = 'classification_queue' AND type = 'index' AND sql > ''"
        ).scalars().all()  # fmt: skip
        connection.exec_driver_sql("ALTER TABLE classification_queue RENAME TO former")
        key = "FOREIGN KEY(content_id) REFERENCES contents (id) ON DELETE CASCADE"
        assert key in made
        connection.exec_driver_sql(made.replace(key, "CHECK (true)"))
        connection.exec_driver_sql("INSERT INTO classification_queue SELECT * FROM former")
        connection.exec_driver_sql("DROP TABLE former")
        for index in others:
            connection.exec_driver_sql(index)

    await harness.mill.run(rewrite)


async def test_topics_of_a_former_text_are_not_written(database_url: str) -> None:
    """A sync changes the text while the model reads it: the worker loses its lease, and the new text is classified."""
    async with articles_on(database_url, {"a": {"old": 0.9}}) as harness:
        await harness.save("a", "b")

        async def change() -> None:
            harness.classifier.before_answer = lambda: None
            saved = await harness.save(entry("a", title="new title"))
            assert saved.queued == 1

        harness.classifier.before_answer = change
        report = await harness.bench.drain()
        assert (report.lost, report.done) == (1, 2)
        assert (await harness.contents())["a"].topics == ["news"]
        row = (await harness.requests())["a"]
        assert (row.status, row.retry_count, row.error_message) == ("completed", 0, None)


@pytest.mark.parametrize("answer", [{"old": 0.9}, rm.PermanentError(code="too_long")])
async def test_a_text_that_plain_sql_changed_is_classified_again(database_url: str, answer: Any) -> None:
    """Without a sync, nobody ends the lease: the hash of what was read tells."""
    async with articles_on(database_url, {"a": answer}) as harness:
        await harness.save("a")

        async def change() -> None:
            harness.classifier.before_answer = lambda: None
            await harness.sql("UPDATE contents SET title = 'new title', text_hash = 'another'")

        harness.classifier.before_answer = change
        await harness.bench.drain()
        assert harness.classifier.calls == [["a"], ["new title"]]
        assert (await harness.contents())["a"].topics == ["news"]
        row = (await harness.requests())["a"]
        assert (row.status, row.retry_count) == ("completed", 0)


async def test_an_article_that_somebody_has_locked_holds_up_nobody(pg_url: str) -> None:
    """The sync and a DELETE have the article first and want the row then: nobody waits for them, or both would wait."""
    async with articles_on(pg_url) as harness:
        await harness.save("locked", "free")
        locked, settled = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            async with harness.mill.store.engine.connect() as connection, connection.begin():
                await connection.execute(sa.text("SELECT 1 FROM contents WHERE identity = 'locked' FOR UPDATE"))
                locked.set()
                await settled.wait()

        holder = asyncio.create_task(hold())
        await locked.wait()
        async with asyncio.timeout(30):
            await harness.bench.drain()
        assert await harness.states() == {"locked": "pending", "free": "completed"}
        row = (await harness.requests())["locked"]
        assert (row.retry_count, row.error_message) == (0, "article_busy")
        settled.set()
        await holder
        await harness.bench.advance(10)
        await harness.bench.drain()
        assert await harness.states() == {"locked": "completed", "free": "completed"}


async def test_syncs_and_deletes_beside_workers(database_url: str) -> None:
    """Nobody waits for ever, nothing is lost, and in the end every article has the topics of its last text."""
    async with articles_on(database_url) as one, articles_on(database_url, source=None) as other:
        names, rounds = [f"e{n:02}" for n in range(30)], 12

        def topics_of_text(article: ArticleText) -> Topics:
            return (TopicScore(article.description, 0.9),)

        for harness in (one, other):
            harness.classifier._answer = topics_of_text  # type: ignore[method-assign]

        async def sync(harness: ArticlesHarness) -> None:
            for n in range(rounds):
                some = [entry(name, text=f"text {n}") for name in (names if n % 2 else reversed(names))]
                await harness.save(*some, source_id=one.source_id)

        async def tidy() -> None:
            for name in names[:5] * 2:
                await delete(one, name)

        async with (
            asyncio.timeout(60),
            one.mill.worker(settings=QUICK) as first,
            other.mill.worker(settings=QUICK) as second,
        ):
            working = [asyncio.create_task(worker.run()) for worker in (first, second)]
            await asyncio.gather(sync(one), sync(other), tidy())
            await one.save(*(entry(name, text="the last text") for name in names))
            for worker in (first, second):
                worker.stop()
            await asyncio.gather(*working)
        await one.bench.drain()
        await one.bench.advance(100)
        await one.bench.drain()
        contents, rows = await one.contents(), await one.requests()
        assert set(contents) == set(rows) == set(names)
        assert {(row.status, row.retry_count) for row in rows.values()} == {("completed", 0)}
        assert {str(row.topics) for row in contents.values()} == {"['the last text']"}


async def test_higher_priorities_first_then_the_oldest(database_url: str) -> None:
    """A3."""
    async with articles_on(database_url, batch_size=1) as harness:
        await harness.save("a", "b", "c", "d")
        for identity, priority, created in (("a", 0, 1), ("b", 10, 2), ("c", 5, 3), ("d", 10, 1)):
            await harness.sql(
                "UPDATE classification_queue SET priority = :priority, created_at = :created WHERE content_id = "
                "(SELECT id FROM contents WHERE identity = :identity)",
                priority=priority, identity=identity, created=moment(database_url, created),
            )  # fmt: skip
        await harness.bench.drain()
        assert harness.classifier.calls == [["d"], ["b"], ["c"], ["a"]]


def moment(url: str, day: int) -> Any:
    return datetime(2026, 1, day, tzinfo=UTC) if url.startswith("postgresql") else f"2026-01-{day:02} 00:00:00.000000"


async def test_a_plain_insert_is_classified(database_url: str) -> None:
    """A2: as an operator would type it. The key and everything else have defaults."""
    async with articles_on(database_url) as harness:
        await harness.save("a", "b")
        await harness.sql("DELETE FROM classification_queue")
        await harness.sql("INSERT INTO classification_queue (content_id) SELECT id FROM contents")
        rows = await harness.requests()
        assert len({row.id for row in rows.values()}) == 2
        assert {(row.status, row.priority, row.retry_count) for row in rows.values()} == {("pending", 0, 0)}
        await harness.bench.drain()
        assert await harness.states() == {"a": "completed", "b": "completed"}


async def test_new_articles_wake_an_idle_worker(database_url: str) -> None:
    """A4: although it looks only every 30 seconds by itself."""
    async with articles_on(database_url) as harness:
        classified = asyncio.Event()
        harness.classifier.before_answer = classified.set
        quiet = rm.worker.WorkerSettings(poll_base=30, poll_max=30, grace=5, heartbeat=0.5)
        async with harness.mill.worker(["classification_queue"], settings=quiet) as worker:
            running = asyncio.create_task(worker.run())
            await asyncio.sleep(0.5)  # until it sleeps: no event says so
            async with asyncio.timeout(10):
                await harness.save("a")
                await classified.wait()
                classified.clear()
                await asyncio.sleep(0.5)
                await harness.save(entry("a", text="other words"))
                await classified.wait()
            worker.stop()
            await running
        assert await harness.states() == {"a": "completed"}


async def test_the_worker_polls_as_the_settings_say(database_url: str) -> None:
    """A4."""
    assert worker_settings(settings_for(database_url)).poll_max == 30
    assert worker_settings(settings_for(database_url, poll_seconds=0.05)).poll_base == 0.05
