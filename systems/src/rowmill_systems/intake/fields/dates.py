"""Find dates in six languages. Days that the calendar does not have are not dates."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from rowmill_systems.intake.fields.folding import mend_digits, plain

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar janner jaenner janvier janv enero ene gennaio gen januari",
            "february feb februar februari fevrier fevr fev febrero febbraio",
            "march mar marz maerz mrz mars marzo maart",
            "april apr avril avr abril abr aprile",
            "may mai mayo maggio mag mei",
            "june jun juni juin junio giugno giu",
            "july jul juli juillet juil julio luglio lug",
            "august aug aout agosto ago augustus",
            "september sep sept septembre septiembre settembre set sett",
            "october oct oktober okt octobre octubre ottobre ott",
            "november nov novembre noviembre",
            "december dec dezember dez decembre diciembre dic dicembre",
        ),
        1,
    )
    for name in names.split()
}
# Any word may stand there: whether it is a month, MONTHS says. Alternatives of all names would be slower.
NAME = r"(?P<name>[^\W\d_]{3,10})"
NUMERIC = re.compile(
    r"(?<![\d.,/-])(?P<a>\d{1,4}) ?(?P<sep>[./-]) ?(?P<b>\d{1,2}) ?(?P=sep) ?(?P<c>\d{4}|\d{2})(?![\d/-]|[.,]\d)"
)
ASIAN = re.compile(r"(?P<year>\d{4}) ?年 ?(?P<month>\d{1,2}) ?月 ?(?P<day>\d{1,2}) ?[日号號]")
DAY_FIRST = re.compile(
    r"(?<!\d)(?P<day>\d{1,2}) ?(?:st|nd|rd|th|er|ro|[.º°ª])?[ -]{0,2}(?:of |de |d['’])?"
    rf"{NAME}[.,]{{0,2}}[ -]{{0,2}}(?:de |del )?(?P<year>\d{{4}})(?!\d)"
)
MONTH_FIRST = re.compile(
    rf"(?<![^\W_]){NAME}\.?[ -]?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? {{0,2}}(?P<year>\d{{4}})(?!\d)"
)
YEAR_FIRST = re.compile(rf"(?<!\d)(?P<year>\d{{4}})[ -]{NAME}[ -](?P<day>\d{{1,2}})(?!\d)")


@dataclass(frozen=True, slots=True)
class DateReading:
    """A date in a text: its place, the day, and whether day and month could be swapped."""

    start: int
    end: int
    day: date
    swapped: date | None = None
    """The other day that the same digits may mean."""


def find_dates(text: str, *, month_first: bool = False) -> list[DateReading]:
    """Return all dates of a text, from left to right, without overlaps."""
    found: list[DateReading] = []
    mended = mend_digits(text)
    for pattern in (ASIAN, DAY_FIRST, MONTH_FIRST, YEAR_FIRST):
        for match in pattern.finditer(mended):
            parts = match.groupdict()
            month = parts.get("month") or MONTHS.get(plain(parts.get("name", "")), 0)
            if day := calendar_day(int(parts["year"]), int(month), int(parts["day"])):
                found.append(DateReading(match.start(), match.end(), day))
    found += filter(None, (_numeric(match, month_first) for match in NUMERIC.finditer(mended)))
    found.sort(key=lambda reading: (reading.start, -reading.end))
    return [reading for place, reading in enumerate(found) if not place or reading.start >= found[place - 1].end]


def _numeric(match: re.Match[str], month_first: bool) -> DateReading | None:
    a, b, c = (int(match.group(name)) for name in "abc")
    if len(match.group("a")) == 4:
        day = calendar_day(a, b, c) if len(match.group("c")) == 2 else None
        return DateReading(match.start(), match.end(), day) if day else None
    if len(match.group("a")) == 3:
        return None
    year = c if len(match.group("c")) == 4 else _century(c)
    by_day, by_month = calendar_day(year, b, a), calendar_day(year, a, b)
    if match.group("sep") == ".":
        by_month = None
    first, second = (by_month, by_day) if month_first else (by_day, by_month)
    day = first or second
    if day is None:
        return None
    return DateReading(match.start(), match.end(), day, second if first and second != first else None)


def _century(year: int) -> int:
    return 2000 + year if year < 70 else 1900 + year


def calendar_day(year: int, month: int, day: int) -> date | None:
    """Return a day; None if the calendar has no such day, or the year is implausible."""
    if not 1900 <= year <= 2199:
        return None
    try:
        return date(year, month, day)
    except ValueError:
        return None


def is_month_first(lines: Iterable[str], language: str | None, american: bool) -> bool:
    """Tell whether 03/04/2026 is a day in March: by unambiguous dates of the same document; otherwise if it is English
    and has other American signs."""
    votes = 0
    for line in lines:
        for match in NUMERIC.finditer(mend_digits(line)):
            a, b, apart = int(match.group("a")), int(match.group("b")), match.group("sep")
            if apart != "." and len(match.group("a")) < 3:
                votes += (b > 12 >= a) - (a > 12 >= b)
    if votes:
        return votes > 0
    return american and language in ("en", None)
