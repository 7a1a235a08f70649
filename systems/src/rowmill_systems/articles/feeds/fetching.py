"""Fetch and parse feeds, within the settings of articles."""

from datetime import datetime
from importlib.metadata import version

from rowmill_systems.articles.feeds.discovery import ACCEPT, DiscoveredFeed, discover
from rowmill_systems.articles.feeds.entries import ParsedFeed
from rowmill_systems.articles.feeds.parser import FeedParser
from rowmill_systems.articles.settings import ArticlesSettings
from rowmill_systems.parts.closing import AsyncCloseable
from rowmill_systems.parts.fetching import FetchedPage, Fetcher, FetchLimits
from rowmill_systems.parts.fetching.fetcher import Permit


class FeedFetcher(AsyncCloseable):
    """Fetches and parses feeds. It may be used again after it was closed, also in another event loop."""

    def __init__(self, settings: ArticlesSettings) -> None:
        self._settings = settings
        self._fetcher: Fetcher | None = None
        self._parser: FeedParser | None = None

    @property
    def fetcher(self) -> Fetcher:
        if self._fetcher is None:
            settings = self._settings
            self._fetcher = Fetcher(
                user_agent(settings.contact),
                limits=FetchLimits(settings.fetch_seconds, settings.max_feed_bytes),
                allow_private=settings.allow_private_addresses,
            )
        return self._fetcher

    @property
    def parser(self) -> FeedParser:
        if self._parser is None:
            self._parser = FeedParser()
        return self._parser

    async def fetch(
        self,
        url: str,
        *,
        etag: str | None = None,
        last_modified: str | None = None,
        validators_from: str | None = None,
        permit: Permit | None = None,
    ) -> FetchedPage:
        """Return the page of a feed. Raises FetchFailed. `validators_from` is the address that gave the validators."""
        return await self.fetcher.get(
            url,
            etag=etag,
            last_modified=last_modified,
            validators_from=validators_from,
            accept=ACCEPT,
            permit=permit,
        )

    async def parse(self, page: FetchedPage, now: datetime) -> ParsedFeed:
        """Return what a feed says. Raises NotAFeed or ParsingFailed."""
        return await self.parser.parse(
            page.body, url=page.url, content_type=page.content_type, max_entries=self._settings.max_entries, now=now
        )

    async def discover(self, url: str) -> list[DiscoveredFeed]:
        """Return the feeds of an address: itself, or those that its page names. Raises FetchFailed."""
        return await discover(self.fetcher, self.parser, url)

    async def close(self) -> None:
        fetcher, self._fetcher = self._fetcher, None
        parser, self._parser = self._parser, None
        if fetcher is not None:
            await fetcher.close()
        if parser is not None:
            await parser.close()


def user_agent(contact: str) -> str:
    """Return the User-Agent. With a contact, the operators of a server can write to you before they block you."""
    name = f"rowmill-articles/{version('rowmill-systems')}"
    return f"{name} (+{contact})" if contact else name
