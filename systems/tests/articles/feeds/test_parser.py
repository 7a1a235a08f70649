"""Feeds are parsed in a process that can be ended."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from demos.articles.feed_server import FeedServer, MadeFeed
from rowmill_systems.articles.feeds import parser as parser_module
from rowmill_systems.articles.feeds.entries import ParsedFeed
from rowmill_systems.articles.feeds.parser import PROCESSES, FeedParser, ParsingFailed
from rowmill_systems.articles.feeds.parsing import NotAFeed, parse_feed

NOW = datetime(2030, 5, 5, 12, tzinfo=UTC)
URL = "http://example.org/feed"
ENDLESS = b'<rss version="2.0"><channel>' + b"<a>" * 3_000_000
"""Nine megabytes of open tags take feedparser minutes: each one costs as much as all before it."""


@pytest.fixture
async def parser() -> AsyncIterator[FeedParser]:
    async with FeedParser(seconds=60) as parser:
        yield parser


def feed_body(entries: int = 5, **given: object) -> bytes:
    server = FeedServer([MadeFeed("/a", entries=entries, **given)], 1, NOW)  # type: ignore[arg-type]
    server.ports = [80]
    return server.body(server.feeds["/a"])


async def parse(parser: FeedParser, body: bytes, most: int = 1000) -> ParsedFeed:
    return await parser.parse(body, url=URL, content_type=None, max_entries=most, now=NOW)


async def test_a_process_gives_what_a_call_gives(parser: FeedParser) -> None:
    for body in (feed_body(), feed_body(format="json"), feed_body(format="rdf"), feed_body(behaviour="wild_dates")):
        expected = parse_feed(body, url=URL, content_type=None, max_entries=1000, now=NOW)

        assert await parse(parser, body) == expected


async def test_a_page_is_refused_with_its_hint(parser: FeedParser) -> None:
    with pytest.raises(NotAFeed, match="feeds that it names") as refused:
        await parse(parser, b"<html><body></body></html>")

    assert refused.value.is_page


async def test_ten_thousand_entries_are_cut_to_the_newest(parser: FeedParser) -> None:
    found = await parse(parser, feed_body(behaviour="many"), most=50)

    assert (len(found.entries), found.dropped) == (50, 9950)
    assert found.entries[0].published_at == NOW


async def test_a_feed_that_takes_too_long_is_ended_and_the_next_one_is_parsed() -> None:
    async with FeedParser(seconds=1.0) as parser:
        with pytest.raises(ParsingFailed) as failed:
            await parse(parser, ENDLESS)
        assert failed.value.code == "parsing_timed_out"
    async with FeedParser(seconds=60.0) as parser:
        assert len((await parse(parser, feed_body())).entries) == 5


async def test_the_loop_goes_on_while_a_feed_is_parsed(parser: FeedParser) -> None:
    """Turns of the loop are counted, not its time."""
    task = asyncio.create_task(parse(parser, feed_body(behaviour="many"), most=1))
    turns = 0
    while not task.done():
        turns += 1
        await asyncio.sleep(0.001)

    assert (await task).dropped == 9999
    assert turns > 50


async def test_a_process_that_dies_is_replaced(parser: FeedParser) -> None:
    await parse(parser, feed_body())
    [process] = parser._idle
    os.kill(process._process.pid, 9)
    await process._process.wait()
    with pytest.raises(ParsingFailed) as failed:
        await parse(parser, feed_body())

    assert failed.value.retryable
    assert len((await parse(parser, feed_body())).entries) == 5


async def test_a_cancelled_call_leaves_no_half_answer_behind(parser: FeedParser) -> None:
    task = asyncio.create_task(parse(parser, feed_body(behaviour="many")))
    while parser._turns._value == PROCESSES:  # until it has its turn
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert len((await parse(parser, feed_body())).entries) == 5


async def test_a_feed_may_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser_module, "MEMORY", 55 * 1024 * 1024)
    async with FeedParser(seconds=60) as parser:
        assert len((await parse(parser, feed_body())).entries) == 5
        with pytest.raises(ParsingFailed):
            await parse(parser, feed_body(behaviour="many"))


async def test_a_process_is_replaced_after_some_feeds(parser: FeedParser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser_module, "FEEDS_EACH", 1)
    await parse(parser, feed_body())

    assert parser._idle == []


@pytest.mark.parametrize(
    "said", [b"{}", b"[]", b"nonsense", b'{"feed": {}}', b'{"feed": 5, "entries": 0}', b'{"feed": {}, "entries": "x"}']
)
async def test_strange_answers_are_refused(parser: FeedParser, said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has read what a stranger wrote may be taken over."""
    await parse(parser, feed_body())
    [process] = parser._idle

    async def receive(self: object) -> object:
        found = json.loads(said)
        if not isinstance(found, dict):
            raise ValueError
        return found

    monkeypatch.setattr(type(process), "_receive", receive)
    with pytest.raises(ParsingFailed):
        await parse(parser, feed_body())
