"""Formats of dates and amounts by country."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from demos.papers.world import words

NARROW = "\u00a0"
DATES = {
    "CN": ("{y}年{m}月{d}日", "{y}-{m:02d}-{d:02d}"),
    "US": ("{m:02d}/{d:02d}/{y}", "{name} {d}, {y}", "{short} {d}, {y}"),
    "GB": ("{d:02d}/{m:02d}/{y}", "{d} {name} {y}", "{d:02d}-{short}-{y}"),
    "de": ("{d:02d}.{m:02d}.{y}", "{d}. {name} {y}", "{d:02d}.{m:02d}.{yy:02d}"),
    "es": ("{d:02d}/{m:02d}/{y}", "{d} de {name} de {y}", "{d:02d}-{m:02d}-{y}"),
    "fr": ("{d:02d}/{m:02d}/{y}", "{d} {name} {y}", "{d:02d}.{m:02d}.{y}"),
    "it": ("{d:02d}/{m:02d}/{y}", "{d} {name} {y}", "{d:02d}.{m:02d}.{y}"),
}


@dataclass(frozen=True, slots=True)
class Locale:
    """The formats of one paper."""

    language: str
    country: str
    currency: str
    write_date: Callable[[date], str]
    write_amount: Callable[[Decimal], str]
    """Formats an amount with its currency."""
    write_number: Callable[[Decimal], str]
    """Formats an amount without currency."""


def locale(chance: random.Random, language: str, country: str) -> Locale:
    currency = {"GB": "GBP", "US": "USD", "CH": "CHF", "CN": "CNY"}.get(country, "EUR")
    thousands, point = {
        "GB": (",", "."),
        "US": (",", "."),
        "CN": (",", "."),
        "CH": ("'", "."),
        "FR": (NARROW, ","),
    }.get(country, (".", ","))
    symbol = {"EUR": "€", "GBP": "£", "USD": "$", "CNY": "¥", "CHF": "CHF"}[currency]
    after, before = f"{{}} {symbol}", f"{symbol}{{}}"
    styles = (
        [before, f"{currency} {{}}"]
        if country in ("GB", "US", "CN")
        else [after, f"{{}} {currency}", f"{currency} {{}}"]
    )
    style = "CHF {}" if country == "CH" else chance.choice(styles)

    def number(value: Decimal) -> str:
        return f"{value:,.2f}".replace(",", "_").replace(".", point).replace("_", thousands)

    return Locale(
        language,
        country,
        currency,
        _dates(chance, language, country),
        lambda value: style.format(number(value)),
        number,
    )


def _dates(chance: random.Random, language: str, country: str) -> Callable[[date], str]:
    """Return one of the date formats of a country. {name} is the month."""
    template = chance.choice(DATES.get(country) or DATES[language])

    def written(day: date) -> str:
        name = words("months", language)[day.month - 1] if language != "zh" else ""
        return template.format(d=day.day, m=day.month, y=day.year, yy=day.year % 100, name=name, short=name[:3])

    return written
