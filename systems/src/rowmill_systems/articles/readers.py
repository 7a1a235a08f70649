"""What readers follow, prefer and have read."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.articles.models import ArticleReader, Content, FeedSource, ReadMark
from rowmill_systems.articles.recommend.scoring import MOST_WEIGHT, bounded
from rowmill_systems.parts.database import upsert_into
from rowmill_systems.parts.values import UNSTORABLE

ME = "me"
"""The reader where there is no login."""
MOST_FOLLOWED = 500
LONGEST_TOPIC = 200


@dataclass(frozen=True, slots=True)
class Interests:
    """The weights of a reader: above zero what is followed, below what is wanted less."""

    topics: dict[str, float]
    sources: dict[str, float]


def interests_of(connection: sa.Connection, reader: str = ME) -> Interests:
    """Return what a reader follows; nothing for one who is not known yet."""
    row = connection.execute(
        sa.select(ArticleReader.topics, ArticleReader.sources).where(ArticleReader.id == reader)
    ).first()
    return Interests(_kept(row.topics), _kept(row.sources)) if row else Interests({}, {})


def follow_topic(connection: sa.Connection, topic: str, weight: float = 1.0, reader: str = ME) -> Interests:
    """Follow a topic, or a group of topics by its name; want less of it, with a weight below zero. Idempotent.

    Raises BadRequest for a topic or weight that can't be.
    """
    name = topic.strip()
    if not name or len(name) > LONGEST_TOPIC or UNSTORABLE.search(name):
        raise rm.errors.BadRequest(f"a topic has 1 to {LONGEST_TOPIC} characters")
    found = _locked(connection, reader)
    if name not in found.topics and len(found.topics) >= MOST_FOLLOWED:
        raise rm.errors.BadRequest(f"a reader follows at most {MOST_FOLLOWED} topics: unfollow some")
    return _write(connection, reader, Interests({**found.topics, name: _weight(weight)}, found.sources))


def unfollow_topic(connection: sa.Connection, topic: str, reader: str = ME) -> Interests:
    """Neither follow a topic nor want less of it. Idempotent."""
    found = _locked(connection, reader)
    found.topics.pop(topic.strip(), None)
    return _write(connection, reader, found)


def prefer_source(connection: sa.Connection, source: uuid.UUID, weight: float, reader: str = ME) -> Interests:
    """Want more of a source, or less with a weight below zero; 0 forgets it. Raises BadRequest for a bad weight.

    Sources that are gone are forgotten too.
    """
    found = _locked(connection, reader)
    sources = {**found.sources, str(source): _weight(weight, zero=True)}
    known = {str(id) for id in connection.scalars(sa.select(FeedSource.id).where(FeedSource.id.in_(_ids(sources))))}
    kept = {id: value for id, value in sources.items() if value and id in known}
    return _write(connection, reader, Interests(found.topics, kept))


# served by: the primary keys
def mark_read(connection: sa.Connection, articles: Sequence[uuid.UUID], reader: str = ME) -> int:
    """Mark articles as read. Return how many of them are there. Idempotent."""
    there = list(
        connection.scalars(sa.select(Content.id).where(Content.id.in_(articles)).with_for_update(key_share=True))
    )
    if there:
        _make(connection, reader)
        rows = [{"reader_id": reader, "content_id": id} for id in there]
        connection.execute(upsert_into(connection, ReadMark).on_conflict_do_nothing(), rows)
    return len(there)


# served by: the primary key
def mark_unread(connection: sa.Connection, articles: Sequence[uuid.UUID], reader: str = ME) -> int:
    """Take read marks away. Return how many there were. Idempotent."""
    gone = sa.delete(ReadMark).where(ReadMark.reader_id == reader, ReadMark.content_id.in_(articles))
    return connection.execute(gone).rowcount


def _make(connection: sa.Connection, reader: str) -> None:
    row = {"id": reader, "topics": {}, "sources": {}}
    connection.execute(upsert_into(connection, ArticleReader).values(row).on_conflict_do_nothing())


def _locked(connection: sa.Connection, reader: str) -> Interests:
    """Make the reader if needed, and hold the row: two changes at once must not lose one of them."""
    _make(connection, reader)
    connection.execute(sa.select(ArticleReader.id).where(ArticleReader.id == reader).with_for_update()).close()
    return interests_of(connection, reader)


def _write(connection: sa.Connection, reader: str, found: Interests) -> Interests:
    values: dict[str, Any] = {"topics": found.topics, "sources": found.sources}
    connection.execute(sa.update(ArticleReader).where(ArticleReader.id == reader).values(values))
    return found


def _weight(given: float, *, zero: bool = False) -> float:
    weight = bounded(given)
    if weight != given or (not weight and not zero):
        raise rm.errors.BadRequest(f"a weight is between -{MOST_WEIGHT:g} and {MOST_WEIGHT:g}, and not 0")
    return weight


def _kept(weights: object) -> dict[str, float]:
    pairs = weights.items() if isinstance(weights, dict) else ()
    return {str(name): bounded(weight) for name, weight in pairs if bounded(weight)}


def _ids(texts: object) -> list[uuid.UUID]:
    found = []
    for text in texts if isinstance(texts, dict) else ():
        try:
            found.append(uuid.UUID(text))
        except ValueError:
            continue
    return found
