"""Lists of articles, sources, topics and requests: filters, pages, counts."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill_systems.articles import reads
from rowmill_systems.articles.models import Content, FeedSource
from rowmill_systems.articles.reads import ArticleFilter, TopicCount
from systems.tests.articles.shelf import (
    NOW,
    article_row,
    connected,
    follow,
    mark_read,
    put_article,
    put_request,
    put_source,
)


def titles(connection: sa.Connection, **wanted: Any) -> list[str]:
    return [row["title"] for row in reads.article_page(connection, ArticleFilter(**wanted)).rows]


def test_articles_are_filtered_by_topic_source_mark_text_and_time(database_url: str) -> None:
    with connected(database_url) as connection:
        one, other = put_source(connection, "One"), put_source(connection, "Other")
        put_article(connection, one, "Chips", hours=1, topics=["technology.ai", "business"])
        put_article(connection, other, "Goals", hours=2, topics=["sport"])
        put_article(connection, other, "100% off_", hours=30)
        read = put_article(connection, one, "Old chips", hours=80, topics=[])
        follow(connection, {})
        mark_read(connection, read)
        assert titles(connection) == ["Chips", "Goals", "100% off_", "Old chips"]
        assert titles(connection, topics=["business"]) == ["Chips"]
        assert titles(connection, topics=["sport", "technology.ai", "nothing"]) == ["Chips", "Goals"]
        assert titles(connection, topics=["technology"]) == []
        assert titles(connection, source=one) == ["Chips", "Old chips"]
        assert titles(connection, source=uuid.uuid4()) == []
        assert titles(connection, unread=True) == ["Chips", "Goals", "100% off_"]
        assert titles(connection, classified=True) == ["Chips", "Goals", "Old chips"]
        assert titles(connection, classified=False) == ["100% off_"]
        assert titles(connection, text="CHIPS") == ["Chips", "Old chips"]
        assert titles(connection, text="% off_") == ["100% off_"]
        assert titles(connection, text="chips", unread=True, topics=["business"], source=one) == ["Chips"]
        assert titles(connection, since=NOW - timedelta(hours=40), until=NOW - timedelta(hours=1.5)) == [
            "Goals", "100% off_",
        ]  # fmt: skip
        marks = {row["title"]: row["is_read"] for row in reads.article_page(connection, ArticleFilter()).rows}
        assert marks == {"Chips": 0, "Goals": 0, "100% off_": 0, "Old chips": 1}


@pytest.mark.parametrize("topics", [(), ("rare",), ("common",)])
def test_pages_of_a_list_have_every_article_once(
    database_url: str, topics: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in (("LOOKED_AT", 25), ("TOPIC_LOOKED_AT", 10), ("MOST_OF_A_TOPIC", 20)):
        monkeypatch.setattr(reads, name, most)
    with connected(database_url) as connection:
        source = put_source(connection)
        rows = [
            article_row(source, hours=n // 3, topics=["rare"] if n % 20 == 7 else ["common"] if n % 2 else None)
            for n in range(100)
        ]
        connection.execute(sa.insert(Content), rows)
        found, after = list[uuid.UUID](), ""
        for _ in range(100):
            page = reads.article_page(connection, ArticleFilter(topics=topics), after=after, limit=6)
            assert len(page.rows) <= 6
            found += [row["id"] for row in page.rows]
            if page.next is None:
                break
            after = page.next
    wanted = [row["id"] for row in rows if not topics or set(topics) & set(row["topics"] or ())]
    assert len(found) == len(set(found))
    assert set(found) == set(wanted)


def test_topics_are_counted_and_odd_values_left_alone(database_url: str) -> None:
    with connected(database_url) as connection:
        source = put_source(connection)
        for topics in (["a", "b"], ["a"], [], None, None):
            put_article(connection, source, topics=topics)
        put_article(connection, source, hours=500, topics=["old"])
        if connection.dialect.name == "postgresql":
            put_article(connection, source, topics=["x"])
            connection.exec_driver_sql("""UPDATE contents SET topics = '"odd"' WHERE topics = '["x"]'""")
        found = reads.topic_counts(connection)
    assert found.topics == (TopicCount("a", 2), TopicCount("b", 1), TopicCount("old", 1))
    assert found.unclassified == 2


def test_topics_are_counted_in_the_newest_articles_only(database_url: str) -> None:
    with connected(database_url) as connection:
        source = put_source(connection)
        for hours in range(5):
            put_article(connection, source, hours=hours, topics=[f"t{hours}"])
        assert [each.topic for each in reads.topic_counts(connection, 2).topics] == ["t0", "t1"]


def test_sources_with_articles_of_the_week_and_their_states(database_url: str) -> None:
    with connected(database_url) as connection:
        busy = put_source(connection, "Busy")
        put_source(connection, "Failing", failures=3, last_code="timeout")
        put_source(connection, "Paused", status="paused", failures=1)
        for hours in (1, 2, 400):
            put_article(connection, busy, hours=hours)
        rows = reads.source_page(connection, now=NOW).rows
        assert {row["title"]: row["recent"] for row in rows} == {"Busy": 2, "Failing": 0, "Paused": 0}
        assert [row["url"] for row in rows] == sorted(row["url"] for row in rows)
        assert {row["title"] for row in reads.source_page(connection, now=NOW, failing=True).rows} == {
            "Failing", "Paused",
        }  # fmt: skip
        assert reads.source_states(connection) == {"idle": 2, "paused": 1, "failing": 1}
        first = reads.source_page(connection, now=NOW, limit=2)
        assert first.next is not None
        assert [row["id"] for row in reads.source_page(connection, now=NOW, after=first.next).rows] == [rows[2]["id"]]
        one = reads.one_source(connection, busy, NOW)
        assert one is not None
        assert one["recent"] == 2
        assert reads.one_source(connection, uuid.uuid4(), NOW) is None


def test_the_queue_is_listed_by_status(database_url: str) -> None:
    with connected(database_url) as connection:
        source = put_source(connection)
        for number in range(3):
            article = put_article(connection, source, f"t{number}")
            put_request(connection, article, "failed" if number else "pending", created_at=NOW + timedelta(number))
        page = reads.request_page(connection, "failed", limit=1)
        assert [row["title"] for row in page.rows] == ["t2"]
        assert [row["title"] for row in reads.request_page(connection, "failed", after=page.next or "").rows] == ["t1"]
        assert reads.request_page(connection, "cancelled").rows == []
        with pytest.raises(ValueError, match="no such status"):
            reads.request_page(connection, "x'; --")
        assert reads.oldest_pending(connection, NOW + timedelta(seconds=90)) == 90
        assert reads.oldest_pending(connection, NOW - timedelta(seconds=90)) == 0
    with connected(database_url) as connection:
        connection.execute(sa.delete(FeedSource))
        assert reads.oldest_pending(connection, NOW) is None


def test_a_deleted_article_leaves_the_queue_and_its_marks(database_url: str) -> None:
    """A6."""
    with connected(database_url) as connection:
        article = put_article(connection, put_source(connection))
        put_request(connection, article)
        follow(connection, {})
        mark_read(connection, article)
        assert reads.delete_article(connection, article)
        assert not reads.delete_article(connection, article)
        assert reads.one_article(connection, article) is None
        for table in ("classification_queue", "read_marks"):
            assert connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 0
