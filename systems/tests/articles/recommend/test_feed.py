"""A7: pages of the feed have every article that was there at the beginning, once, best first."""

import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill.web.keyset import UnknownPage
from rowmill_systems.articles.models import Content, FeedSource
from rowmill_systems.articles.recommend.cursor import Position, decode
from rowmill_systems.articles.recommend.feed import FeedPage, read_feed
from systems.tests.articles.shelf import ME, NOW, article_row, connected, follow, mark_read, put_article, put_source


def titles(page: FeedPage) -> list[str]:
    return [item.row["title"] for item in page.items]


def all_pages(connection: sa.Connection, **asked: Any) -> list[uuid.UUID]:
    found: list[uuid.UUID] = []
    after = ""
    while True:
        page = read_feed(connection, ME, after=after, **asked)
        found += [item.row["id"] for item in page.items]
        if page.next is None:
            return found
        after = page.next


def test_an_article_without_topics_is_rated_by_its_source_and_never_left_out(database_url: str) -> None:
    """A7."""
    with connected(database_url) as connection:
        follow(connection, {"technology.ai": 1.0})
        tech = put_source(connection, topics=["technology.ai"])
        plain, none = put_source(connection, topics=[]), put_source(connection)
        for source, title, topics in [
            (plain, "classified, fits", ["technology.ai"]),
            (tech, "not classified, its source fits", None),
            (none, "not classified, no topics of its source", None),
            (tech, "classified, fits nothing", []),
        ]:
            put_article(connection, source, title, hours=2, topics=topics)
        found = titles(read_feed(connection, ME))
    assert found[:2] == ["classified, fits", "not classified, its source fits"]
    assert sorted(found[2:]) == ["classified, fits nothing", "not classified, no topics of its source"]


def test_freshness_read_marks_and_sources_count(database_url: str) -> None:
    with connected(database_url) as connection:
        liked, other = put_source(connection), put_source(connection)
        follow(connection, {}, sources={str(liked): 1.0})
        old = put_article(connection, other, "old", hours=200)
        put_article(connection, other, "new", hours=0)
        put_article(connection, liked, "liked", hours=1)
        read = put_article(connection, other, "read", hours=0)
        mark_read(connection, read)
        assert titles(read_feed(connection, ME)) == ["liked", "new", "old", "read"]
        assert titles(read_feed(connection, ME, unread=True)) == ["liked", "new", "old"]
        assert titles(read_feed(connection, "somebody else"))[0] in ("new", "read")
        assert read_feed(connection, ME).items[2].row["id"] == old


