"""Lists of feeds as OPML, in and out."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from xml.etree import ElementTree
from xml.parsers import expat

import rowmill as rm
from rowmill_systems.articles.feeds.links import absolute_link
from rowmill_systems.articles.feeds.texts import plain_title

MOST_BYTES = 20 * 1024 * 1024
MOST_FEEDS = 20_000
DEEPEST = 50
UNPRINTABLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML can't hold."""


class OpmlUnreadable(rm.PermanentError):
    """A file is no OPML, or holds more than a list of feeds may."""

    code = "bad_opml"


@dataclass(frozen=True, slots=True)
class ListedFeed:
    """A feed of a list."""

    url: str
    title: str = ""
    folders: tuple[str, ...] = ()
    """The outlines that it is in, the outermost first."""
    site_url: str | None = None


@dataclass(slots=True)
class _Reading:
    feeds: dict[str, ListedFeed] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    begun: bool = False


def read_opml(content: bytes) -> list[ListedFeed]:
    """Return the feeds of a list, each address once. Raises OpmlUnreadable.

    A document type declaration is refused: no list needs one, and entities are declared in it.
    """
    if len(content) > MOST_BYTES:
        raise OpmlUnreadable(f"it has more than {MOST_BYTES} bytes")
    reading = _Reading()
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def refuse(*declared: object) -> None:
        raise OpmlUnreadable("it declares a document type")

    def begin(name: str, given: dict[str, str]) -> None:
        _begin(reading, name, given)

    def end(name: str) -> None:
        if name == "outline":
            reading.folders.pop()

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, LookupError, ValueError):
        # Lists that programs write are often cut or have a bare & in them: what was read until there counts.
        if not reading.feeds:
            raise OpmlUnreadable("it can't be read as XML") from None
    if not reading.begun:
        raise OpmlUnreadable("it has no outlines")
    return list(reading.feeds.values())


def _begin(reading: _Reading, name: str, given: dict[str, str]) -> None:
    reading.begun = reading.begun or name in ("opml", "outline")
    if name != "outline":
        return
    lower = {key.lower(): value for key, value in given.items()}
    title = plain_title(lower.get("title") or lower.get("text") or "")
    url = absolute_link(lower.get("xmlurl") or "", None)
    if url is not None and url not in reading.feeds:
        folders = tuple(folder for folder in reading.folders if folder)
        site = absolute_link(lower.get("htmlurl") or "", None)
        reading.feeds[url] = ListedFeed(url, title, folders, site)
    reading.folders.append("" if url is not None else title)
    if len(reading.folders) > DEEPEST or len(reading.feeds) > MOST_FEEDS:
        raise OpmlUnreadable(f"it has more than {MOST_FEEDS} feeds, or outlines in more than {DEEPEST} others")


def write_opml(feeds: Iterable[ListedFeed], *, title: str, now: datetime) -> bytes:
    """Return a list of feeds as OPML 2.0, in their folders."""
    root = ElementTree.Element("opml", version="2.0")
    head = ElementTree.SubElement(root, "head")
    ElementTree.SubElement(head, "title").text = _printable(title)
    ElementTree.SubElement(head, "dateCreated").text = format_datetime(now)
    body = ElementTree.SubElement(root, "body")
    folders: dict[tuple[str, ...], ElementTree.Element] = {(): body}
    for feed in feeds:
        name = _printable(feed.title or feed.url)
        outline = {"type": "rss", "text": name, "title": name, "xmlUrl": _printable(feed.url)}
        if feed.site_url:
            outline["htmlUrl"] = _printable(feed.site_url)
        ElementTree.SubElement(_folder(folders, feed.folders), "outline", outline)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _folder(folders: dict[tuple[str, ...], ElementTree.Element], path: Sequence[str]) -> ElementTree.Element:
    key = tuple(path)
    if key not in folders:
        name = _printable(key[-1])
        parent = _folder(folders, key[:-1])
        folders[key] = ElementTree.SubElement(parent, "outline", {"text": name, "title": name})
    return folders[key]


def _printable(text: str) -> str:
    return UNPRINTABLE.sub("", text)
