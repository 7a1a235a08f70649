"""Articles on a database, with a classifier that does as it is told."""

import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from rowmill.testing import QUICK, Bench
from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.feeds.entries import FeedEntry
from rowmill_systems.articles.models import ClassificationRequest, Content, FeedSource
from rowmill_systems.articles.saving import SavedEntries, save_entries
from rowmill_systems.articles.settings import ArticlesSettings
from systems.tests.articles.scripted_classifier import ScriptedClassifier


def settings_for(url: str, **more: Any) -> ArticlesSettings:
    return ArticlesSettings(**{"database_url": url} | more)


def entry(identity: str, **more: Any) -> FeedEntry:
    """An entry of a feed, an hour old, whose title is its identity."""
    values: dict[str, Any] = {
        "url": f"https://example.org/{identity}",
        "title": identity,
        "description": f"<p>about {identity}</p>",
        "text": f"about {identity}",
        "published_at": datetime.now(UTC) - timedelta(hours=1),
    }
    return FeedEntry(identity=identity, **values | more)


class ArticlesHarness:
    """Articles, and what a test asks of them."""

    def __init__(self, articles: Articles, classifier: ScriptedClassifier) -> None:
        self.articles, self.classifier, self.mill = articles, classifier, articles.mill
        self.bench = Bench(articles.mill)
        self.source_id = uuid.uuid4()

    async def add_source(self, url: str = "https://example.org/feed", **more: Any) -> uuid.UUID:
        key = more.pop("id", None) or uuid.uuid4()
        row = {"id": key, "url": url, "host": "example.org", "status": "idle"} | more
        await self.mill.run(lambda connection: connection.execute(sa.insert(FeedSource).values(row)).close())
        return key

    async def save(self, *entries: FeedEntry | str, source_id: uuid.UUID | None = None) -> SavedEntries:
        made = [entry(each) if isinstance(each, str) else each for each in entries]
        return await self.mill.run(lambda c: save_entries(c, source_id or self.source_id, made))

    async def sql(self, statement: str, **values: Any) -> int:
        """Run plain SQL, as an operator would. Return how many rows it changed."""
        return await self.mill.run(lambda connection: connection.execute(sa.text(statement), values).rowcount)

    async def read(self, statement: Any) -> Sequence[Any]:
        return await self.mill.run(lambda connection: connection.execute(statement).all(), write=False)

    async def contents(self) -> dict[str, Any]:
        """Return articles by identity."""
        return {row.identity: row for row in await self.read(sa.select(Content.__table__))}

    async def requests(self) -> dict[str, Any]:
        """Return rows of the queue by the identity of their article."""
        table, content = ClassificationRequest.__table__, Content.__table__
        joined = sa.select(table, content.c.identity).join(content, content.c.id == table.c.content_id)
        return {row.identity: row for row in await self.read(joined)}

    async def states(self) -> dict[str, str]:
        return {identity: row.status for identity, row in (await self.requests()).items()}


@asynccontextmanager
async def articles_on(
    url: str,
    answers: Any = None,
    *,
    migrate: bool = False,
    source: str | None = "https://example.org/feed",
    **more: Any,
) -> AsyncIterator[ArticlesHarness]:
    classifier = answers if isinstance(answers, ScriptedClassifier) else ScriptedClassifier(answers)
    articles = Articles(settings_for(url, **more), classifier=classifier)
    articles.mill.settings = QUICK
    if migrate:
        await articles.migrate()
    async with articles.opened():
        harness = ArticlesHarness(articles, classifier)
        if source is not None:
            await harness.add_source(source, id=harness.source_id)
        yield harness
