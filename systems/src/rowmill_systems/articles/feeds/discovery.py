"""Find the feeds of a page."""

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from html.parser import HTMLParser
from urllib.parse import urlsplit

from rowmill_systems.articles.feeds.links import absolute_link
from rowmill_systems.articles.feeds.parser import FeedParser, ParsingFailed
from rowmill_systems.articles.feeds.parsing import NotAFeed
from rowmill_systems.articles.feeds.texts import plain_title
from rowmill_systems.parts.fetching import FetchedPage, Fetcher, FetchFailed
from rowmill_systems.parts.texts.encodings import declared_charset, decode

ACCEPT = (
    "application/atom+xml, application/rss+xml, application/feed+json, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.5"
)
FEED_TYPES = {
    "application/rss+xml", "application/atom+xml", "application/rdf+xml", "application/feed+json", "application/json",
    "application/xml", "text/xml", "application/x-rss+xml", "text/rss+xml",
}  # fmt: skip
USUAL_PATHS = ("/feed", "/rss", "/feed.xml", "/atom.xml", "/rss.xml", "/index.xml", "/feed.json")
"""Tried if a page names no feeds."""
PAGE_BYTES = 3 * 1024 * 1024
HEAD_CHARACTERS = 1_000_000
MOST_FEEDS = 20


@dataclass(frozen=True, slots=True)
class DiscoveredFeed:
    url: str
    title: str
    """As the page or the feed calls it; may be empty."""


async def discover(fetcher: Fetcher, parser: FeedParser, url: str) -> list[DiscoveredFeed]:
    """Return the feeds of an address: itself if it is a feed, otherwise those that the page names, otherwise those at
    the usual places of its site that are feeds. Raises FetchFailed if the address can't be fetched."""
    page = await fetcher.get(url, accept=ACCEPT, max_bytes=max(PAGE_BYTES, fetcher.limits.max_bytes))
    title = await feed_title(parser, page)
    if title is not None:
        return [DiscoveredFeed(page.permanent_url or url, title)]
    named = feeds_of_page(page)
    return named or [found async for found in _at_usual_places(fetcher, parser, page.url)]


async def feed_title(parser: FeedParser, page: FetchedPage) -> str | None:
    """Return the title of a feed; None if the page is no feed."""
    try:
        found = await parser.parse(
            page.body, url=page.url, content_type=page.content_type, max_entries=1, now=datetime.now(UTC)
        )
    except (NotAFeed, ParsingFailed):
        return None
    return found.title


def feeds_of_page(page: FetchedPage) -> list[DiscoveredFeed]:
    """Return the feeds that a page names in its head, in its order, each once."""
    links = _FeedLinks()
    links.feed(decode(page.body[:PAGE_BYTES], declared_charset(page.content_type))[:HEAD_CHARACTERS])
    base = absolute_link(links.base, page.url) or page.url
    found: dict[str, DiscoveredFeed] = {}
    for href, title in links.found:
        link = absolute_link(href, base)
        if link is not None and len(found) < MOST_FEEDS:
            found.setdefault(link, DiscoveredFeed(link, plain_title(title)))
    return list(found.values())


async def _at_usual_places(fetcher: Fetcher, parser: FeedParser, url: str) -> AsyncIterator[DiscoveredFeed]:
    for guess in usual_places(url):
        try:
            page = await fetcher.get(guess, accept=ACCEPT)
        except FetchFailed as error:
            if error.status is None or error.status == 429:
                return  # the site does not answer: it would not at the next place either
            continue
        title = await feed_title(parser, page)
        if title is not None:
            yield DiscoveredFeed(page.permanent_url or guess, title)
            return


def usual_places(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    for path in USUAL_PATHS:
        yield f"{parts.scheme}://{parts.netloc}{path}"


class _FeedLinks(HTMLParser):
    """Collects `<link rel="alternate">` of feeds."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, str]] = []
        self.base: str | None = None

    def handle_starttag(self, tag: str, attrs: Iterable[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "base" and self.base is None:
            self.base = given.get("href")
        elif tag == "link":
            relations = given.get("rel", "").lower().split()
            kind = given.get("type", "").partition(";")[0].strip().lower()
            if "feed" in relations or ("alternate" in relations and kind in FEED_TYPES):
                self.found.append((given.get("href", ""), given.get("title", "")))

    handle_startendtag = handle_starttag
