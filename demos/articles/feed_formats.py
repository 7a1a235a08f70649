"""Write articles as RSS, Atom, RDF and JSON Feed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import format_datetime
from html import escape

from demos.articles.feed_texts import MadeArticle

DATES = (
    "0000-00-00T00:00:00Z",
    "Mon, 01 Jan 0000 00:00:00 GMT",
    "9999-12-31T23:59:59Z",
    "Fri, 31 Dec 9999 23:59:59 GMT",
)


@dataclass(frozen=True, slots=True)
class FeedStyle:
    """How a feed departs from what is usual."""

    guid: str = "same"
    """same, none or changing: another one at each request."""
    wild_dates: bool = False
    """Dates in the years 0 and 9999."""
    encoding: str = "utf-8"
    round: int = 0
    """How often the feed was asked for: a changing guid depends on it."""


def guid_of(base: str, one: MadeArticle, style: FeedStyle) -> str:
    return f"{base}#{one.number}" + (f"-{style.round}" if style.guid == "changing" else "")


def date_of(one: MadeArticle, style: FeedStyle, iso: bool) -> str:
    if style.wild_dates:
        return DATES[one.number % len(DATES)]
    return one.published.isoformat() if iso else format_datetime(one.published)


def html_of(one: MadeArticle) -> str:
    return (
        f'<p>{escape(one.text)}</p><script>alert("{one.number}")</script><p><a href="/more/{one.number}">More</a></p>'
    )


def rss(base: str, title: str, articles: Sequence[MadeArticle], style: FeedStyle) -> str:
    items = "".join(
        f"<item><title>{escape(one.title)}</title><link>{base}/articles/{one.number}?utm_source=rss</link>"
        + ("" if style.guid == "none" else f'<guid isPermaLink="false">{guid_of(base, one, style)}</guid>')
        + f"<pubDate>{date_of(one, style, False)}</pubDate><description>{escape(html_of(one))}</description>"
        f'<enclosure url="{base}/pictures/{one.number}.jpg" type="image/jpeg" length="1"/></item>'
        for one in articles
    )
    return (
        f'<?xml version="1.0" encoding="{style.encoding}"?>\n<rss version="2.0"><channel><title>{escape(title)}</title>'
        f"<link>{base}/</link><description>Made up</description><language>en</language><ttl>30</ttl>{items}"
        "</channel></rss>"
    )


def atom(base: str, title: str, articles: Sequence[MadeArticle], style: FeedStyle) -> str:
    entries = "".join(
        f'<entry><title type="html">{escape(escape(one.title))}</title><link href="/articles/{one.number}"/>'
        + ("" if style.guid == "none" else f"<id>{guid_of(base, one, style)}</id>")
        + f"<published>{date_of(one, style, True)}</published><updated>{date_of(one, style, True)}</updated>"
        f'<author><name>A. Writer</name></author><content type="html">{escape(html_of(one))}</content></entry>'
        for one in articles
    )
    return (
        f'<?xml version="1.0" encoding="{style.encoding}"?>\n<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en">'
        f'<title>{escape(title)}</title><id>{base}/</id><link href="{base}/"/>{entries}</feed>'
    )


def rdf(base: str, title: str, articles: Sequence[MadeArticle], style: FeedStyle) -> str:
    items = "".join(
        f'<item rdf:about="{base}/articles/{one.number}"><title>{escape(one.title)}</title>'
        f"<link>{base}/articles/{one.number}</link><dc:date>{date_of(one, style, True)}</dc:date>"
        f"<description>{escape(one.text)}</description></item>"
        for one in articles
    )
    return (
        f'<?xml version="1.0" encoding="{style.encoding}"?>\n'
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:sy="http://purl.org/rss/1.0/modules/syndication/">'
        f'<channel rdf:about="{base}/"><title>{escape(title)}</title><link>{base}/</link>'
        "<description>Made up</description><sy:updatePeriod>hourly</sy:updatePeriod>"
        f"<sy:updateFrequency>2</sy:updateFrequency></channel>{items}</rdf:RDF>"
    )


def json_feed(base: str, title: str, articles: Sequence[MadeArticle], style: FeedStyle) -> str:
    items: list[dict[str, object]] = [
        {
            "id": guid_of(base, one, style),
            "url": f"/articles/{one.number}",
            "title": one.title,
            "content_html": html_of(one),
            "date_published": date_of(one, style, True),
            "authors": [{"name": "A. Writer"}],
            "image": f"/pictures/{one.number}.jpg",
        }
        for one in articles
    ]
    if style.guid == "none":
        for item in items:
            del item["id"]
    feed = {"version": "https://jsonfeed.org/version/1.1", "title": title, "home_page_url": f"{base}/", "items": items}
    return json.dumps(feed, ensure_ascii=False)


def entity_bomb(levels: int = 9) -> str:
    """Return a feed whose title expands to ten to the power of `levels` words, for a parser that expands entities."""
    lines = ['<!ENTITY a0 "lol">'] + [
        f'<!ENTITY a{level} "{f"&a{level - 1};" * 10}">' for level in range(1, levels + 1)
    ]
    return (
        f'<?xml version="1.0"?><!DOCTYPE rss [{"".join(lines)}<!ENTITY file SYSTEM "file:///etc/passwd">]>'
        f'<rss version="2.0"><channel><title>&a{levels};</title>'
        f"<item><guid>1</guid><title>A &a{levels}; &file; Z</title>"
        "<description>still here</description></item></channel></rss>"
    )


def page(base: str, feeds: Sequence[tuple[str, str, str]]) -> str:
    """Return a page for people that names feeds: type, address and title of each."""
    links = "".join(
        f'<link rel="alternate" type="{kind}" href="{escape(url)}" title="{escape(title)}">'
        for kind, url, title in feeds
    )
    return (
        f"<!DOCTYPE html><html><head><title>A page</title>{links}</head><body><p>Hello from {base}.</p></body></html>"
    )


WRITERS = {"rss": rss, "atom": atom, "rdf": rdf, "json": json_feed}
TYPES = {
    "rss": "application/rss+xml",
    "atom": "application/atom+xml",
    "rdf": "application/rdf+xml",
    "json": "application/feed+json",
}


def newest_first(articles: Sequence[MadeArticle]) -> list[MadeArticle]:
    return sorted(articles, key=lambda one: one.published, reverse=True)
