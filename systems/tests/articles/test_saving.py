"""Entries of feeds become articles, each with one row in the queue."""

import asyncio
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill_systems.articles.identity import by_link
from rowmill_systems.articles.reads import delete_article
from rowmill_systems.articles.saving import SavedEntries, save_entries
from rowmill_systems.parts.database import in_utc
from systems.tests.articles.harness import articles_on, entry


async def test_new_articles_have_no_topics_and_are_queued(database_url: str) -> None:
    """A1, A2."""
    async with articles_on(database_url) as harness:
        assert await harness.save("a", "b") == SavedEntries(new=2, queued=2)
        contents, requests = await harness.contents(), await harness.requests()
        assert {identity: row.topics for identity, row in contents.items()} == {"a": None, "b": None}
        assert {(row.status, row.retry_count, row.processed_at) for row in requests.values()} == {("pending", 0, None)}
        a = contents["a"]
        assert (a.title, a.text, a.description, a.url) == (
            "a", "about a", "<p>about a</p>", "https://example.org/a",
        )  # fmt: skip


async def test_the_same_feed_again_writes_nothing(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        entries = [entry("a"), entry("b", published_at=None)]
        await harness.save(*entries)
        before = await harness.contents(), await harness.requests()
        assert await harness.save(*entries) == SavedEntries(unchanged=2)
        assert (await harness.contents(), await harness.requests()) == before


@pytest.mark.parametrize(
    ("age", "priority"),
    [
        (timedelta(0), 10), (timedelta(hours=23, minutes=59), 10), (timedelta(hours=24, minutes=1), 5),
        (timedelta(hours=71, minutes=59), 5), (timedelta(hours=72, minutes=1), 0), (timedelta(days=3000), 0),
        (None, 0), (timedelta(hours=-2), 10), (timedelta(days=-900), 0),
    ],
)  # fmt: skip
async def test_the_priority_is_that_of_the_age(database_url: str, age: timedelta | None, priority: int) -> None:
    """A3, A3+."""
    async with articles_on(database_url) as harness:
        await harness.save(entry("a", published_at=None if age is None else datetime.now(UTC) - age))
        assert (await harness.requests())["a"].priority == priority


async def test_a_changed_text_is_queued_again_and_other_changes_are_not(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        old = [entry("text"), entry("title"), entry("author"), entry("same")]
        await harness.save(*old)
        await harness.bench.drain()
        changed = [
            entry("text", text="other words"), entry("title", title="another title"),
            entry("author", author="somebody", published_at=old[2].published_at), old[3],
        ]  # fmt: skip
        assert await harness.save(*changed) == SavedEntries(updated=3, unchanged=1, queued=2)
        assert await harness.states() == {
            "text": "pending", "title": "pending", "author": "completed", "same": "completed",
        }  # fmt: skip
        contents = await harness.contents()
        assert contents["author"].author == "somebody"
        assert contents["text"].topics == ["news"], "those of the former text, until there are others"
        harness.classifier.answers["text"] = {"sports": 0.8}
        await harness.bench.drain()
        assert (await harness.contents())["text"].topics == ["sports"]
        assert harness.classifier.seen[-1].description in ("other words", "about title")


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "pending", "processing"])
async def test_whatever_became_of_it_a_new_text_gets_all_tries(database_url: str, status: str) -> None:
    async with articles_on(database_url) as harness:
        await harness.save("a")
        await harness.sql(
            "UPDATE classification_queue SET status = :status, retry_count = 3, error_message = 'old', lease = 5, "
            "processed_at = created_at, leased_until = created_at, available_at = created_at",
            status=status,
        )
        await harness.save(entry("a", text="other words", published_at=None))
        row = (await harness.requests())["a"]
        assert (row.status, row.retry_count, row.error_message, row.priority) == ("pending", 0, None, 0)
        assert (row.lease, row.leased_until, row.available_at, row.processed_at) == (None, None, None, None)


