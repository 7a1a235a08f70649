"""The statements of the feed. Each reads a bounded number of rows, however many articles there are."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from rowmill_systems.articles.models import ArticleReader, Content, FeedSource, Moment, ReadMark
from rowmill_systems.articles.recommend.cursor import Position
from rowmill_systems.articles.recommend.scoring import FeedCandidate, ReaderTaste, bounded
from rowmill_systems.parts.database import in_utc
from rowmill_systems.parts.index_plans import index_order


@dataclass(frozen=True, slots=True)
class WindowRow:
    """An article of a window, and where it stands by time."""

    position: Position
    candidate: FeedCandidate


def taste_of(connection: sa.Connection, reader: str) -> ReaderTaste:
    """Return what a reader wants to see; nothing in particular for one who is not known yet."""
    row = connection.execute(
        sa.select(ArticleReader.topics, ArticleReader.sources).where(ArticleReader.id == reader)
    ).first()
    if row is None:
        return ReaderTaste()
    topics, sources = row
    return ReaderTaste(_weights(topics), _weights(sources))


# served by: ix_contents_shown
def window_below(
    connection: sa.Connection, reader: str, pinned_at: datetime, below: Position | None, size: int
) -> list[WindowRow]:
    """Return the next articles by time, the newest first, at most `size`: those below a position, or the newest."""
    key = _key(connection)
    wanted = _light(connection, pinned_at).limit(size)
    if below is not None:
        wanted = wanted.where(sa.tuple_(key, Content.id) < _pair(connection, below))
    return _rows(connection, reader, wanted)


# served by: ix_contents_shown
def window_between(
    connection: sa.Connection, reader: str, pinned_at: datetime, top: Position, bottom: Position, size: int
) -> list[WindowRow]:
    """Return the articles of a window that are still there, the newest first, at most `size`."""
    here = sa.tuple_(_key(connection), Content.id)
    wanted = _light(connection, pinned_at).where(here <= _pair(connection, top), here >= _pair(connection, bottom))
    return _rows(connection, reader, wanted.limit(size))


# served by: ix_contents_shown
def is_anything_below(connection: sa.Connection, pinned_at: datetime, below: Position) -> bool:
    """Return whether there is an article below this position that was there when the reader began."""
    key = _key(connection)
    wanted = sa.select(sa.literal(1)).where(sa.tuple_(key, Content.id) < _pair(connection, below))
    wanted = wanted.where(Content.created_at <= pinned_at).order_by(key.desc(), Content.id.desc()).limit(1)
    with index_order(connection):
        return connection.execute(wanted).first() is not None


# served by: the primary key
def candidate_of(connection: sa.Connection, reader: str, id: uuid.UUID) -> FeedCandidate | None:
    """Return one article as scoring sees it; None if it is gone."""
    wanted = _columns(connection).where(Content.id == id)
    found = _rows(connection, reader, wanted)
    return found[0].candidate if found else None


# served by: the primary keys
def shown_articles(connection: sa.Connection, ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, sa.RowMapping]:
    """Return what a page shows of these articles. One that was deleted meanwhile is missing."""
    wanted = shown_columns().where(Content.id.in_(ids))
    return {row["id"]: row for row in connection.execute(wanted).mappings()}


SUMMARY = 400
"""Characters of an article's text that a list shows."""


def shown_columns() -> "sa.Select[Any]":
    """Return the select of what lists show of an article and its source."""
    return sa.select(
        Content.id, Content.source_id, Content.url, Content.title, Content.author,
        sa.func.substr(Content.text, 1, SUMMARY).label("summary"), Content.image_url, Content.language,
        Content.published_at, Content.shown_at, Content.created_at, Content.topics, Content.topic_scores,
        FeedSource.title.label("source_title"), FeedSource.url.label("source_url"),
        FeedSource.host.label("source_host"), FeedSource.granular_topics.label("source_topics"),
    ).join(FeedSource, FeedSource.id == Content.source_id)  # fmt: skip


def _columns(connection: sa.Connection) -> "sa.Select[Any]":
    return sa.select(
        Content.id, Content.source_id, Content.shown_at, _key(connection).label("key"), Content.topics,
        Content.topic_scores,
    )  # fmt: skip


def _light(connection: sa.Connection, pinned_at: datetime) -> "sa.Select[Any]":
    """Return the select of windows, without texts."""
    wanted = _columns(connection).where(Content.created_at <= pinned_at)
    return wanted.order_by(_key(connection).desc(), Content.id.desc())


def _rows(connection: sa.Connection, reader: str, wanted: "sa.Select[Any]") -> list[WindowRow]:
    with index_order(connection):
        rows = connection.execute(wanted).all()
    if not rows:
        return []
    topics = _source_topics(connection, {row.source_id for row in rows})
    read = read_ids(connection, reader, [row.id for row in rows])
    return [
        WindowRow(
            Position(row.key if isinstance(row.key, str) else row.key.isoformat(), row.id),
            FeedCandidate(
                id=row.id,
                source_id=row.source_id,
                shown_at=in_utc(row.shown_at),
                topics=None if row.topics is None else _texts(row.topics),
                topic_scores=_weights(row.topic_scores),
                source_topics=topics.get(row.source_id, ()),
                is_read=row.id in read,
            ),
        )
        for row in rows
    ]


# served by: the primary key
def _source_topics(connection: sa.Connection, ids: set[uuid.UUID]) -> dict[uuid.UUID, list[str]]:
    wanted = sa.select(FeedSource.id, FeedSource.granular_topics).where(FeedSource.id.in_(ids))
    return {id: _texts(topics) for id, topics in connection.execute(wanted)}


# served by: the primary key
def read_ids(connection: sa.Connection, reader: str, ids: Sequence[uuid.UUID]) -> set[uuid.UUID]:
    """Return those of these articles that the reader has read."""
    wanted = sa.select(ReadMark.content_id).where(ReadMark.reader_id == reader, ReadMark.content_id.in_(ids))
    return set(connection.scalars(wanted))


def _key(connection: sa.Connection) -> "sa.ColumnElement[Any]":
    """Return `shown_at` as the database compares it: SQLite compares texts, and not all have fractions of seconds."""
    if connection.dialect.name == "sqlite":
        return sa.type_coerce(Content.shown_at, sa.Text())
    return sa.type_coerce(Content.shown_at, Moment)


def _pair(connection: sa.Connection, position: Position) -> "sa.Tuple":
    text = connection.dialect.name == "sqlite"
    at: Any = position.shown_at if text else in_utc(datetime.fromisoformat(position.shown_at))
    return sa.tuple_(sa.literal(at, sa.Text() if text else Moment), sa.literal(position.id, sa.Uuid()))


def _texts(value: object) -> list[str]:
    """Return the texts of a JSON list. Other programs may have written something else."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _weights(value: object) -> dict[str, float]:
    return {str(name): bounded(each) for name, each in value.items()} if isinstance(value, dict) else {}
