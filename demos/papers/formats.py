"""Dates and amounts as each country writes them."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from demos.papers.world import words

NARROW = "\u00a0"


@dataclass(frozen=True, slots=True)
class Locale:
    """How one paper writes."""

    language: str
    country: str
    currency: str
    write_date: Callable[[date], str]
    write_amount: Callable[[Decimal], str]
    """With the currency."""
    write_number: Callable[[Decimal], str]
    """Without."""


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
    name = lambda day: words("months", language)[day.month - 1]  # noqa: E731
    styles: list[Callable[[date], str]]
    if country == "CN":
        styles = [lambda day: f"{day.year}年{day.month}月{day.day}日", lambda day: day.isoformat()]
    elif country == "US":
        styles = [
            lambda day: f"{day:%m/%d/%Y}",
            lambda day: f"{name(day)} {day.day}, {day.year}",
            lambda day: f"{name(day)[:3]} {day.day}, {day.year}",
        ]
    elif country == "GB":
        styles = [
            lambda day: f"{day:%d/%m/%Y}",
            lambda day: f"{day.day} {name(day)} {day.year}",
            lambda day: f"{day.day:02d}-{name(day)[:3]}-{day.year}",
        ]
    elif language == "de":
        styles = [
            lambda day: f"{day:%d.%m.%Y}",
            lambda day: f"{day.day}. {name(day)} {day.year}",
            lambda day: f"{day:%d.%m.%y}",
        ]
    elif language == "es":
        styles = [
            lambda day: f"{day:%d/%m/%Y}",
            lambda day: f"{day.day} de {name(day)} de {day.year}",
            lambda day: f"{day:%d-%m-%Y}",
        ]
    else:
        styles = [
            lambda day: f"{day:%d/%m/%Y}",
            lambda day: f"{day.day} {name(day)} {day.year}",
            lambda day: f"{day:%d.%m.%Y}",
        ]
    return chance.choice(styles)
