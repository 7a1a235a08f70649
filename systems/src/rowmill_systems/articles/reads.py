"""What pages, endpoints and commands read. No statement here grows with the table of articles."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, array

from rowmill.web.keyset import Keyset, KeysetPage, contains
from rowmill_systems.articles.models import ClassificationRequest, Content, DeletedArticle, FeedSource, ReadMark
from rowmill_systems.articles.readers import ME
from rowmill_systems.articles.recommend.statements import shown_columns
from rowmill_systems.parts.database import in_utc, upsert_into
from rowmill_systems.parts.index_plans import any_index, index_order

LOOKED_AT = 10_000
"""Articles that are compared with filters for one page."""
TEXTS_LOOKED_AT = 3_000
"""The same where texts are searched."""
TOPIC_LOOKED_AT = 2_000
"""Articles in which a topic is looked for before its index is asked: those of a common topic are among them."""
MOST_OF_A_TOPIC = 20_000
"""Articles of a topic that are sorted for a page. A topic with more is found by looking at articles one by one."""
COUNTED = 5_000
"""The newest articles, in which topics are counted."""
DAYS = 7
"""For articles per day."""
MOST_PER_SOURCE = 2_000
"""Articles of a source that are counted in those days."""
MOST_SOURCES = 10_000
"""Sources that are counted by state."""
STATUSES = ("pending", "processing", "completed", "failed", "cancelled")
"""Of the classification queue."""


@dataclass(frozen=True, slots=True)
class ArticleFilter:
    """Which articles are wanted. What is not given filters nothing."""

    topics: Sequence[str] = ()
    """Articles with any of these."""
    source: uuid.UUID | None = None
    unread: bool = False
    classified: bool | None = None
    text: str = ""
    """Searched in titles and texts."""
    since: datetime | None = None
    until: datetime | None = None


articles_by_time = Keyset({"shown": Content.shown_at}, Content.id, default="-shown")
sources_by_address = Keyset({"address": FeedSource.url}, FeedSource.id, default="address")


# served by: ix_contents_shown; with a source ix_contents_source; for a rare topic idx_contents_topics
def article_page(
    connection: sa.Connection, wanted: ArticleFilter, *, reader: str = ME, after: str = "", limit: int = 50
) -> KeysetPage:
    """Return a page of articles, the newest first, with `is_read`. Raises UnknownPage.

    A page may have few articles or none, and yet a next page: filters look at a bounded number of articles.
    """
    select = shown_columns().add_columns(_is_read(reader).label("is_read"))
    source = None if wanted.source is None else (Content.source_id, wanted.source)
    if wanted.since is not None:
        select = select.where(Content.shown_at >= wanted.since)
    if wanted.until is not None:
        select = select.where(Content.shown_at < wanted.until)
    filters: list[sa.ColumnElement[bool]] = []
    if wanted.unread:
        filters.append(_is_read(reader) == sa.literal_column("0"))
    if wanted.classified is not None:
        filters.append(Content.topics.is_not(None) if wanted.classified else Content.topics.is_(None))
    if wanted.text:
        filters.append(sa.or_(contains(Content.title, wanted.text), contains(Content.text, wanted.text)))
    most = TEXTS_LOOKED_AT if wanted.text else LOOKED_AT

    def read(select: "sa.Select[Any]", filters: Sequence["sa.ColumnElement[bool]"], looked_at: int) -> KeysetPage:
        with index_order(connection):
            return in_any_order(select, filters, looked_at)

    def in_any_order(
        select: "sa.Select[Any]", filters: Sequence["sa.ColumnElement[bool]"], looked_at: int
    ) -> KeysetPage:
        return articles_by_time.read(
            connection, select, filters=filters, within=source, after=after, limit=limit, looked_at=looked_at
        )

    if not wanted.topics:
        return read(select, filters, most)
    has_topic = _has_topic(connection, wanted.topics)
    if connection.dialect.name != "postgresql":
        return read(select, [*filters, has_topic], most)
    page = read(select, [*filters, has_topic], min(TOPIC_LOOKED_AT, most))
    if len(page.rows) == limit or page.next is None:
        return page
    with any_index(connection):
        some = sa.select(Content.id).where(has_topic).limit(MOST_OF_A_TOPIC + 1).subquery()
        if (connection.scalar(sa.select(sa.func.count()).select_from(some)) or 0) <= MOST_OF_A_TOPIC:
            return in_any_order(select.where(has_topic), filters, most)
    return read(select, [*filters, has_topic], most)


# served by: the primary key
def one_article(connection: sa.Connection, id: uuid.UUID, reader: str = ME) -> sa.RowMapping | None:
    """Return an article with its text and the state of its classification, or None if it is gone."""
    wanted = (
        shown_columns()
        .add_columns(
            _is_read(reader).label("is_read"), Content.description, Content.text, Content.updated_at,
            ClassificationRequest.status.label("classification"),
            ClassificationRequest.error_message.label("classification_error"),
        )
        .outerjoin(ClassificationRequest, ClassificationRequest.content_id == Content.id)
        .where(Content.id == id)
    )  # fmt: skip
    return connection.execute(wanted).mappings().one_or_none()


# served by: the primary keys
def delete_article(connection: sa.Connection, id: uuid.UUID) -> bool:
    """Delete an article with its place in the queue and its read marks, for good: a sync that finds it in its feed does
    not save it again. Return whether it was there."""
    article = sa.select(Content.source_id, Content.identity).where(Content.id == id)
    note = upsert_into(connection, DeletedArticle).from_select(["source_id", "identity"], article)
    connection.execute(note.on_conflict_do_nothing(index_elements=["source_id", "identity"]))
    return connection.execute(sa.delete(Content).where(Content.id == id)).rowcount > 0


# served by: the unique index of url; articles of each by ix_contents_source
def source_page(
    connection: sa.Connection, *, failing: bool = False, after: str = "", limit: int = 100, now: datetime
) -> KeysetPage:
    """Return a page of sources in the order of their addresses, with `recent`: articles of the last DAYS."""
    filters = [FeedSource.failures > 0] if failing else []
    return sources_by_address.read(connection, _sources(now), filters=filters, after=after, limit=limit)


def one_source(connection: sa.Connection, id: uuid.UUID, now: datetime) -> sa.RowMapping | None:
    return connection.execute(_sources(now).where(FeedSource.id == id)).mappings().one_or_none()


# served by: the primary key; at most MOST_SOURCES rows
def source_states(connection: sa.Connection) -> dict[str, int]:
    """Count sources by state, and those that fail by `failing`; up to MOST_SOURCES."""
    some = sa.select(FeedSource.status, FeedSource.failures).limit(MOST_SOURCES).subquery()
    failing = sa.func.sum(
        sa.case((sa.and_(some.c.failures > 0, some.c.status.in_(("due", "fetching", "idle"))), 1), else_=0)
    )
    found: dict[str, int] = {"failing": 0}
    for status, number, bad in connection.execute(
        sa.select(some.c.status, sa.func.count(), failing).group_by(some.c.status)
    ):
        found[status] = number
        found["failing"] += int(bad or 0)
    return found


@dataclass(frozen=True, slots=True)
class TopicCount:
    topic: str
    articles: int


@dataclass(frozen=True, slots=True)
class TopicCounts:
    """Topics of the newest articles, the most frequent first."""

    topics: tuple[TopicCount, ...]
    articles: int
    """How many articles were looked at."""
    unclassified: int
    """Those of them that have no topics yet."""


# served by: ix_contents_shown; COUNTED rows
def topic_counts(connection: sa.Connection, most: int = COUNTED) -> TopicCounts:
    """Count the topics of the newest articles."""
    newest = (
        sa.select(Content.topics).order_by(Content.shown_at.desc(), Content.id.desc()).limit(most).subquery("newest")
    )
    total, unclassified = connection.execute(
        sa.select(sa.func.count(), sa.func.count().filter(newest.c.topics.is_(None)))
    ).one()
    # A value that is no list, as other programs may write it, must not make the statement fail.
    if connection.dialect.name == "postgresql":
        lists = sa.case(
            (sa.func.jsonb_typeof(newest.c.topics) == "array", newest.c.topics), else_=sa.text("'[]'::jsonb")
        )
        each = sa.func.jsonb_array_elements_text(lists).table_valued("value").lateral()
    else:
        each = sa.func.json_each(_list(newest.c.topics)).table_valued("value")
    # SQLite stores halves of characters, which no text of Python can be read from.
    kind: sa.types.TypeEngine[Any] = sa.Text() if connection.dialect.name == "postgresql" else sa.LargeBinary()
    wanted = (
        sa.select(sa.cast(each.c.value, kind), sa.func.count().label("articles"))
        .select_from(newest.join(each, sa.true()))
        .where(each.c.value.is_not(None))
        .group_by(each.c.value)
        .order_by(sa.desc("articles"), each.c.value)
    )
    found = tuple(TopicCount(_text(topic), number) for topic, number in connection.execute(wanted))
    return TopicCounts(found, total, unclassified)


# served by: idx_queue_status_created
def oldest_pending(connection: sa.Connection, now: datetime) -> float | None:
    """Return for how many seconds the oldest article has waited for its topics; None if none waits."""
    request = ClassificationRequest
    wanted = (
        sa.select(request.created_at)
        .where(request.status == sa.literal_column("'pending'"))
        .order_by(request.created_at)
        .limit(1)
    )
    found = connection.scalar(wanted)
    return None if found is None else max((now - in_utc(found)).total_seconds(), 0.0)


requests_by_time = Keyset({"created": ClassificationRequest.created_at}, ClassificationRequest.id, default="-created")


# served by: idx_queue_status_created
def request_page(connection: sa.Connection, status: str, *, after: str = "", limit: int = 50) -> KeysetPage:
    """Return a page of requests with a status, the newest first. Raises UnknownPage, ValueError for no such status."""
    if status not in STATUSES:
        raise ValueError("there is no such status")
    request = ClassificationRequest
    wanted: sa.Select[*tuple[Any, ...]] = (
        sa.select(
            request.id, request.content_id, request.status, request.priority, request.retry_count,
            request.error_message, request.created_at, request.updated_at, request.processed_at, request.available_at,
            Content.title,
        )
        .join(Content, Content.id == request.content_id)
        .where(request.status == sa.literal_column(f"'{status}'"))
    )  # fmt: skip
    return requests_by_time.read(connection, wanted, after=after, limit=limit)


def _is_read(reader: str) -> "sa.ColumnElement[int]":
    # Not EXISTS: PostgreSQL may then read all marks of the reader at once.
    mark: sa.Select[Any] = sa.select(sa.literal_column("1")).where(
        ReadMark.reader_id == reader, ReadMark.content_id == Content.id
    )
    return sa.func.coalesce(
        mark.limit(1).correlate(Content).scalar_subquery(), sa.literal_column("0"), type_=sa.Integer()
    )


def _has_topic(connection: sa.Connection, topics: Sequence[str]) -> "sa.ColumnElement[bool]":
    if connection.dialect.name == "postgresql":
        given = sa.cast(array(list(topics)), ARRAY(sa.Text))
        return Content.topics.op("?|", is_comparison=True, return_type=sa.Boolean())(given)
    each = sa.func.json_each(_list(Content.topics)).table_valued("value")
    return sa.exists(sa.select(1).select_from(each).where(each.c.value.in_(list(topics))).correlate(Content))


def _list(column: Any) -> "sa.ColumnElement[Any]":
    """Return a JSON list on SQLite; NULL for a value that is none, at which its functions of JSON would fail."""
    lists = sa.case((sa.func.json_type(column) == "array", column))
    return sa.type_coerce(sa.case((sa.func.json_valid(column) == sa.literal_column("1"), lists)), sa.Text())


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "ignore") if isinstance(value, bytes) else value


def _sources(now: datetime) -> "sa.Select[*tuple[Any, ...]]":
    some = (
        sa.select(sa.literal_column("1").label("one"))
        .where(Content.source_id == FeedSource.id, Content.shown_at >= now - timedelta(days=DAYS))
        .limit(MOST_PER_SOURCE)
        .correlate(FeedSource)
        .subquery()
    )
    recent = sa.select(sa.func.count()).select_from(some).scalar_subquery()
    source = FeedSource
    wanted: sa.Select[*tuple[Any, ...]] = sa.select(
        source.id, source.url, source.host, source.title, source.site_url, source.language, source.granular_topics,
        source.status, source.attempts, source.error, source.next_sync_at, source.fixed_interval_seconds,
        source.interval_seconds, source.moved_to, source.last_sync_at, source.last_success_at, source.last_new_at,
        source.last_status, source.last_code, source.failures, source.created_at, recent.label("recent"),
    )  # fmt: skip
    return wanted
