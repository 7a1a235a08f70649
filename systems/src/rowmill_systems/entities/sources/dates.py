"""Dates in facts: 1815-12-10, 1815-12 or 1815; years before Christ are negative."""

import re
from datetime import date, timedelta

REFORM = (1582, 10, 5)
"""The first day of the Julian calendar that has a Gregorian one."""
WRITTEN = re.compile(r"\+?(-?\d{1,11})(?:-(\d\d))?(?:-(\d\d))?(?:T.*|Z|[+-]\d\d:\d\d)?")


def written(year: int, month: int = 0, day: int = 0) -> str | None:
    """Return a date as text. Zeros are unknown parts. None if there is no such day."""
    if year == 0 or not 0 <= month <= 12 or not 0 <= day <= 31:
        return None
    sign = "-" if year < 0 else ""
    parts = [f"{abs(year):04}", *([f"{month:02}"] if month else []), *([f"{day:02}"] if month and day else [])]
    return sign + "-".join(parts)


def read_date(text: str) -> str | None:
    """Parse a date or time of XML or ISO 8601, of any precision."""
    found = WRITTEN.fullmatch(text.strip())
    return written(int(found[1]), int(found[2] or 0), int(found[3] or 0)) if found else None


def gregorian(year: int, month: int, day: int) -> tuple[int, int, int]:
    """Convert a day of the Julian calendar. Days before the reform stay as they are."""
    if (year, month, day) < REFORM or not (1 <= month <= 12 and 1 <= day <= 31):
        return year, month, day
    behind = year - (month < 3)
    try:
        # A day that only the Julian calendar has, 29 February 1700, comes after the 28th.
        leap = month == 2 and day == 29
        moved = date(year, month, 28 if leap else day) + timedelta(days=behind // 100 - behind // 400 - 2 + leap)
    except (ValueError, OverflowError):
        return year, month, day
    return moved.year, moved.month, moved.day
