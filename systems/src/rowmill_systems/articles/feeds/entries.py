"""What a feed says, in one form for RSS, Atom, RDF and JSON Feed."""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """An entry of a feed. HTML is sanitised, texts are plain, times are UTC."""

    identity: str
    """The guid, otherwise the canonical link, otherwise a hash of title and text."""
    url: str | None
    title: str
    description: str
    """Sanitised HTML."""
    text: str
    """Without markup."""
    author: str | None = None
    image_url: str | None = None
    language: str | None = None
    published_at: datetime | None = None
    """None if the feed gives none, or one that can't be."""


@dataclass(frozen=True, slots=True)
class ParsedFeed:
    title: str
    site_url: str | None
    language: str | None
    entries: tuple[FeedEntry, ...]
    """The newest first, each identity once."""
    ttl_seconds: int | None = None
    """What the feed asks for: ttl or sy:updatePeriod."""
    skip_hours: frozenset[int] = field(default_factory=frozenset)
    """Hours of the day, UTC, in which the feed asks not to be fetched."""
    skip_days: frozenset[int] = field(default_factory=frozenset)
    """Days of the week, Monday is 0."""
    dropped: int = 0
    """Entries above the limit."""
    warning: str | None = None
    """A code if the feed is broken but could be read."""
