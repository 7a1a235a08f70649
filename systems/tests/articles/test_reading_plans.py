"""Lists and the feed are served by indexes: a page costs the same at a million articles, and before any ANALYZE."""

import re
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill_systems.articles import reads
from rowmill_systems.articles.models import ArticleReader, Content
from rowmill_systems.articles.reads import ArticleFilter
from rowmill_systems.articles.recommend.feed import read_feed
from systems.tests.articles.shelf import ME, NOW, article_row, connected, put_source

ROWS = 6000
TABLES = "(contents|read_marks|classification_queue)"
WHOLE = re.compile(rf"Seq Scan on {TABLES}|SCAN {TABLES}(?! USING (COVERING )?INDEX)")
BAD = re.compile(rf"{WHOLE.pattern}|Sort|TEMP B-TREE")
"""Whole tables, and sorting. Without a cursor, a page begins at the end of the index: SQLite calls that a SCAN."""


def fill(connection: sa.Connection) -> uuid.UUID:
    sources = [put_source(connection) for _ in range(5)]
    rows = [
        article_row(
            sources[n % 5], hours=n / 10, topics=["rare"] if n == 5500 else ["common"] if n % 3 else None,
        )
        for n in range(ROWS)
    ]  # fmt: skip
    connection.execute(sa.insert(Content), rows)
    connection.execute(sa.insert(ArticleReader).values(id=ME, topics={"common": 1.0}, sources={}))
    mark = "INSERT INTO read_marks (reader_id, content_id) SELECT 'me', id FROM contents LIMIT 3000"
    queue = (
        "INSERT INTO classification_queue (id, content_id, status) SELECT id, id, 'pending' FROM contents LIMIT 3000"
    )
    connection.execute(sa.text(mark))
    connection.execute(sa.text(queue))
    return sources[0]


def plans_of(connection: sa.Connection, work: Callable[[], Any]) -> list[str]:
    """Return the plan of each statement that is run, as it is run."""
    seen: list[tuple[str, Any]] = []

    def see(_connection: Any, _cursor: Any, text: str, given: Any, *_: Any) -> None:
        if text.lstrip().startswith("SELECT") and "set_config" not in text and "current_setting" not in text:
            explain = "EXPLAIN " if connection.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN "
            cursor = connection.connection.cursor()
            cursor.execute(explain + text, given)
            seen.append((text, "\n".join(str(row[-1]) for row in cursor.fetchall())))
            cursor.close()

    sa.event.listen(connection, "before_cursor_execute", see)
    try:
        work()
    finally:
        sa.event.remove(connection, "before_cursor_execute", see)
    assert seen
    return [plan for _, plan in seen]


@pytest.mark.parametrize("analysed", [False, True])
def test_pages_of_the_feed_read_windows_by_an_index(database_url: str, analysed: bool) -> None:
    with connected(database_url) as connection:
        fill(connection)
        if analysed:
            connection.exec_driver_sql("ANALYZE")
        first = read_feed(connection, ME, window=50, limit=20)
        assert first.next is not None
        second = read_feed(connection, ME, window=50, limit=20, after=first.next)
        assert second.next is not None
        for after in ("", first.next, second.next):
            found = plans_of(connection, partial(read_feed, connection, ME, window=50, limit=20, after=after))
            windows = [plan for plan in found if "ix_contents_shown" in plan]
            assert windows
            for plan in found:
                assert not BAD.search(plan), plan
            if after and connection.dialect.name == "sqlite":
                assert "(shown_at,id)>(?,?) AND (shown_at,id)<(?,?)" in windows[0], "both ends bound what is read"


@pytest.mark.parametrize("analysed", [False, True])
def test_lists_read_articles_by_an_index(database_url: str, analysed: bool) -> None:
    with connected(database_url) as connection:
        source = fill(connection)
        if analysed:
            connection.exec_driver_sql("ANALYZE")
        asked: list[tuple[str, ArticleFilter]] = [
            ("ix_contents_shown", ArticleFilter()),
            ("ix_contents_shown", ArticleFilter(unread=True)),
            ("ix_contents_shown", ArticleFilter(text="nothing")),
            ("ix_contents_shown", ArticleFilter(since=NOW, until=NOW)),
            ("ix_contents_shown", ArticleFilter(topics=["common"])),
            ("ix_contents_source", ArticleFilter(source=source)),
        ]
        for index, wanted in asked:
            page = reads.article_page(connection, wanted, limit=5)
            for after in {"", page.next or ""}:
                found = plans_of(connection, partial(reads.article_page, connection, wanted, after=after, limit=5))
                for plan in found:
                    assert index in plan, plan
                    assert not (BAD if wanted in (ArticleFilter(), ArticleFilter(source=source)) else WHOLE).search(
                        plan
                    ), plan
        for work in (
            lambda: reads.topic_counts(connection, 10),
            lambda: reads.oldest_pending(connection, NOW),
            lambda: reads.source_page(connection, now=NOW, limit=2),
        ):
            for plan in plans_of(connection, work):
                assert not WHOLE.search(plan), plan


def test_a_rare_topic_is_found_by_its_index(pg_url: str) -> None:
    with connected(pg_url) as connection:
        fill(connection)
        connection.exec_driver_sql("ANALYZE")
        found = plans_of(connection, lambda: reads.article_page(connection, ArticleFilter(topics=["rare"]), limit=5))
        assert sum("idx_contents_topics" in plan for plan in found) >= 1
        assert len(reads.article_page(connection, ArticleFilter(topics=["rare"]), limit=5).rows) == 1
