"""Lists of feeds come in and go out."""

from datetime import UTC, datetime

import pytest

from rowmill_systems.articles.feeds.opml import ListedFeed, OpmlUnreadable, read_opml, write_opml

NOW = datetime(2030, 5, 5, tzinfo=UTC)
NESTED = b"""<?xml version="1.0"?><opml version="1.0"><head><title>x</title></head><body>
<outline text="News"><outline text="World"><outline type="rss" text="A &amp; B" xmlUrl="http://a.example/feed"
 htmlUrl="http://a.example/"/></outline><outline title="&lt;b&gt;C&lt;/b&gt;" xmlurl="https://c.example/rss"/></outline>
<outline text="D" XMLURL="http://d.example/"/><outline text="twice" xmlUrl="http://a.example/feed"/>
<outline text="bad" xmlUrl="javascript:alert(1)"/><outline text="file" xmlUrl="file:///etc/passwd"/></body></opml>"""


def test_nested_outlines_are_read() -> None:
    assert read_opml(NESTED) == [
        ListedFeed("http://a.example/feed", "A & B", ("News", "World"), "http://a.example/"),
        ListedFeed("https://c.example/rss", "C", ("News",)),
        ListedFeed("http://d.example/", "D"),
    ]


def test_what_was_written_is_read_again() -> None:
    feeds = [
        ListedFeed("http://a.example/?a=1&b=<2>", 'Qu"otes & <tags>', ("One", "Two"), "http://a.example/"),
        ListedFeed("http://b.example/", "B", ("One",)),
        ListedFeed("http://c.example/", "\u4f60\u597d\x07"),
    ]
    found = read_opml(write_opml(feeds, title="Mine\0", now=NOW))

    assert sorted(feed.url for feed in found) == sorted(feed.url.replace("<2>", "<2>") for feed in feeds)
    assert {feed.url: feed.folders for feed in found}["http://b.example/"] == ("One",)
    assert {feed.title for feed in found} == {'Qu"otes &', "B", "\u4f60\u597d"}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"words", b"<html></html>", b"<opml", b"\xff\xfe\0",
        b'<!DOCTYPE opml [<!ENTITY a "b">]><opml><body><outline text="&a;" xmlUrl="http://a.example/"/></body></opml>',
        b'<!DOCTYPE opml SYSTEM "file:///etc/passwd"><opml/>',
        b"<opml><body>" + b"<outline>" * 100_000,
        b'<?xml version="1.0" encoding="klingon"?><opml/>',
    ],
    ids=range(9),
)  # fmt: skip
def test_hostile_lists_are_refused(content: bytes) -> None:
    with pytest.raises(OpmlUnreadable) as refused:
        read_opml(content)

    assert (refused.value.code, refused.value.retryable) == ("bad_opml", False)


def test_too_many_feeds_are_refused() -> None:
    lines = b"".join(b'<outline xmlUrl="http://a.example/%d"/>' % number for number in range(20_002))
    with pytest.raises(OpmlUnreadable, match="20000 feeds"):
        read_opml(b"<opml><body>" + lines + b"</body></opml>")


def test_a_list_that_is_cut_gives_what_it_has() -> None:
    assert [feed.title for feed in read_opml(NESTED[: NESTED.index(b'<outline text="bad"')] + b"&")] == [
        "A & B",
        "C",
        "D",
    ]


def test_a_list_without_feeds_is_one() -> None:
    assert read_opml(b"<opml><body/></opml>") == []
