"""Articles and sources that are put into the tables directly, for tests of what reads them."""

import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from rowmill.testing import QUICK
from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.models import ArticleReader, ClassificationRequest, Content, FeedSource, ReadMark
from systems.tests.articles.harness import settings_for

NOW = datetime.now(UTC).replace(microsecond=0)
ME = "me"


def put_source(
    connection: sa.Connection, title: str = "A feed", *, topics: Sequence[str] | None = None, **more: Any
) -> uuid.UUID:
    """Insert a source, and return its id."""
    id = uuid.uuid4()
    host = f"{id.hex[:8]}.example"
    values = {"id": id, "url": f"https://{host}/feed.xml", "host": host, "title": title, "status": "idle"}
    values |= {"granular_topics": None if topics is None else list(topics)} | more
    connection.execute(sa.insert(FeedSource).values(values))
    return id


def put_article(
    connection: sa.Connection,
    source: uuid.UUID,
    title: str = "An article",
    *,
    hours: float = 1.0,
    topics: Sequence[str] | None = None,
    scores: Mapping[str, float] | None = None,
    **more: Any,
) -> uuid.UUID:
    """Insert an article that was published so many hours ago, and return its id."""
    row = article_row(source, title, hours=hours, topics=topics, scores=scores, **more)
    connection.execute(sa.insert(Content).values(row))
    return row["id"]  # type: ignore[no-any-return]


def article_row(
    source: uuid.UUID,
    title: str = "An article",
    *,
    hours: float = 1.0,
    topics: Sequence[str] | None = None,
    scores: Mapping[str, float] | None = None,
    **more: Any,
) -> dict[str, Any]:
    id, published = uuid.uuid4(), NOW - timedelta(hours=hours)
    return {
        "id": id,
        "source_id": source,
        "identity": id.hex,
        "url": f"https://example.org/{id.hex}",
        "title": title,
        "description": f"<p>{title}.</p>",
        "text": f"{title}.",
        "text_hash": id.hex,
        "published_at": published,
        "shown_at": published,
        "topics": None if topics is None else list(topics),
        "topic_scores": None if topics is None else dict(scores or dict.fromkeys(topics, 0.9)),
    } | more


def put_request(connection: sa.Connection, content: uuid.UUID, status: str = "pending", **more: Any) -> uuid.UUID:
    """Put an article into the classification queue, with this status."""
    id = uuid.uuid4()
    connection.execute(
        sa.insert(ClassificationRequest).values({"id": id, "content_id": content, "status": status} | more)
    )
    return id


def follow(
    connection: sa.Connection, topics: Mapping[str, Any], reader: str = ME, sources: Mapping[str, float] | None = None
) -> None:
    """Set what a reader follows."""
    values = {"topics": dict(topics), "sources": dict(sources or {})}
    if not connection.execute(sa.update(ArticleReader).where(ArticleReader.id == reader).values(values)).rowcount:
        connection.execute(sa.insert(ArticleReader).values(id=reader, **values))


def mark_read(connection: sa.Connection, *ids: uuid.UUID, reader: str = ME) -> None:
    for id in ids:
        connection.execute(sa.insert(ReadMark).values(reader_id=reader, content_id=id))


@contextmanager
def connected(url: str) -> Iterator[sa.Connection]:
    """A connection in a transaction, for code without an event loop."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    if engine.dialect.name == "sqlite":

        @sa.event.listens_for(engine, "connect")
        def enforce(connection: Any, _: Any) -> None:
            connection.execute("PRAGMA foreign_keys = ON")

    with engine.begin() as connection:
        yield connection
    engine.dispose()


@asynccontextmanager
async def articles_on(url: str, **more: Any) -> AsyncIterator[Articles]:
    """Articles on a database that has the tables."""
    articles = Articles(settings_for(url, **{"ml_enabled": False} | more))
    articles.mill.settings = QUICK
    async with articles.opened():
        yield articles
