"""Read the values of a field's type in a text."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rowmill_systems.intake.fields.amounts import find_amounts, money, parse_number
from rowmill_systems.intake.fields.catalogue import Field, FieldType
from rowmill_systems.intake.fields.dates import find_dates
from rowmill_systems.intake.fields.folding import TOKEN, mend_digits
from rowmill_systems.intake.fields.ids import SEPARATORS, find_ids
from rowmill_systems.intake.fields.parties import find_parties, tidy
from rowmill_systems.parts.identifiers import is_valid

# OCR puts a space beside the at sign.
EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64} ?@ ?(?:[A-Za-z0-9-]{1,63}\.){1,4}[A-Za-z]{2,12}(?![\w-])")
PHONE = re.compile(r"(?<![\w+])(?:\+|00)?\(?\d[\d\u00a0 ()/.\-–]{5,22}\d(?![\w])")
PERCENT = re.compile(r"(?<![\d.,])(\d{1,2}(?:[.,]\d{1,3})?)\s?%")
NUMBER = re.compile(r"(?<![\w.,])-?\d[\d.,'’ ]{0,15}(?<![ .,])")
FREE_ID = re.compile(
    r"(?<![\w.,-])(?:[A-Z]{1,4} (?=[\w/-]{0,6}\d))?\w{1,40}(?:[-/.·\\]{1,2}\w{1,40}){0,8}(?: ?/ ?\d[\w-]{0,20})?"
)
UNPROVED = 0.85
GROUPS = re.compile(r"[A-Z]{0,4}\d+(?: [A-Z0-9]*\d[A-Z0-9]*){1,4}")
LETTERED_ID = re.compile(r"[A-Z]{1,5}(?:[-/][A-Z0-9]+)+")


@dataclass(frozen=True, slots=True)
class Context:
    """What the rest of a document says about how to read it."""

    language: str | None = None
    currency: str | None = None
    month_first: bool = False


@dataclass(frozen=True, slots=True)
class FieldReading:
    """A value in a text, its place, and how sure its form is."""

    start: int
    end: int
    value: Any
    sure: float


def read(field: Field, text: str, context: Context) -> list[FieldReading]:
    """Return all values of the field's type in a text, from left to right."""
    return READERS[field.type](field, text, context)


def _dates(field: Field, text: str, context: Context) -> list[FieldReading]:
    return [
        FieldReading(found.start, found.end, found.day.isoformat(), 0.85 if found.swapped else 1.0)
        for found in find_dates(text, month_first=context.month_first)
    ]


def _amounts(field: Field, text: str, context: Context) -> list[FieldReading]:
    dates = find_dates(text)
    return [
        FieldReading(found.start, found.end, money(found, context.currency), 1.0 if found.exact else 0.6)
        for found in find_amounts(text)
        if not any(day.start <= found.start < day.end for day in dates)
    ]


def _numbers(field: Field, text: str, context: Context) -> list[FieldReading]:
    pattern = PERCENT if field.scheme == "percent" else NUMBER
    found = []
    for match in pattern.finditer(mend_digits(text)):
        number, _ = parse_number(match.group(match.lastindex or 0).lstrip("-"))
        if number is not None:
            sign = "-" if match.group().startswith("-") else ""
            plain = f"{number:f}"
            plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
            found.append(FieldReading(match.start(), match.end(), sign + plain, 0.95))
    return found


def _ids(field: Field, text: str, context: Context) -> list[FieldReading]:
    if not field.scheme:
        return _free_ids(text)
    found = [
        FieldReading(one.start, one.end, one.value, (1.0 if one.proved else UNPROVED) * (0.9 if one.mended else 1.0))
        for one in find_ids(field.scheme, text)
    ]
    return found or (_home_vat(text, context.language) if field.scheme == "vat" else [])


HOME: Mapping[str, tuple[str, ...]] = {
    "it": ("IT",),
    "es": ("ES",),
    "en": ("GB", "IE"),
    "de": ("DE", "CHE"),
    "fr": ("FR",),
    "nl": ("NL",),
    "pl": ("PL",),
}
BARE = re.compile(r"(?<![\w])[A-Z]?\d[\d .-]{6,14}\d[A-Z]?(?![\w])")


def _home_vat(text: str, language: str | None) -> list[FieldReading]:
    """Return a VAT number without its country, as it is written at home. Only beside a label."""
    countries = HOME.get(language or "", tuple(country for each in HOME.values() for country in each))
    for match in BARE.finditer(text):
        value = SEPARATORS.sub("", match.group())
        if any(is_valid("vat", country + value) for country in countries):
            return [FieldReading(match.start(), match.end(), value, UNPROVED)]
    return []


def _free_ids(text: str) -> list[FieldReading]:
    whole = text.strip(" .:#")
    if len(whole) <= 24 and (GROUPS.fullmatch(whole) or LETTERED_ID.fullmatch(whole)) and not find_dates(whole):
        start = text.find(whole)
        return [FieldReading(start, start + len(whole), whole, 0.9)]
    dates, found = find_dates(text), []
    for match in FREE_ID.finditer(text):
        if (
            any(day.start < match.end() and match.start() < day.end for day in dates)
            or "@" in text[match.end() : match.end() + 1]
        ):
            continue
        bare = match.group().rstrip("-/._\\")
        if not any(sign.isdigit() for sign in bare) or bare[0].islower():
            continue
        length = sum(sign.isalnum() for sign in bare)
        found.append(FieldReading(match.start(), match.start() + len(bare), bare, 0.95 if length > 2 else 0.6))
    return found


def _emails(field: Field, text: str, context: Context) -> list[FieldReading]:
    return [
        FieldReading(match.start(), match.end(), match.group().replace(" ", ""), 0.95 if " " in match.group() else 1.0)
        for match in EMAIL.finditer(text)
    ]


def _phones(field: Field, text: str, context: Context) -> list[FieldReading]:
    found = []
    for match in PHONE.finditer(text):
        digits = sum(sign.isdigit() for sign in match.group())
        if 6 <= digits <= 15 and not find_dates(match.group()):
            found.append(FieldReading(match.start(), match.end(), tidy(match.group()), 0.95))
    return found


def _parties(field: Field, text: str, context: Context) -> list[FieldReading]:
    return [FieldReading(found.start, found.end, found.name, 0.95) for found in find_parties(text)]


def _texts(field: Field, text: str, context: Context) -> list[FieldReading]:
    bare = text.strip(" \t:：-–—=")
    if not TOKEN.search(bare):
        return []
    start = text.find(bare)
    return [FieldReading(start, start + len(bare), bare, 0.9)]


def _nothing(field: Field, text: str, context: Context) -> list[FieldReading]:
    return []


READERS: Mapping[FieldType, Callable[[Field, str, Context], list[FieldReading]]] = {
    FieldType.DATE: _dates,
    FieldType.AMOUNT: _amounts,
    FieldType.NUMBER: _numbers,
    FieldType.ID: _ids,
    FieldType.EMAIL: _emails,
    FieldType.PHONE: _phones,
    FieldType.PARTY: _parties,
    FieldType.TEXT: _texts,
    FieldType.ADDRESS: _nothing,
    FieldType.TABLE: _nothing,
}
