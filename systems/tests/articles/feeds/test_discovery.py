"""The feeds of a page are found."""

from collections.abc import AsyncIterator

import pytest

from demos.articles.feed_server import FeedServer, MadeFeed, serving
from rowmill_systems.articles.feeds.discovery import feeds_of_page
from rowmill_systems.articles.feeds.fetching import FeedFetcher, user_agent
from rowmill_systems.articles.settings import ArticlesSettings
from rowmill_systems.parts.fetching import FetchedPage, FetchFailed


@pytest.fixture
async def fetcher() -> AsyncIterator[FeedFetcher]:
    async with FeedFetcher(ArticlesSettings(allow_private_addresses=True, contact="team@example.org")) as fetcher:
        yield fetcher


def page(html: str) -> FetchedPage:
    return FetchedPage(200, "http://example.org/a/b", None, {"content-type": "text/html"}, html.encode())


def test_links_of_a_page_are_read_however_they_are_written() -> None:
    found = feeds_of_page(page(
        '<html><head><base href="/base/"><LINK REL="Alternate stylesheet" TYPE="application/rss+xml; x=y" HREF="one">'
        '<link rel=alternate type=application/atom+xml href=/two title="T &amp; <b>w</b>o">'
        '<link rel="feed" href="three"/>'
        '<link rel="alternate" type="text/html" href="/de"><link rel="stylesheet" href="x.css">'
        '<link rel="alternate" type="application/rss+xml" href="javascript:x"><link rel="alternate" type="text/xml">'
        '<link rel="alternate" type="application/rss+xml" href="one">'
    ))  # fmt: skip

    assert [(feed.url, feed.title) for feed in found] == [
        ("http://example.org/base/one", ""),
        ("http://example.org/two", "T & wo"),
        ("http://example.org/base/three", ""),
    ]


def test_a_page_with_a_thousand_feeds_gives_some() -> None:
    links = "".join(f'<link rel="alternate" type="application/rss+xml" href="/{number}">' for number in range(1000))

    assert len(feeds_of_page(page(links))) == 20


async def test_a_feed_is_its_own_feed(fetcher: FeedFetcher) -> None:
    async with serving([MadeFeed("/feed.json", format="json", entries=1)]) as server:
        [found] = await fetcher.discover(server.url("/feed.json"))

        assert (found.url, found.title) == (server.url("/feed.json"), "Feed /feed.json")
        assert server.seen[-1].headers["user-agent"] == user_agent("team@example.org")


async def test_a_page_leads_to_its_feeds(fetcher: FeedFetcher) -> None:
    async with serving([MadeFeed("/page", behaviour="html"), MadeFeed("/a"), MadeFeed("/b", format="atom")]) as server:
        found = await fetcher.discover(server.url("/page"))

        assert [feed.url for feed in found] == [server.url("/a"), server.url("/b")]


async def test_the_usual_places_are_tried(fetcher: FeedFetcher) -> None:
    async with serving([MadeFeed("/page", behaviour="html")]) as server:
        assert await fetcher.discover(server.url("/page")) == []
        server.add(MadeFeed("/rss", entries=1, behaviour="entity_bomb"))
        assert [feed.url for feed in await fetcher.discover(server.url("/page"))] == [server.url("/rss")]


async def test_a_site_that_says_stop_is_not_asked_on(fetcher: FeedFetcher) -> None:
    feeds = [
        MadeFeed("/page", behaviour="html"),
        MadeFeed("/feed", behaviour="limited"),
        MadeFeed("/rss", behaviour="gone"),
    ]
    async with serving(feeds) as server:
        await fetcher.discover(server.url("/page"))

        assert (server.counts.requests["/feed"], server.counts.requests["/rss"]) == (1, 0)


async def test_an_address_that_can_not_be_fetched_raises(fetcher: FeedFetcher) -> None:
    async with serving([MadeFeed("/a", behaviour="missing")]) as server:
        with pytest.raises(FetchFailed) as failed:
            await fetcher.discover(server.url("/a"))

    assert failed.value.code == "http_404"


async def test_a_fetcher_is_used_again_after_it_was_closed(fetcher: FeedFetcher) -> None:
    async with serving([MadeFeed("/a", entries=1)]) as server:
        await fetcher.discover(server.url("/a"))
        await fetcher.close()

        assert isinstance(server, FeedServer)
        assert len(await fetcher.discover(server.url("/a"))) == 1
