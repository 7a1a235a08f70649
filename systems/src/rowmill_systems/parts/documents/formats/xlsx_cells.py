"""Format a cell's value as a person sees it, without what depends on the country.

Dates are ISO, and numbers have a decimal point and no thousands separators, whatever the format says: a program that
reads `01/02/2026` or `1,190` would have to guess what the sheet knows.
"""

import re
from datetime import date, datetime, time, timedelta
from typing import Any

QUOTED = re.compile(r'"([^"]*)"|\\(.)|\[\$([^\]-]*)[^\]]*\]')
LEFT_OUT = re.compile(r"\[[^\]]*\]|[_*].")
DECIMALS = re.compile(r"[0#?][0#?,]*(?:\.([0#?]+))?")
CURRENCIES = "€$£¥₹₽₺₩₴฿"


def shown(value: Any, number_format: str) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float():
            return _number(value, number_format)
        case datetime() if (value.hour, value.minute, value.second) == (0, 0, 0):
            return value.date().isoformat()
        case datetime():
            return value.isoformat(sep=" ", timespec="minutes" if value.second == 0 else "seconds")
        case time():
            return value.isoformat(timespec="minutes" if value.second == 0 else "seconds")
        case date():
            return value.isoformat()
        case timedelta():
            minutes, seconds = divmod(int(value.total_seconds()), 60)
            return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
        case _:
            return str(value)


def _number(value: float, number_format: str) -> str:
    positive, *others = (number_format or "General").split(";")
    part = others[0] if others and value < 0 else positive
    words = [next(filter(None, found), "") for found in QUOTED.findall(part)]
    bare = LEFT_OUT.sub("", QUOTED.sub("", part))
    percent = "%" in bare
    if percent:
        value *= 100
    places = DECIMALS.search(bare)
    if "general" in bare.lower() or "E" in bare or not places or "/" in bare:
        text = _plain(value)
    else:
        text = _rounded(value, places[1] or "")
    currency = [mark for mark in bare if mark in CURRENCIES]
    unit = " ".join(word.strip() for word in [*words, *currency] if word.strip())
    return " ".join(filter(None, [text + "%" * percent, unit]))


def _rounded(value: float, places: str) -> str:
    """Round to the decimals of the format. Optional decimals go if they are zero."""
    text = f"{value:.{min(len(places), 15)}f}"
    least = sum(place == "0" for place in places)
    if not places:
        return text
    whole, _, decimals = text.partition(".")
    kept = decimals[:least] + decimals[least:].rstrip("0")
    return f"{whole}.{kept}" if kept else whole


def _plain(value: float) -> str:
    """Format with fifteen digits, as many as Excel stores."""
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return str(int(value))
    return f"{value:.15g}"
