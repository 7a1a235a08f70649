"""Dates of feeds, as far as they can be."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

EARLIEST = datetime(1970, 1, 2, tzinfo=UTC)
"""Years such as 0 and 1, and the first day of 1970, are what programs write that know no date."""
AHEAD = timedelta(days=1)
"""A date further ahead counts as none: it would keep its article on top, and at the highest priority, until it comes.
It is not taken for now: the same article would be new again at every sync."""


def bounded(moment: datetime | None, now: datetime) -> datetime | None:
    """Return a date in UTC, or None if it can't be."""
    if moment is None:
        return None
    try:
        found = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (OverflowError, ValueError):
        return None
    return found if EARLIEST <= found <= now + AHEAD else None


def from_parts(parts: Any, now: datetime) -> datetime | None:
    """Return the date of a struct_time in UTC, as feedparser gives it."""
    try:
        year, month, day, hour, minute, second = parts[:6]
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    except (TypeError, ValueError, OverflowError):
        return None
    return bounded(moment, now)


def from_text(text: object, now: datetime) -> datetime | None:
    """Return the date of a text: RFC 3339, as JSON Feed has it, or that of a mail."""
    if not isinstance(text, str):
        return None
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            return bounded(read(text.strip()[:100]), now)
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return None
