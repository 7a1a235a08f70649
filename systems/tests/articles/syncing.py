"""Articles for tests of the sync."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa

from rowmill_systems.articles.adding import add_sources
from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.feeds.opml import ListedFeed
from rowmill_systems.articles.models import FeedSource
from rowmill_systems.articles.settings import ArticlesSettings


class FeedSystem(Articles):
    """Articles, and what tests of the sync ask of them."""

    async def add(self, urls: Sequence[str]) -> None:
        await self.mill.run(lambda connection: add_sources(connection, [ListedFeed(url) for url in urls]))

    async def source(self, url: str) -> sa.Row[Any]:
        return (await self.rows(FeedSource.url == url))[0]

    async def rows(self, which: Any = None) -> Sequence[sa.Row[Any]]:
        query = sa.select(FeedSource.__table__).where(sa.true() if which is None else which).order_by(FeedSource.url)
        return await self.mill.run(lambda connection: connection.execute(query).all(), write=False)

    async def change(self, **values: Any) -> None:
        await self.mill.run(lambda connection: connection.execute(sa.update(FeedSource).values(**values)))


@asynccontextmanager
async def feed_system(database_url: str, **given: Any) -> AsyncIterator[FeedSystem]:
    usual = {"allow_private_addresses": True, "fetch_seconds": 10.0}
    system = FeedSystem(ArticlesSettings(database_url=database_url, **usual | given))
    async with system.opened():
        yield system
