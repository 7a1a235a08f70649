"""Add feeds: by their address, by that of a page, or by a list in OPML."""

import asyncio
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx2
import sqlalchemy as sa

from rowmill_systems.articles.feeds.opml import ListedFeed, read_opml, write_opml
from rowmill_systems.articles.feeds.parsing import NotAFeed
from rowmill_systems.articles.feeds.texts import plain_title
from rowmill_systems.articles.models import FeedSource
from rowmill_systems.parts.database import upsert_into
from rowmill_systems.parts.fetching import FetchFailed, host_of

if TYPE_CHECKING:
    from rowmill_systems.articles.articles import Articles

LONGEST_FEED_URL = 2000
"""Bytes, as it is stored. PostgreSQL indexes no text of more than about 2,700."""
AT_ONCE = 500
"""Rows per statement: databases allow some ten thousand parameters."""
LISTED_AT_ONCE = 200
"""Feeds of a list that are written in one transaction: some ten milliseconds."""


@dataclass(frozen=True, slots=True)
class AddedSource:
    id: uuid.UUID
    url: str
    host: str
    title: str
    created: bool
    """False if the feed was there before: nothing of it was changed."""


@dataclass(frozen=True, slots=True)
class AddedList:
    """What became of a list of feeds."""

    added: Sequence[AddedSource]
    refused: dict[str, str]
    """Codes, by the addresses that are none."""

    @property
    def created(self) -> int:
        return sum(source.created for source in self.added)


def add_source(
    connection: sa.Connection, url: str, *, title: str = "", topics: Sequence[str] | None = None
) -> AddedSource:
    """Add a feed, which is then due. A feed that is there stays as it is. Raises FetchFailed (`bad_address`,
    `address_too_long`)."""
    return add_sources(connection, [ListedFeed(url, title)], topics=topics).added[0]


def add_sources(
    connection: sa.Connection, feeds: Iterable[ListedFeed], *, topics: Sequence[str] | None = None, strict: bool = True
) -> AddedList:
    """Add feeds, in the caller's transaction. Without `strict`, addresses that are none are returned, not raised."""
    rows, refused = source_rows(feeds, topics=topics, strict=strict)
    added: list[AddedSource] = []
    for start in range(0, len(rows), AT_ONCE):
        added += write_sources(connection, rows[start : start + AT_ONCE])
    return AddedList(added, refused)


def source_rows(
    feeds: Iterable[ListedFeed], *, topics: Sequence[str] | None = None, strict: bool = True
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return feeds as rows, each address once, and codes by the addresses that are none. With `strict`, raises
    FetchFailed for one that is none."""
    rows: dict[str, dict[str, Any]] = {}
    refused: dict[str, str] = {}
    for feed in feeds:
        try:
            url = feed_url(feed.url)
            row = {"id": uuid.uuid4(), "url": url, "host": host_of(url), "title": plain_title(feed.title)}
        except FetchFailed as error:
            if strict:
                raise
            refused[feed.url] = error.code
            continue
        rows.setdefault(url, row | {"site_url": feed.site_url, "granular_topics": list(topics) if topics else None})
    return list(rows.values()), refused


# served by: uq_sources_url
def write_sources(connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> list[AddedSource]:
    """Insert rows of `source_rows`, at most AT_ONCE. Those that are there stay as they are."""
    insert = upsert_into(connection, FeedSource).values(list(rows)).on_conflict_do_nothing(index_elements=["url"])
    new = set(connection.scalars(insert.returning(FeedSource.id)))
    urls = [row["url"] for row in rows]
    columns = (FeedSource.id, FeedSource.url, FeedSource.host, FeedSource.title)
    there = connection.execute(sa.select(*columns).where(FeedSource.url.in_(urls)))
    found = {row.url: AddedSource(row.id, row.url, row.host, row.title, row.id in new) for row in there}
    return [found[url] for url in urls]


def feed_url(url: str) -> str:
    """Return an address in the form in which it is stored: with a scheme, and without a fragment. Raises FetchFailed
    (`bad_address`, `address_too_long`)."""
    text = url.strip()
    for scheme in ("feed:", "rss:"):  # what some pages put before the address of a feed
        if text.lower().startswith(scheme):
            text = text[len(scheme) :].lstrip("/")
    if "://" not in text and "." in text.partition("/")[0]:
        text = f"https://{text}"
    host_of(text)
    stored = str(httpx2.URL(text).copy_with(fragment=None))
    if not is_storable_url(stored):
        raise FetchFailed("address_too_long")
    return stored


def is_storable_url(url: str) -> bool:
    """Return whether an address is short enough for the index that keeps feeds apart."""
    return len(url.encode("utf-8", "replace")) <= LONGEST_FEED_URL


async def add_address(
    articles: "Articles", url: str, *, title: str = "", topics: Sequence[str] | None = None
) -> list[AddedSource]:
    """Add the feed at an address, or the first of those that the page there names. Raises FetchFailed, or NotAFeed if
    there are none.

    A page names its main feed first; the others are those of comments and sections.
    """
    found = await articles.fetcher.discover(feed_url(url))
    if not found:
        raise NotAFeed("there is no feed at this address, and its page names none")
    first = found[0]
    return [
        await articles.mill.run(
            lambda connection: add_source(connection, first.url, title=title or first.title, topics=topics)
        )
    ]


async def add_opml(articles: "Articles", content: bytes) -> AddedList:
    """Add the feeds of a list in OPML. Raises OpmlUnreadable, with nothing added.

    A long list takes seconds to read. It is read in a thread, and written some feeds at a time, so that requests are
    answered and other writers get their turn meanwhile. Interrupted, the same call goes on.
    """
    rows, refused = await asyncio.to_thread(_listed_rows, content)
    added: list[AddedSource] = []
    for start in range(0, len(rows), LISTED_AT_ONCE):
        added += await articles.mill.run(partial(write_sources, rows=rows[start : start + LISTED_AT_ONCE]))
    return AddedList(added, refused)


def _listed_rows(content: bytes) -> tuple[list[dict[str, Any]], dict[str, str]]:
    return source_rows(read_opml(content), strict=False)


def export_opml(connection: sa.Connection, now: datetime) -> bytes:
    """Return all feeds but the retired ones as a list in OPML."""
    rows = connection.execute(
        sa.select(FeedSource.url, FeedSource.title, FeedSource.site_url)
        .where(FeedSource.status != "retired")
        .order_by(FeedSource.title, FeedSource.url)
    )
    feeds = [ListedFeed(row.url, row.title, (), row.site_url) for row in rows]
    return write_opml(feeds, title="Feeds", now=now)
