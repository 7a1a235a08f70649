"""Feeds of all kinds become one form; hostile ones do no harm."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from demos.articles.feed_formats import FeedStyle, entity_bomb
from demos.articles.feed_server import FeedServer, MadeFeed, many_feeds
from rowmill_systems.articles.feeds.entries import ParsedFeed
from rowmill_systems.articles.feeds.links import absolute_link, canonical_link
from rowmill_systems.articles.feeds.parsing import NotAFeed, parse_feed
from rowmill_systems.articles.feeds.texts import plain_text, plain_title, sanitised

NOW = datetime(2030, 5, 5, 12, tzinfo=UTC)
URL = "http://example.org/blog/feed.xml"


def parsed(body: bytes | str, most: int = 100, content_type: str | None = None, url: str = URL) -> ParsedFeed:
    content = body.encode() if isinstance(body, str) else body
    return parse_feed(content, url=url, content_type=content_type, max_entries=most, now=NOW)


def rss(items: str, channel: str = "") -> str:
    return (
        '<?xml version="1.0"?><rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/" '
        'xmlns:content="http://purl.org/rss/1.0/modules/content/" '
        'xmlns:sy="http://purl.org/rss/1.0/modules/syndication/">'
        f"<channel><title>News</title>{channel}{items}</channel></rss>"
    )


@pytest.fixture
def server() -> FeedServer:
    """A server that was not started: its feeds are taken without HTTP."""
    made = FeedServer(many_feeds(80, 1, entries=3), 1, NOW)
    made.ports = [80]
    return made


def test_every_format_encoding_and_style_gives_the_same_articles(server: FeedServer) -> None:
    for path, feed in server.feeds.items():
        found = parsed(server.body(feed), content_type=f"application/xml; charset={feed.style.encoding}")

        assert found.title == f"Feed {path}"
        assert [entry.title.rpartition(" ")[2] for entry in found.entries] == ["(3)", "(2)", "(1)"]
        assert found.entries[0].published_at == NOW
        assert found.entries[0].text.startswith(found.entries[0].title.partition(" (")[0])
        assert "script" not in found.entries[0].description
        assert found.warning is None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-5", "windows-1251", "koi8-r", "utf-32"])
def test_encodings_are_read_as_they_are_declared(encoding: str) -> None:
    text = rss("<item><title>Привет, мир</title></item>").replace(
        'version="1.0"', f'version="1.0" encoding="{encoding}"', 1
    )

    assert parsed(text.encode(encoding)).entries[0].title == "Привет, мир"


def test_japanese_in_the_header_alone_is_read() -> None:
    text = rss("<item><title>こんにちは</title></item>").encode("shift_jis")

    assert parsed(text, content_type="application/rss+xml; charset=shift_jis").entries[0].title == "こんにちは"


def test_broken_xml_is_read_as_far_as_it_goes_and_said() -> None:
    found = parsed(
        rss("<item><title>One & two</title><guid>1</guid></item><item><title>Three</title>")[: -len("</channel></rss>")]
    )

    assert [entry.title for entry in found.entries] == ["One & two", "Three"]
    assert found.warning == "broken_xml"


@pytest.mark.parametrize(
    "body", ["<!DOCTYPE html><html><body>Hi</body></html>", "\n<!-- x -->\n<HTML lang=en><head>", "<html/>"]
)
def test_a_page_is_no_feed_and_says_where_to_look(body: str) -> None:
    with pytest.raises(NotAFeed, match="feeds that it names") as refused:
        parsed(body)

    assert (refused.value.code, refused.value.is_page, refused.value.retryable) == ("not_a_feed", True, False)


@pytest.mark.parametrize(
    "body",
    ["", "   ", "plain words", "\0\1\2", "{", '{"a": 1}', "[1]",
     '{"version": "https://jsonfeed.org/version/1", "items": 7}',
     "{" * 100_000, '{"version":' + "[" * 100_000, "<svg xmlns='http://www.w3.org/2000/svg'/>"],
    ids=range(11),
)  # fmt: skip
def test_anything_else_is_no_feed(body: str) -> None:
    with pytest.raises(NotAFeed):
        parsed(body)


def test_a_feed_without_entries_is_one() -> None:
    assert parsed(rss("")).entries == ()


def test_bytes_that_look_like_a_path_or_an_address_are_not_opened(tmp_path: Path) -> None:
    file = tmp_path / "secret.xml"
    file.write_text(rss("<item><title>secret</title></item>"))
    for body in (str(file), f"file://{file}", "http://127.0.0.1:9/"):
        with pytest.raises(NotAFeed):
            parsed(body)


def test_entities_are_not_expanded() -> None:
    found = parsed(entity_bomb())

    assert len(found.title) < 1000
    assert len(found.entries[0].title) < 1000
    assert "root:" not in found.entries[0].title
    assert found.entries[0].text == "still here"


def test_markup_of_strangers_is_cleaned_in_every_field() -> None:
    hostile = (
        '&lt;p onclick="x()"&gt;Hello &lt;b&gt;you&lt;/b&gt;&lt;/p&gt;&lt;script&gt;steal()&lt;/script&gt;'
        '&lt;img src="x" onerror="y()"&gt;&lt;a href="javascript:z()"&gt;a&lt;/a&gt;'
        '&lt;iframe src="//evil"&gt;&lt;/iframe&gt;'
    )
    found = parsed(rss(
        f"<item><title>A &lt;script&gt;t()&lt;/script&gt;&lt;b&gt;bold&lt;/b&gt; title &amp;amp; more</title>"
        f"<guid>1</guid>"
        f"<author>Ann &lt;img src=x onerror=y()&gt;</author><link>javascript:alert(1)</link>"
        f"<description>{hostile}</description></item>"
    ))  # fmt: skip
    entry = found.entries[0]

    assert entry.title == "A bold title & more"
    assert entry.url is None
    assert entry.author == "Ann"
    assert entry.text == "Hello you a"
    for bad in ("script", "onclick", "onerror", "javascript", "iframe", "steal"):
        assert bad not in entry.description
    assert 'src="http://example.org/blog/x"' in entry.description


def test_a_title_with_less_than_is_kept() -> None:
    assert plain_title("if a < b && c > d") == "if a < b && c > d"
    assert plain_title("  two\n lines\u202e \x07") == "two lines"
    assert plain_title("a&nbsp;b") == "a b"


def test_text_has_no_markup_and_words_stay_apart() -> None:
    assert plain_text("<p>One</p><p>two<br>three</p><ul><li>four</li></ul><style>p{}</style>fi<b>ve</b>") == (
        "One two three four five"
    )


def test_text_and_html_are_bounded() -> None:
    entry = parsed(rss(f"<item><guid>1</guid><description>{'word ' * 200_000}</description></item>")).entries[0]

    assert len(entry.text) <= 20_000
    assert len(entry.description) <= 200_000


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("Sun, 05 May 2030 10:00:00 +0200", datetime(2030, 5, 5, 8, tzinfo=UTC)),
        ("2030-05-05T10:00:00Z", datetime(2030, 5, 5, 10, tzinfo=UTC)),
        ("Mon, 06 May 2030 11:00:00 GMT", datetime(2030, 5, 6, 11, tzinfo=UTC)),  # less than a day ahead
        ("Mon, 06 May 2030 13:00:00 GMT", None),
        ("Mon, 01 Jan 0000 00:00:00 GMT", None),
        ("0000-00-00T00:00:00Z", None),
        ("0001-01-01T00:00:00Z", None),
        ("Thu, 01 Jan 1970 00:00:00 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", None),
        ("9999-12-31T23:59:59-12:00", None),
        ("yesterday", None),
        ("9" * 5000, None),
    ],
)
def test_dates_that_can_not_be_count_as_none(date: str, expected: datetime | None) -> None:
    item = f"<item><guid>1</guid><title>t</title><pubDate>{date}</pubDate></item>"

    assert parsed(rss(item)).entries[0].published_at == expected


@pytest.mark.parametrize("date", ["0000-00-00T00:00:00Z", "9999-12-31T23:59:59Z", "nonsense", None, 17, "9" * 5000])
def test_dates_of_json_feeds_too(date: object) -> None:
    feed = {"version": "https://jsonfeed.org/version/1.1", "items": [{"id": 1, "title": "t", "date_published": date}]}

    assert parsed(json.dumps(feed)).entries[0].published_at is None


def test_json_feed_of_both_versions() -> None:
    item = {
        "id": 7, "url": "../a?utm_source=x&id=7", "title": "A <b>title</b>",
        "content_html": "<p>Hi<script>x</script></p>",
        "date_published": "2030-05-05T10:00:00+02:00", "author": {"name": "Old"}, "authors": [{"name": "New"}],
        "image": "/i.png", "language": "de",
    }  # fmt: skip
    odd = [None, 5, {}, {"id": "b", "content_text": "plain <b>\n\nsecond", "title": None, "attachments": [
        {"url": "/p.jpg", "mime_type": "image/jpeg"}]}]  # fmt: skip
    for version in ("1", "1.1"):
        feed = {
            "version": f"https://jsonfeed.org/version/{version}",
            "title": "J",
            "items": [item, *odd],
            "language": "en",
        }
        found = parsed(b"\xef\xbb\xbf" + json.dumps(feed).encode())
        first, second = found.entries

        assert (found.title, found.language) == ("J", "en")
        assert (first.identity, first.url, first.title) == ("7", "http://example.org/a?id=7", "A title")
        assert (first.description, first.author, first.language) == ("<p>Hi</p>", "New, Old", "de")
        assert first.image_url == "http://example.org/i.png"
        assert first.published_at == datetime(2030, 5, 5, 8, tzinfo=UTC)
        assert (second.text, second.language) == ("plain <b> second", "en")
        assert second.image_url == "http://example.org/p.jpg"


def test_identity_is_guid_then_link_then_a_hash() -> None:
    items = (
        "<item><guid isPermaLink='false'>tag:1</guid><link>http://example.org/1</link><title>t</title></item>"
        "<item><link>HTTP://Example.org:80/2?utm_medium=rss&amp;id=2&amp;fbclid=9#frag</link><title>t</title></item>"
        "<item><title>only a title</title></item><item><title>only a title</title></item>"
        f"<item><guid>{'long' * 1000}</guid><title>t</title></item><item></item>"
    )
    identities = [entry.identity for entry in parsed(rss(items)).entries]

    assert identities[:2] == ["tag:1", "http://example.org/2?id=2#frag"]
    assert len(identities) == 4  # the same title twice is one, and an empty entry is none
    assert all(each.startswith("sha256:") for each in identities[2:])
    assert identities == [entry.identity for entry in parsed(rss(items)).entries]


def test_a_guid_that_all_entries_share_tells_nothing_apart() -> None:
    items = "".join(
        f"<item><guid>http://example.org/</guid><link>http://example.org/{n}</link><title>{n}</title></item>"
        for n in range(3)
    )

    assert [entry.identity for entry in parsed(rss(items)).entries] == [f"http://example.org/{n}" for n in range(3)]


@pytest.mark.parametrize(
    "same",
    [
        "<link>http://example.org/</link>",
        "<guid>http://example.org/</guid><link>http://example.org/</link>",
        "<guid isPermaLink='false'>x</guid>",
        "<guid isPermaLink='false'>x</guid><link>http://example.org/</link>",
        "<guid>http://example.org/</guid>",
    ],
)
def test_entries_that_differ_in_their_text_alone_are_all_kept(same: str) -> None:
    items = [f"<item>{same}<title>Update</title><description>{n}</description></item>" for n in range(4)]
    found = parsed(rss("".join([*items, items[0]]))).entries

    assert [entry.text for entry in found] == ["0", "1", "2", "3"]  # the last one is the first once more
    assert len({entry.identity for entry in found}) == 4
    assert all(entry.identity.startswith("sha256:") for entry in found)


def test_a_link_that_is_the_guid_of_another_entry_identifies_neither_of_them_wrongly() -> None:
    items = (
        "<item><guid>http://example.org/</guid><title>first</title></item>"
        "<item><link>http://example.org/</link><title>second</title></item>"
    )
    first, second = parsed(rss(items)).entries

    assert (first.identity, first.title) == ("http://example.org/", "first")
    assert second.identity.startswith("sha256:")


def test_guids_that_are_no_addresses_stay_as_they_are_whatever_host_answers() -> None:
    body = rss(
        "<item><guid>4711</guid><link>/a</link><title>a</title></item>"
        "<item><guid isPermaLink='true'>post 2</guid><title>b</title></item>"
        "<item><link>http://example.org/c</link><guid>x/3</guid><title>c</title></item>"
        "<item><guid>https://example.org/d</guid><title>d</title></item>"
    )
    found = [
        [(entry.identity, entry.url) for entry in parsed(body, url=url).entries]
        for url in ("http://example.org/feed", "https://mirror.example.net/feeds/1")
    ]

    assert found[0] == [
        ("4711", "http://example.org/a"), ("post 2", None), ("x/3", "http://example.org/c"),
        ("https://example.org/d", "https://example.org/d"),
    ]  # fmt: skip
    assert [identity for identity, _ in found[1]] == [identity for identity, _ in found[0]]
    assert found[1][0][1] == "https://mirror.example.net/a"


def test_many_comments_before_the_feed_cost_no_more_than_their_length() -> None:
    """An expression that tries each end of each comment would not come back."""
    comments = "<!-- a -->" * 500
    assert parsed(comments + rss("<item><title>t</title></item>")).entries[0].title == "t"
    with pytest.raises(NotAFeed) as raised:
        parsed(f" {comments} <html><body></body></html>")
    assert raised.value.is_page


def test_relative_links_are_resolved_also_with_an_xml_base() -> None:
    feed = (
        '<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://other.example/base/">'
        '<title>t</title><link href="home"/>'
        '<entry><id>1</id><title>t</title><link href="posts/1"/>'
        '<content type="html">&lt;a href="more"&gt;x&lt;/a&gt;&lt;img src="/i.png"&gt;</content></entry></feed>'
    )
    found = parsed(feed)

    assert found.site_url == "http://other.example/base/home"
    assert found.entries[0].url == "http://other.example/base/posts/1"
    assert 'href="http://other.example/base/more"' in found.entries[0].description
    assert found.entries[0].image_url == "http://other.example/i.png"


@pytest.mark.parametrize(
    ("item", "image"),
    [
        ('<media:thumbnail url="/t.jpg"/>', "http://example.org/t.jpg"),
        ('<media:content url="/c.jpg" medium="image"/>', "http://example.org/c.jpg"),
        ('<media:content url="/c.mp4" type="video/mp4"/>', None),
        ('<enclosure url="http://cdn.example/e.png" type="image/png" length="1"/>', "http://cdn.example/e.png"),
        ('<enclosure url="/e.mp3" type="audio/mpeg" length="1"/>', None),
        ('<description>&lt;img src="d.gif?a=1&amp;amp;b=2"&gt;</description>', "http://example.org/blog/d.gif?a=1&b=2"),
        ('<media:thumbnail url="javascript:x"/>', None),
    ],
)
def test_the_image_of_an_article(item: str, image: str | None) -> None:
    assert parsed(rss(f"<item><title>t</title>{item}</item>")).entries[0].image_url == image


def test_the_longer_of_content_and_description_is_taken() -> None:
    content = "<content:encoded>&lt;p&gt;the whole text&lt;/p&gt;</content:encoded>"
    item = f"<item><title>t</title><description>short</description>{content}</item>"

    assert parsed(rss(item)).entries[0].text == "the whole text"


def test_what_a_feed_asks_for_is_read() -> None:
    hours = "".join(f"<hour>{hour}</hour>" for hour in (0, 3, 24, 99, "x"))
    found = parsed(
        rss("", f"<ttl>45</ttl><skipHours>{hours}</skipHours><skipDays><day>Sunday</day><day>Noday</day></skipDays>")
    )

    assert (found.ttl_seconds, found.skip_hours, found.skip_days) == (2700, frozenset({0, 3}), frozenset({6}))
    period = "<sy:updatePeriod> daily </sy:updatePeriod><sy:updateFrequency>4</sy:updateFrequency>"
    assert parsed(rss("", period)).ttl_seconds == 21_600
    everything = "<skipHours>" + "".join(f"<hour>{hour}</hour>" for hour in range(24)) + "</skipHours><ttl>soon</ttl>"
    assert (parsed(rss("", everything)).skip_hours, parsed(rss("", everything)).ttl_seconds) == (frozenset(), None)


def test_of_many_entries_the_newest_are_kept() -> None:
    server = FeedServer([MadeFeed("/a", entries=60)], 1, NOW)
    server.ports = [80]
    body = server.body(server.feeds["/a"])
    # The oldest first, as some feeds have it.
    head, *items = body.decode().split("<item>")
    items[-1] = items[-1].replace("</channel></rss>", "")
    turned = "<item>".join([head, *reversed(items)]) + "</channel></rss>"
    found = parsed(turned, most=10)

    assert (len(found.entries), found.dropped) == (10, 50)
    assert [entry.title.rpartition(" ")[2] for entry in found.entries] == [f"({60 - place})" for place in range(10)]


def test_wild_dates_do_not_lose_entries() -> None:
    server = FeedServer([MadeFeed("/a", entries=8, style=FeedStyle(wild_dates=True))], 1, NOW)
    server.ports = [80]
    found = parsed(server.body(server.feeds["/a"]))

    assert len(found.entries) == 8
    assert {entry.published_at for entry in found.entries} == {None}


def test_links() -> None:
    assert canonical_link("http://EXAMPLE.org?utm_source=a&b=1&UTM_Medium=c&b=2") == "http://example.org/?b=1&b=2"
    assert canonical_link("https://example.org:443/a b#utm_source=x") == "https://example.org/a%20b"
    assert canonical_link("/a", "http://example.org/b/") == "http://example.org/a"
    for odd in ("javascript:x", "data:text/html,x", "mailto:a@b", "http://", "http://[::1", "http://a:b/", "", None, 5,
                "http://a/" + "x" * 3000):  # fmt: skip
        assert absolute_link(odd, None) is None


def test_html_is_safe_to_show() -> None:
    dirty = '<svg><script>x</script></svg><math><mi></mi></math><p style="x">a</p><form><input></form><base href="//e">'

    assert sanitised(dirty, URL) == "<p>a</p>"


def test_html_of_nothing_but_links_does_not_grow_without_bound() -> None:
    assert len(sanitised("<a>" * 60_000, URL)) < 400_000


def test_a_stream_is_what_feedparser_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would open bytes that look like a path."""
    given: list[object] = []
    import feedparser

    real = feedparser.parse

    def parse(source: object, **options: object) -> object:
        given.append(source)
        return real(source, **options)

    monkeypatch.setattr(feedparser, "parse", parse)
    parsed(rss(""))

    assert [type(source) for source in given] == [io.BytesIO]