def test_pages_neither_repeat_nor_skip_whatever_happens_meanwhile(database_url: str) -> None:
    """New articles come in, also with times of the past; topics arrive; topics are followed; articles are deleted."""
    with connected(database_url) as connection:
        sources = [put_source(connection, f"s{n}", topics=["a"] if n else None) for n in range(4)]
        rows = [article_row(sources[n % 4], f"t{n}", hours=n / 7) for n in range(200)]
        connection.execute(sa.insert(Content), rows)
        there = {row["id"] for row in rows}
        seen: list[uuid.UUID] = []
        deleted: set[uuid.UUID] = set()
        after, step = "", 0
        while True:
            page = read_feed(connection, ME, after=after, limit=7, window=50)
            seen += [item.row["id"] for item in page.items]
            if page.next is None:
                break
            after, step = page.next, step + 1
            late: dict[str, Any] = {"created_at": NOW + timedelta(hours=1)}
            connection.execute(
                sa.insert(Content), [article_row(sources[0], "late", hours=hours, **late) for hours in (-1, 0, 2, 9)]
            )
            left = [row["id"] for row in rows if row["id"] not in seen]
            gone = left[len(left) // 2 : len(left) // 2 + 1]
            connection.execute(sa.delete(Content).where(Content.id.in_(gone + seen[-1:])))
            deleted |= {*gone, seen[-1]}
            topics = {"topics": ["b"], "topic_scores": {"b": 0.8}} if step % 2 else {"topics": ["a"]}
            connection.execute(sa.update(Content).where(Content.id.in_(left[step::5])).values(topics))
            follow(connection, {"a": 1.0} if step % 3 else {"b": 1.0})
            mark_read(connection, *[id for id in left[-2:] if id not in deleted and step == 3])
    assert len(seen) == len(set(seen))
    assert there - deleted <= set(seen) <= there


def test_a_reader_without_changes_gets_the_same_pages_again(database_url: str) -> None:
    with connected(database_url) as connection:
        source = put_source(connection)
        connection.execute(sa.insert(Content), [article_row(source, hours=n) for n in range(30)])
        first = read_feed(connection, ME, limit=10)
        assert first.next is not None
        second, again = (read_feed(connection, ME, limit=10, after=first.next) for _ in range(2))
        assert [item.row["id"] for item in second.items] == [item.row["id"] for item in again.items]


def test_many_articles_of_one_time_and_without_one(database_url: str) -> None:
    with connected(database_url) as connection:
        source = put_source(connection)
        rows = [article_row(source, published_at=None, shown_at=NOW) for _ in range(90)]
        connection.execute(sa.insert(Content), rows)
        found = all_pages(connection, limit=7, window=20)
    assert sorted(found) == sorted(row["id"] for row in rows)


def test_unread_pages_end_also_where_nearly_everything_is_read(database_url: str) -> None:
    with connected(database_url) as connection:
        source = put_source(connection)
        rows = [article_row(source, hours=n) for n in range(120)]
        connection.execute(sa.insert(Content), rows)
        follow(connection, {})
        mark_read(connection, *[row["id"] for row in rows[:-3]])
        assert sorted(all_pages(connection, limit=5, window=10, unread=True)) == sorted(row["id"] for row in rows[-3:])


def test_an_empty_feed(database_url: str) -> None:
    with connected(database_url) as connection:
        assert read_feed(connection, ME) == FeedPage([], None)


@pytest.mark.parametrize("cursor", ["x", "é", ".", "bm9uZQ", "W10.", "WzEsMiwzLDQsNSw2LDdd.AAAA", "A" * 20_000])
def test_a_cursor_that_is_none(sqlite_url: str, cursor: str) -> None:
    with connected(sqlite_url) as connection, pytest.raises(UnknownPage):
        read_feed(connection, ME, after=cursor)


def test_what_other_programs_wrote_into_json_does_no_harm(database_url: str) -> None:
    with connected(database_url) as connection:
        source = put_source(connection)
        connection.execute(sa.update(FeedSource).values(granular_topics={"not": "a list"}))
        follow(connection, {"a": "much", "b": None, "c": 1e308, "": 1.0})
        put_article(connection, source, "odd", topics=["c", 7, None], scores={"c": "high"})  # type: ignore[list-item,dict-item]
        put_article(connection, source, "odder", topic_scores=[1])
        assert len(read_feed(connection, ME).items) == 2


def forged(connection: sa.Connection, **changes: Any) -> str:
    """Return the cursor of a second page, with something else in it."""
    following = read_feed(connection, ME, limit=1, window=3).next
    assert following is not None
    return replace(decode(following), **changes).encode()


def test_a_forged_cursor_has_no_more_articles_ranked_than_some_windows(database_url: str) -> None:
    with connected(database_url) as connection:
        source = put_source(connection)
        connection.execute(sa.insert(Content), [article_row(source, f"t{n}", hours=n) for n in range(13)])
        top, bottom = Position("9000-01-01", uuid.UUID(int=0)), Position("1000-01-01", uuid.UUID(int=0))
        after = forged(connection, top=top, bottom=bottom)
        with pytest.raises(UnknownPage):
            read_feed(connection, ME, after=after, window=3)
        assert len(read_feed(connection, ME, after=after, window=4).items) == 13


@pytest.mark.parametrize(
    "moment", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-01-01\ud80000:00:00", "2026-01-01\x0000"]
)
def test_a_time_that_no_database_takes_is_no_page(database_url: str, moment: str) -> None:
    with connected(database_url) as connection:
        source = put_source(connection)
        for hours in range(5):
            put_article(connection, source, hours=hours)
        for end in ("top", "bottom"):
            after = forged(connection, **{end: Position(moment, uuid.UUID(int=0))})
            with pytest.raises(UnknownPage):
                read_feed(connection, ME, after=after)
