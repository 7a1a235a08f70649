"""What a parsing process and its parent send each other: JSON and bytes, each with its length in front.

An answer is a frame about the feed, then one for each entry: a feed as a whole may be tens of megabytes of JSON, and
the event loop that reads it has others to serve in between.
"""

import dataclasses
import struct
from datetime import datetime
from typing import Any

from rowmill_systems.articles.feeds.entries import FeedEntry, ParsedFeed

LENGTHS = struct.Struct(">QQ")
SETS = ("skip_hours", "skip_days")


def feed_to_json(feed: ParsedFeed) -> dict[str, Any]:
    """Return a feed without its entries."""
    said = dataclasses.asdict(dataclasses.replace(feed, entries=()))
    return said | {name: sorted(said[name]) for name in SETS}


def entry_to_json(entry: FeedEntry) -> dict[str, Any]:
    said = dataclasses.asdict(entry)
    return said | {"published_at": entry.published_at and entry.published_at.isoformat()}


def feed_from_json(said: dict[str, Any], entries: tuple[FeedEntry, ...]) -> ParsedFeed:
    """Raises KeyError, TypeError or ValueError for what is no feed: the process may have been taken over."""
    return ParsedFeed(**said | {name: frozenset(said[name]) for name in SETS} | {"entries": entries})


def entry_from_json(said: dict[str, Any]) -> FeedEntry:
    """Raises as feed_from_json."""
    published = said["published_at"]
    return FeedEntry(**said | {"published_at": published and datetime.fromisoformat(published)})
