"""Filters of templates: moments, sizes, numbers, and the tones of states."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

TONES = {"ready": "info", "running": "busy", "waiting": "wait", "done": "good", "dead": "bad", "cancelled": "plain"}
"""The tone of a chip, by kind of state."""
STEPS = ((60, 1, "second"), (3600, 60, "minute"), (86_400, 3600, "hour"), (2_592_000, 86_400, "day"),
         (31_536_000, 2_592_000, "month"), (float("inf"), 31_536_000, "year"))  # fmt: skip
"""Below so many seconds, count in units of so many seconds."""
SURE, LIKELY = 0.9, 0.7


def with_zone(moment: datetime) -> datetime:
    """Take a time without a zone for UTC: SQLite keeps no zones."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def exact(moment: datetime) -> str:
    return with_zone(moment).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def ago(moment: datetime, now: datetime | None = None) -> str:
    """How long ago, or in how long: "3 minutes ago"."""
    seconds = ((now or datetime.now(UTC)) - with_zone(moment)).total_seconds()
    size, unit, name = next(step for step in STEPS if abs(seconds) < step[0])
    number = int(abs(seconds) // unit)
    if size == 60 and number < 10:
        return "just now" if seconds >= 0 else "in a moment"
    text = f"{number} {name}{'' if number == 1 else 's'}"
    return f"{text} ago" if seconds >= 0 else f"in {text}"


def bytes_size(number: int) -> str:
    """A number of bytes: "12 kB", "3.4 MB"."""
    size = float(number)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def count(number: int) -> str:
    """A number with separators: "12,345"."""
    return f"{number:,}"


def percent(share: float) -> str:
    """A share as a whole percentage. Only all of it is 100 %, and only nothing is 0 %."""
    rounded = round(share * 100)
    if (rounded == 100 and share < 1) or (rounded == 0 and share > 0):
        rounded = 99 if rounded else 1
    return f"{rounded} %"


def certainty(confidence: float) -> str:
    """`sure`, `likely` or `unsure`: what is not sure must not look as if it were."""
    return "sure" if confidence >= SURE else "likely" if confidence >= LIKELY else "unsure"


FILTERS: dict[str, Callable[..., Any]] = {
    "ago": ago, "bytes_size": bytes_size, "certainty": certainty, "count": count, "exact": exact, "percent": percent,
    "tone": lambda kind: TONES.get(kind, "plain"), "with_zone": with_zone,
}  # fmt: skip
