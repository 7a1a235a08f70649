"""The statements on big tables are served by indexes, also before anybody has run ANALYZE."""

from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill_systems.articles.classification_queue_service import _count, _dequeue
from rowmill_systems.articles.matching import with_known_identities
from rowmill_systems.articles.models import FeedSource
from rowmill_systems.articles.processing import lock_articles, read_texts
from rowmill_systems.articles.queue import retire_gone
from rowmill_systems.articles.saving import save_entries
from rowmill_systems.parts.index_plans import index_order
from systems.tests.articles.harness import ArticlesHarness, articles_on, entry

ROWS = 3000


async def fill(harness: ArticlesHarness, analysed: bool) -> None:
    postgres = harness.mill.url.get_backend_name() == "postgresql"
    await harness.save(*(entry(f"e{n}") for n in range(ROWS)))
    await harness.sql(
        "UPDATE classification_queue SET status = CASE WHEN id > :middle THEN 'completed' ELSE 'pending' END, "
        "available_at = CASE WHEN priority = 10 THEN created_at END, priority = CASE WHEN content_id > :middle THEN 5 "
        "ELSE 0 END",
        middle="80000000-0000-0000-0000-000000000000" if postgres else "8" + "0" * 31,
    )
    if analysed:
        await harness.sql("ANALYZE")


def plans(connection: sa.Connection, work: Any, tables: tuple[str, ...]) -> str:
    """Run something, and return the plans of its statements on these tables."""
    seen: list[tuple[str, Any]] = []

    def see(_connection: Any, _cursor: Any, text: str, given: Any, *_: Any) -> None:
        if any(name in text for name in tables) and not text.startswith("EXPLAIN"):
            seen.append((text, given))

    sa.event.listen(connection, "before_cursor_execute", see)
    work(connection)
    sa.event.remove(connection, "before_cursor_execute", see)
    assert seen
    explain = "EXPLAIN " if connection.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN "
    with index_order(connection):
        return "\n".join(
            str(row[-1]) for text, given in seen for row in connection.exec_driver_sql(explain + text, given)
        )


def check(found: str, table: str, *indexes: str) -> None:
    for index in indexes:
        assert index in found, found
    for bad in (f"Seq Scan on {table}", "Sort", "TEMP B-TREE", f"SCAN {table}\n"):
        assert bad not in f"{found}\n", found


@pytest.mark.parametrize("analysed", [False, True])
async def test_taking_and_counting_read_no_whole_table(database_url: str, analysed: bool) -> None:
    async with articles_on(database_url) as harness:
        await fill(harness, analysed)
        queue = ("classification_queue",)
        found = await harness.mill.run(lambda c: plans(c, lambda c: _dequeue(c, 10), queue))
        check(found, *queue, "rowmill_classification_queue_work_ready")
        found = await harness.mill.run(lambda c: plans(c, lambda c: _count(c, 100), queue))
        check(found, *queue, "idx_queue_status_created")


async def test_the_claim_of_workers_is_served_by_its_index(database_url: str) -> None:
    """A2: one index for each stretch of the order, and nothing is sorted."""
    async with articles_on(database_url) as harness:
        await fill(harness, True)
        order = "priority DESC, available_at, created_at, id"
        if database_url.startswith("postgresql"):
            order = "priority DESC, available_at NULLS FIRST, created_at, id"
        wanted = (
            "SELECT id FROM classification_queue WHERE status IN ('pending') AND priority = 5 AND available_at IS NULL "
            f"ORDER BY {order} LIMIT 10"
        )
        found = await harness.mill.run(
            lambda c: plans(c, lambda c: c.exec_driver_sql(wanted), ("classification_queue",))
        )
        check(found, "classification_queue", "rowmill_classification_queue_work_ready")


@pytest.mark.parametrize("analysed", [False, True])
async def test_saving_and_classifying_read_no_whole_table(database_url: str, analysed: bool) -> None:
    """A1: so that a sync takes as long with a million articles."""
    async with articles_on(database_url) as harness:
        await fill(harness, analysed)
        entries = [entry(f"e{n}", text="other words") for n in range(5)] + [entry("new")]
        tables = ("contents", "classification_queue")

        def save(connection: sa.Connection) -> None:
            save_entries(connection, harness.source_id, entries)

        found = await harness.mill.run(lambda c: plans(c, save, tables))
        for table in tables:
            for bad in (f"Seq Scan on {table}", f"SCAN {table}\n"):
                assert bad not in f"{found}\n", found
        assert "uq_contents_identity" in found

        def match(connection: sa.Connection) -> None:
            with_known_identities(connection, harness.source_id, [entry("unknown"), entry("unknown too")])

        found = await harness.mill.run(lambda c: plans(c, match, tables))
        assert "ix_contents_text" in found, found
        keys = [row.id for row in (await harness.contents()).values()][:10]
        for work in (read_texts, lock_articles):
            found = await harness.mill.run(partial(plans, work=partial(work, keys=keys), tables=("contents",)))
            assert "Seq Scan on contents" not in found, found
            assert "SCAN contents\n" not in f"{found}\n", found


async def test_sources_that_are_gone_are_retired(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        gone = await harness.add_source("https://example.org/gone", last_status=410)
        await harness.add_source("https://example.org/soon", last_status=410, next_sync_at=sa.func.now())
        await harness.add_source("https://example.org/paused", last_status=410, status="paused")
        found = await harness.mill.run(lambda c: plans(c, retire_gone, ("sources",)))
        assert "ix_sources_next_sync" in found, found
        assert await harness.mill.run(retire_gone) == 0, "once"
        retired = sa.select(FeedSource.id).where(FeedSource.status == "retired")
        assert [row.id for row in await harness.read(retired)] == [gone]
        assert await harness.articles.sources.requeue(gone) == 1, "a person may put it back"
