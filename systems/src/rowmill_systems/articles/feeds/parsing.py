"""Parse RSS, Atom, RDF and JSON Feed into one form."""

import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import itemgetter
from typing import Any

import feedparser

import rowmill as rm
from rowmill_systems.articles.feeds import dates
from rowmill_systems.articles.feeds.entries import FeedEntry, ParsedFeed
from rowmill_systems.articles.feeds.links import absolute_link, canonical_link
from rowmill_systems.articles.feeds.texts import (
    first_image,
    paragraphs,
    plain_text,
    plain_title,
    sanitised,
)

LONGEST_IDENTITY = 500
"""An index entry of PostgreSQL holds 2,700 bytes. A longer identity is replaced by its hash."""
LONGEST_AUTHOR = 200
HEAD = 200_000
"""Bytes in which skipHours and skipDays are looked for."""
LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
LONGEST_LANGUAGE = 20
MARKUP = re.compile(rb"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
SKIPPED = re.compile(r"<skip(hours|days)>(.{0,2000}?)</skip\1>", re.IGNORECASE | re.DOTALL)
VALUES = re.compile(r"<(?:hour|day)>\s*(\w+)\s*</", re.IGNORECASE)
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
PERIODS = {"hourly": 3600, "daily": 86_400, "weekly": 7 * 86_400, "monthly": 30 * 86_400, "yearly": 365 * 86_400}
BROKEN = "broken_xml"
NOT_A_FEED = "not_a_feed"


class NotAFeed(rm.PermanentError):
    """What came is no feed. If it is a page, `rowmill systems articles add` finds the feeds that it names."""

    code = NOT_A_FEED

    def __init__(self, message: str = "", *, is_page: bool = False) -> None:
        super().__init__(message or "the response is neither RSS, Atom, RDF nor JSON Feed")
        self.is_page = is_page
        """Whether it is HTML, which may name feeds."""


@dataclass(frozen=True, slots=True)
class RawEntry:
    """An entry before its texts are cleaned: of ten thousand, most are dropped first."""

    guid: str
    link: object
    title: str
    markup: str
    """HTML."""
    base: str | None
    author: str
    images: Sequence[object]
    language: object
    published_at: datetime | None


def parse_feed(body: bytes, *, url: str, content_type: str | None, max_entries: int, now: datetime) -> ParsedFeed:
    """Return what a feed says. Raises NotAFeed.

    `url` is where it came from, for relative links. Blocks for as long as the feed is large: see FeedParser.
    """
    if body.lstrip()[:1] == b"{" or body.startswith(b"\xef\xbb\xbf{"):
        return _parse_json(body, url, max_entries, now)
    return _parse_xml(body, url, content_type, max_entries, now)


def _parse_xml(body: bytes, url: str, content_type: str | None, max_entries: int, now: datetime) -> ParsedFeed:
    if MARKUP.match(_without_comments(body[:10_000])):
        raise NotAFeed("the response is a page, not a feed. Look for the feeds that it names", is_page=True)
    # Without content-location: feedparser would make an address of every guid, another one on each mirror.
    headers = {"content-type": content_type} if content_type else {}
    # As a stream: feedparser takes bytes that look like a path or an address for one, and opens it.
    found = feedparser.parse(
        io.BytesIO(body), sanitize_html=False, resolve_relative_uris=False, response_headers=headers
    )
    feed, entries = found.get("feed", {}), found.get("entries", [])
    if not found.get("version") and not entries:
        raise NotAFeed
    broken = found.get("bozo") and not isinstance(
        found.get("bozo_exception"), (feedparser.CharacterEncodingOverride, feedparser.NonXMLContentType)
    )
    site = absolute_link(feed.get("link"), url)
    language = _language(feed.get("language"))
    hours, days = _skipped(body, found.get("encoding"))
    kept, dropped = _kept((_raw_xml(entry, url, now) for entry in entries), max_entries)
    return ParsedFeed(
        title=plain_title(_text(feed.get("title"))),
        site_url=site,
        language=language,
        entries=tuple(_entries(kept, url, language)),
        ttl_seconds=_ttl(feed),
        skip_hours=hours,
        skip_days=days,
        dropped=dropped,
        warning=BROKEN if broken else None,
    )


def _without_comments(head: bytes) -> bytes:
    """Return a document without the blanks and comments before its first tag."""
    at = 0
    while True:  # not by one expression: it would try each end of each comment, together with those of all others
        at += len(head) - at - len(head[at:].lstrip())
        end = head.find(b"-->", at + 4) if head.startswith(b"<!--", at) else -1
        if end < 0:
            return head[at:]
        at = end + 3


def _raw_xml(entry: Mapping[str, Any], url: str, now: datetime) -> RawEntry:
    detail = _best_content(entry)
    markup = _text(detail.get("value"))
    if detail.get("type") == "text/plain":
        markup = paragraphs(markup)
    published = next(
        (moment for name in ("published_parsed", "updated_parsed", "created_parsed")
         if (moment := dates.from_parts(_own(entry, name), now))),
        None,
    )  # fmt: skip
    guid, link = _text(entry.get("id")).strip(), _text(entry.get("link")).strip()
    # feedparser takes the guid for the link of an entry that has none. Not every one is an address.
    link = guid if link in ("", guid) and guid.startswith(("http://", "https://")) else "" if link == guid else link
    return RawEntry(
        guid=guid,
        link=link or None,
        title=_text(entry.get("title")),
        markup=markup,
        base=absolute_link(detail.get("base"), url) or url,
        author=_text(entry.get("author")),
        images=list(_images(entry)),
        language=entry.get("language") or detail.get("language"),
        published_at=published,
    )


def _own(entry: Mapping[str, Any], name: str) -> Any:
    """Return a value that the entry has under this name. feedparser would answer `published` for `updated`."""
    return dict.get(entry, name) if isinstance(entry, dict) else None


def _best_content(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the longest of an entry's contents and summary."""
    details = [each for each in entry.get("content", []) if isinstance(each, Mapping)]
    if isinstance(entry.get("summary_detail"), Mapping):
        details.append(entry["summary_detail"])
    elif entry.get("summary"):
        details.append({"value": entry["summary"], "type": "text/html"})
    readable = [
        each for each in details if str(each.get("type", "text/html")).startswith(("text/", "application/xhtml"))
    ]
    return max(readable, key=lambda each: len(_text(each.get("value"))), default={})


def _images(entry: Mapping[str, Any]) -> Iterator[object]:
    """Yield the addresses of an entry's images, the likeliest first."""
    for each in _mappings(entry.get("media_thumbnail")):
        yield each.get("url")
    for each in _mappings(entry.get("media_content")):
        if each.get("medium") == "image" or _text(each.get("type")).startswith("image/"):
            yield each.get("url")
    for each in _mappings(entry.get("enclosures")):
        if _text(each.get("type")).startswith("image/"):
            yield each.get("href") or each.get("url")
    image = entry.get("image")
    if isinstance(image, Mapping):
        yield image.get("href") or image.get("url")


def _parse_json(body: bytes, url: str, max_entries: int, now: datetime) -> ParsedFeed:
    try:
        feed = json.loads(body.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        raise NotAFeed("the response begins like JSON, and is none") from None
    version = _text(feed.get("version")) if isinstance(feed, dict) else ""
    items = feed.get("items") if isinstance(feed, dict) else None
    if "jsonfeed.org/version/" not in version or not isinstance(items, list):
        raise NotAFeed("the response is JSON, and not JSON Feed")
    language = _language(feed.get("language"))
    kept, dropped = _kept((_raw_json(item, url, now) for item in _mappings(items)), max_entries)
    return ParsedFeed(
        title=plain_title(_text(feed.get("title"))),
        site_url=absolute_link(feed.get("home_page_url"), url),
        language=language,
        entries=tuple(_entries(kept, url, language)),
        dropped=dropped,
    )


def _raw_json(item: Mapping[str, Any], url: str, now: datetime) -> RawEntry:
    markup = _text(item.get("content_html")) or paragraphs(_text(item.get("content_text")))
    guid = item.get("id")
    authors = [_text(each.get("name")) for each in (*_mappings(item.get("authors")), *_mappings([item.get("author")]))]
    attached = [each.get("url") for each in _mappings(item.get("attachments"))
                if _text(each.get("mime_type")).startswith("image/")]  # fmt: skip
    return RawEntry(
        guid=str(guid).strip() if isinstance(guid, (str, int, float)) and not isinstance(guid, bool) else "",
        link=item.get("url") or item.get("external_url"),
        title=_text(item.get("title")),
        markup=markup or paragraphs(_text(item.get("summary"))),
        base=url,
        author=", ".join(name for name in authors if name),
        images=[item.get("image"), item.get("banner_image"), *attached],
        language=item.get("language"),
        published_at=dates.from_text(item.get("date_published"), now)
        or dates.from_text(item.get("date_modified"), now),
    )


def _kept(entries: Iterable[RawEntry], most: int) -> tuple[list[RawEntry], int]:
    """Return the newest entries, newest first, and how many are left out. Without dates, the order of the feed holds:
    feeds begin with the newest."""
    found = list(entries)
    placed = [(entry.published_at.timestamp() if entry.published_at else 0.0, entry) for entry in found]
    placed.sort(key=itemgetter(0), reverse=True)
    return [entry for _, entry in placed[:most]], max(len(found) - most, 0)


def _entries(kept: Sequence[RawEntry], url: str, language: str | None) -> Iterator[FeedEntry]:
    """Clean entries, and give each its identity. The first of those with the same identity is kept."""
    made = [_entry(entry, canonical_link(entry.link, url), language) for entry in kept]
    seen: set[str] = set()
    for entry, identity in zip(made, _identities([entry.guid for entry in kept], made), strict=True):
        if identity not in seen and (entry.title or entry.text or entry.url):
            seen.add(identity)
            yield replace(entry, identity=identity)


def _identities(guids: Sequence[str], entries: Sequence[FeedEntry]) -> list[str]:
    """Return the identities of the entries of one response: guid, link, or a hash of title and text.

    A guid or link that different entries share, as the address of the site, tells nothing apart: for those entries the
    next in this order counts.
    """
    # With the link: the same text under two links is two articles, if nothing but a shared guid says otherwise.
    whole = [(entry.url, entry.title, entry.text) for entry in entries]
    shared = _shared(zip(guids, whole, strict=True))
    by_guid = [identity_of(guid, None, "", "") if guid and guid not in shared else None for guid in guids]
    # A guid that is the address of another entry counts as its link does.
    claims = [(guid if guid is not None else entry.url, each)
              for guid, entry, each in zip(by_guid, entries, whole, strict=True)]  # fmt: skip
    shared = _shared(claims)
    return [
        guid or identity_of("", None if entry.url in shared else entry.url, entry.title, entry.text)
        for guid, entry in zip(by_guid, entries, strict=True)
    ]


def _shared(claims: Iterable[tuple[str | None, object]]) -> set[str | None]:
    """Return the values that several different entries have."""
    return {value for value, times in Counter(value for value, _ in set(claims)).items() if times > 1}


def _entry(raw: RawEntry, link: str | None, language: str | None) -> FeedEntry:
    """Return an entry, still without an identity."""
    description = sanitised(raw.markup, raw.base)
    title, text = plain_title(raw.title), plain_text(raw.markup)
    images = (absolute_link(image, raw.base) for image in raw.images)
    return FeedEntry(
        identity="",
        url=link,
        title=title,
        description=description,
        text=text,
        author=plain_text(raw.author, LONGEST_AUTHOR) or None,
        image_url=next((image for image in images if image), None) or first_image(description),
        language=_language(raw.language) or language,
        published_at=raw.published_at,
    )


def identity_of(guid: str, link: str | None, title: str, text: str) -> str:
    """Return the guid, otherwise the canonical link, otherwise a hash of title and text."""
    given = guid.replace("\0", "").strip() or link
    if given and len(given) <= LONGEST_IDENTITY and given.isprintable():
        return given
    digest = hashlib.sha256((given or f"{title}\n{text}").encode("utf-8", "replace")).hexdigest()
    return f"sha256:{digest}"


def _ttl(feed: Mapping[str, Any]) -> int | None:
    """Return the seconds for which a feed asks to be left alone: ttl, or the period of syndication."""
    minutes = _number(feed.get("ttl"))
    if minutes:
        return minutes * 60
    period = PERIODS.get(_text(feed.get("sy_updateperiod")).strip().lower())
    return None if period is None else period // max(_number(feed.get("sy_updatefrequency")) or 1, 1)


def _skipped(body: bytes, encoding: object) -> tuple[frozenset[int], frozenset[int]]:
    """Return the hours and days of skipHours and skipDays, which feedparser does not read. All of them: none."""
    try:
        head = body[:HEAD].decode(str(encoding or "utf-8"), "ignore")
    except LookupError:
        return frozenset(), frozenset()
    found: dict[str, set[int]] = {"hours": set(), "days": set()}
    for kind, inside in SKIPPED.findall(head):
        for value in VALUES.findall(inside):
            if kind.lower() == "hours" and value.isascii() and value.isdigit() and int(value[:3]) <= 24:
                found["hours"].add(int(value) % 24)
            elif kind.lower() == "days" and value.lower() in DAYS:
                found["days"].add(DAYS.index(value.lower()))
    hours, days = found["hours"], found["days"]
    return frozenset(hours if len(hours) < 24 else ()), frozenset(days if len(days) < 7 else ())


def _number(value: object) -> int | None:
    text = _text(value).strip()
    return int(text[:9]) if text.isascii() and text.isdigit() else None


def _language(value: object) -> str | None:
    text = _text(value).strip()
    return text if len(text) <= LONGEST_LANGUAGE and LANGUAGE.fullmatch(text) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _mappings(values: object) -> list[Mapping[str, Any]]:
    return [each for each in values if isinstance(each, Mapping)] if isinstance(values, list) else []
