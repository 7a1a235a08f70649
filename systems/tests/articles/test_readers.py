"""Readers follow topics, prefer sources and mark what they read."""

import uuid

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.articles import readers
from rowmill_systems.articles.models import ArticleReader, ReadMark
from rowmill_systems.articles.readers import MOST_FOLLOWED, Interests
from systems.tests.articles.shelf import connected, put_article, put_source


def test_topics_are_followed_and_unfollowed(database_url: str) -> None:
    with connected(database_url) as connection:
        assert readers.interests_of(connection) == Interests({}, {})
        readers.follow_topic(connection, " technology.ai ")
        readers.follow_topic(connection, "sport", -1.0)
        assert readers.follow_topic(connection, "sport", -2.0).topics == {"technology.ai": 1.0, "sport": -2.0}
        readers.unfollow_topic(connection, "sport")
        readers.unfollow_topic(connection, "never followed")
        assert readers.interests_of(connection).topics == {"technology.ai": 1.0}
        assert readers.interests_of(connection, "somebody else").topics == {}


@pytest.mark.parametrize(
    ("topic", "weight"), [("", 1.0), ("a", 0.0), ("a", 4.0), ("a", float("nan")), ("x" * 201, 1.0), ("a\x00", 1.0)]
)
def test_a_topic_or_weight_that_can_not_be(sqlite_url: str, topic: str, weight: float) -> None:
    with connected(sqlite_url) as connection, pytest.raises(rm.errors.BadRequest):
        readers.follow_topic(connection, topic, weight)


def test_there_is_an_end_to_following(sqlite_url: str) -> None:
    with connected(sqlite_url) as connection:
        topics = {f"t{n}": 1.0 for n in range(MOST_FOLLOWED)}
        connection.execute(sa.insert(ArticleReader).values(id="me", topics=topics, sources={}))
        readers.follow_topic(connection, "t1", 2.0)
        with pytest.raises(rm.errors.BadRequest, match="unfollow some"):
            readers.follow_topic(connection, "one more")


def test_a_source_is_preferred_and_forgotten_with_it(database_url: str) -> None:
    with connected(database_url) as connection:
        one, other = put_source(connection), put_source(connection)
        readers.prefer_source(connection, one, 1.0)
        assert readers.prefer_source(connection, other, -1.0).sources == {str(one): 1.0, str(other): -1.0}
        connection.exec_driver_sql("DELETE FROM sources")
        third = put_source(connection)
        assert readers.prefer_source(connection, third, 2.0).sources == {str(third): 2.0}
        assert readers.prefer_source(connection, third, 0).sources == {}
        assert readers.prefer_source(connection, uuid.uuid4(), 1.0).sources == {}


def test_articles_are_marked_and_unmarked(database_url: str) -> None:
    with connected(database_url) as connection:
        source = put_source(connection)
        one, other = put_article(connection, source), put_article(connection, source)
        assert readers.mark_read(connection, [one, other, uuid.uuid4()]) == 2
        assert readers.mark_read(connection, [one]) == 1
        assert readers.mark_read(connection, [uuid.uuid4()]) == 0
        assert readers.mark_unread(connection, [one, uuid.uuid4()]) == 1
        assert list(connection.scalars(sa.select(ReadMark.content_id))) == [other]