async def test_an_article_without_a_row_in_the_queue_gets_one_with_its_next_text(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        await harness.save("a")
        await harness.sql("DELETE FROM classification_queue")
        await harness.save(entry("a", text="other words"))
        assert await harness.states() == {"a": "pending"}


async def test_two_workers_that_save_the_same_feed_at_once(database_url: str) -> None:
    """One article each, one row each, and none of them fails."""
    async with articles_on(database_url) as one, articles_on(database_url, source=None) as other:
        entries = [entry(f"e{n}") for n in range(200)]
        saved = await asyncio.gather(one.save(*entries), other.save(*reversed(entries), source_id=one.source_id))
        assert sum(each.new for each in saved) == 200
        assert sum(each.queued for each in saved) == 200
        assert len(await one.contents()) == len(await one.requests()) == 200
        later = [entry(f"e{n}", text="other words") for n in range(200)]
        saved = await asyncio.gather(one.save(*later), other.save(*reversed(later), source_id=one.source_id))
        assert sum(each.updated for each in saved) == 200
        assert {row.text for row in (await one.contents()).values()} == {"other words"}


@pytest.mark.parametrize("count", [1, 100, 499])
async def test_a_feed_is_saved_by_a_fixed_number_of_statements(database_url: str, count: int) -> None:
    """A1: whatever the number of entries, and of articles that are there."""
    async with articles_on(database_url) as harness:

        def statements(connection: sa.Connection, entries: list[Any]) -> int:
            seen: list[str] = []

            def see(_connection: Any, _cursor: Any, text: str, *_: Any) -> None:
                seen.append(text)

            sa.event.listen(connection, "before_cursor_execute", see)
            save_entries(connection, harness.source_id, entries)
            sa.event.remove(connection, "before_cursor_execute", see)
            return len(seen)

        new = [entry(f"e{n}") for n in range(count)]
        changed = [entry(f"e{n}", text="other words") for n in range(count)]
        assert await harness.mill.run(lambda connection: statements(connection, new)) == 4
        assert await harness.mill.run(lambda connection: statements(connection, changed)) == 3
        assert await harness.mill.run(lambda connection: statements(connection, changed)) == 1


async def test_the_place_in_lists_is_written_once(database_url: str) -> None:
    """Not in the future, not without a time, and not moved when the feed changes its date."""
    async with articles_on(database_url) as harness:
        hour = timedelta(hours=1)
        before = datetime.now(UTC)
        times = {"past": before - 5 * hour, "future": before + 5 * hour, "none": None}
        await harness.save(*(entry(name, published_at=at) for name, at in times.items()))
        first = {row.identity: in_utc(row.shown_at) for row in (await harness.contents()).values()}
        assert first["past"] == times["past"]
        for name in ("future", "none"):
            assert before - hour < first[name] < before + hour
        await harness.save(*(entry(name, published_at=before - 9 * hour) for name in times))
        assert {row.identity: in_utc(row.shown_at) for row in (await harness.contents()).values()} == first


async def test_more_entries_than_one_statement_takes(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        assert (await harness.save(*(entry(f"e{n}") for n in range(1203)))).queued == 1203
        assert len(await harness.requests()) == 1203


async def test_entries_that_no_database_takes_as_they_are(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        long = "x" * 9000
        saved = await harness.save(
            entry("nul\x00", title="a\x00b\ud800", text="c\x00", author="\x00", language="x" * 99),
            entry(long, url=None, title=""),
            entry(long + "y", url=None),
            entry("first year", published_at=datetime(1, 1, 1, tzinfo=UTC)),
            entry("last year", published_at=datetime(9999, 12, 31, 23, 59, tzinfo=UTC)),
            entry("no zone", published_at=datetime(2020, 1, 1)),
            entry("twice", title="first"),
            entry("twice", title="second"),
        )
        assert saved.new == 7
        contents = await harness.contents()
        assert (contents["nul"].title, contents["nul"].text) == ("ab", "c")
        assert len(contents["nul"].language) == 20
        assert contents["twice"].title == "first", "the newest one comes first"
        assert max(map(len, contents)) < 100
        assert (await harness.requests())["last year"].priority == 0
        assert (await harness.save(entry(long, url=None, title=""))).updated <= 1


async def test_the_same_identity_in_two_feeds_is_two_articles(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        other = await harness.add_source("https://example.org/other")
        await harness.save("a")
        assert (await harness.save("a", source_id=other)).new == 1


async def test_nothing_to_save(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        assert await harness.save() == SavedEntries()


async def test_a_source_that_is_gone_gets_no_articles(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        with pytest.raises(sa.exc.IntegrityError):
            await harness.save("a", source_id=uuid.uuid4())
        assert await harness.contents() == {}


async def test_an_article_that_a_person_deleted_stays_away(database_url: str) -> None:
    """However often its feed names it, changed or not. The same article of another feed is another one."""
    async with articles_on(database_url) as harness:
        a, b, before = entry("a"), entry("b"), entry("of before")
        await harness.save(a, b, before)
        await harness.sql("UPDATE contents SET identity = :link WHERE identity = 'of before'",
                          link=by_link("https://example.org/of before"))  # fmt: skip
        for identity, row in (await harness.contents()).items():
            if identity != "b":
                assert await harness.mill.run(lambda connection, id=row.id: delete_article(connection, id))  # type: ignore[misc]
        changed = replace(before, text="other words")
        assert await harness.save(a, b, changed) == SavedEntries(unchanged=3)
        assert list(await harness.contents()) == ["b"]
        assert list(await harness.states()) == ["b"]
        other = await harness.add_source("https://other.example/feed")
        assert (await harness.save("a", source_id=other)).new == 1
