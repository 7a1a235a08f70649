"""Feeds are added by address, page and list."""

import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from demos.articles.feed_server import MadeFeed, serving
from rowmill_systems.articles import adding
from rowmill_systems.articles.adding import add_address, add_opml, add_source, export_opml, feed_url
from rowmill_systems.articles.feeds.opml import ListedFeed, read_opml, write_opml
from rowmill_systems.articles.feeds.parsing import NotAFeed
from rowmill_systems.parts.fetching import FetchFailed
from systems.tests.articles.feeds.test_opml import NOW
from systems.tests.articles.syncing import FeedSystem, feed_system


@pytest.fixture
async def system(database_url: str) -> AsyncIterator[FeedSystem]:
    async with feed_system(database_url) as system:
        yield system


async def test_a_feed_is_added_once_and_is_due(system: FeedSystem) -> None:
    first = await system.mill.run(
        lambda connection: add_source(connection, "HTTP://Example.org/feed#x", title="<b>A</b>", topics=["space"])
    )
    again = await system.mill.run(lambda connection: add_source(connection, "http://example.org/feed", title="B"))

    assert (first.created, again.created, first.id) == (True, False, again.id)
    assert (again.title, again.host) == ("A", "example.org")
    [row] = await system.rows()
    assert (row.url, row.status, row.granular_topics) == ("http://example.org/feed", "due", ["space"])


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("example.org/feed", "https://example.org/feed"),
        ("feed://example.org/x", "https://example.org/x"),
        ("feed:https://example.org/x", "https://example.org/x"),
        (" http://b\u00fccher.example/\u00e4 ", "http://xn--bcher-kva.example/%C3%A4"),
    ],
)
def test_addresses_are_stored_in_one_form(given: str, stored: str) -> None:
    assert feed_url(given) == stored


@pytest.mark.parametrize("given", ["", "words", "ftp://example.org/", "file:///etc/passwd", "http://", "javascript:x"])
def test_an_address_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(FetchFailed) as failed:
        feed_url(given)

    assert failed.value.code == "bad_address"


@pytest.mark.parametrize("path", ["a" * 1990, "\u00e4" * 400])
def test_an_address_that_no_index_takes_is_refused(path: str) -> None:
    with pytest.raises(FetchFailed) as failed:
        feed_url(f"http://example.org/{path}")

    assert failed.value.code == "address_too_long"
    assert "shorter" in str(failed.value)


async def test_a_list_comes_in_and_goes_out(system: FeedSystem) -> None:
    feeds = [ListedFeed(f"http://host{number % 7}.example/{number}", f"Feed {number}") for number in range(1200)]
    content = write_opml(feeds, title="Mine", now=NOW)
    added = await add_opml(system, content)
    again = await add_opml(system, content)

    assert (added.created, again.created, len(again.added)) == (1200, 0, 1200)
    await system.change(site_url="http://site.example/")
    out = read_opml(await system.mill.run(lambda connection: export_opml(connection, NOW)))
    assert {feed.url for feed in out} == {feed.url for feed in feeds}
    assert {feed.site_url for feed in out} == {"http://site.example/"}


async def test_a_long_list_is_read_in_a_thread_and_written_by_short_transactions(
    system: FeedSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, sizes = list[int](), list[int]()
    write = adding.write_sources

    def reading(content: bytes) -> list[ListedFeed]:
        threads.append(threading.get_ident())
        return read_opml(content)

    def writing(connection: Any, rows: Any) -> Any:
        sizes.append(len(rows))
        return write(connection, rows)

    monkeypatch.setattr(adding, "read_opml", reading)
    monkeypatch.setattr(adding, "write_sources", writing)
    feeds = [ListedFeed(f"http://host.example/{number}") for number in range(450)]
    added = await add_opml(system, write_opml([*feeds, ListedFeed("http://[x/")], title="Mine", now=NOW))

    assert [source.url for source in added.added] == [feed.url for feed in feeds]
    assert sizes == [200, 200, 50]
    assert threading.get_ident() not in threads


async def test_the_address_of_a_page_adds_its_first_feed(system: FeedSystem) -> None:
    async with serving([MadeFeed("/page", behaviour="html"), MadeFeed("/a"), MadeFeed("/b")]) as server:
        [added] = await add_address(system, server.url("/page"))

        assert (added.url, added.created, added.title) == (server.url("/a"), True, "/a")


async def test_a_page_without_feeds_adds_nothing(system: FeedSystem) -> None:
    async with serving([MadeFeed("/page", behaviour="html")]) as server:
        with pytest.raises(NotAFeed):
            await add_address(system, server.url("/page"))

    assert await system.rows() == []
