"""Read values of a model by the type of their field, and check that a quote says the same."""

import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from rowmill_systems.intake.fields.catalogue import Field, FieldType
from rowmill_systems.intake.fields.ids import find_ids
from rowmill_systems.intake.fields.model.evidence import letters_of
from rowmill_systems.intake.fields.model.prompting import columns_of
from rowmill_systems.intake.fields.readings import Context
from rowmill_systems.intake.fields.readings import read as by_rules

LONGEST_TEXT = 1000
MOST_ROWS = 500
NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,8})?", re.ASCII)
AMOUNT = re.compile(r"(-?\d{1,15}(?:\.\d{1,4})?)(?: ([A-Z]{3}))?", re.ASCII)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
EMAIL = re.compile(r"[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,5}[A-Za-z]{2,24}")
PHONE = re.compile(r"[+(]?\d[\d ()/.\u2013-]{4,24}\d", re.ASCII)
FIGURES = (re.compile(r"\d+(?:[.,'’]\d+)*"), re.compile(r"\d+(?:[.,'’]\d+|\s\d{3}(?!\d))*"))
"""Numbers with separators, and with spaces among them: `1 190,00` may be one, or two in neighbouring columns."""
YEARS = range(1900, 2200)


def read(field: Field, value: object, rows: object) -> Any:
    """Return the value of a suggestion; None if it is not of the field's type."""
    if field.type is FieldType.TABLE:
        return read_rows(columns_of(field), rows)
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        return None
    text = tidy(value)
    if not letters_of(text):
        return None
    match field.type:
        case FieldType.DATE:
            return read_date(text)
        case FieldType.AMOUNT:
            return read_amount(text)
        case FieldType.NUMBER:
            return plain(Decimal(text)) if NUMBER.fullmatch(text) else None
        case FieldType.EMAIL:
            return text if EMAIL.fullmatch(text) else None
        case FieldType.PHONE:
            return text if PHONE.fullmatch(text) else None
        case FieldType.ID if field.scheme:
            return read_id(field, text)
        case FieldType.ID | FieldType.TEXT | FieldType.PARTY | FieldType.ADDRESS:
            return text


def read_id(field: Field, text: str) -> str | None:
    """Return an id in the form of the rules, if its form and check digits are right."""
    found = by_rules(field, text, Context())
    return str(found[0].value) if found else None


def is_proved(field: Field, value: str) -> bool:
    """Tell whether the check digits of an id are right. Some schemes have none."""
    return any(found.proved and not found.mended for found in find_ids(field.scheme, value))


def read_date(text: str) -> str | None:
    try:
        day = date.fromisoformat(text) if DATE.fullmatch(text) else None
    except ValueError:
        return None
    return text if day is not None and day.year in YEARS else None


def read_amount(text: str) -> dict[str, str | None] | None:
    if (found := AMOUNT.fullmatch(text)) is None:
        return None
    amount = Decimal(found[1])
    cents = round(amount, 2)
    return {"amount": f"{cents if cents == amount else amount:f}", "currency": found[2]}


def read_rows(columns: Sequence[str], rows: object) -> list[dict[str, str]] | None:
    if not isinstance(rows, list) or not 0 < len(rows) <= MOST_ROWS or not columns:
        return None
    table = []
    for row in rows:
        texts = isinstance(row, list) and len(row) == len(columns) and all(isinstance(cell, str) for cell in row)
        if not texts or not any(row):
            return None
        cells = [tidy(cell) for cell in row]
        if any(len(cell) > LONGEST_TEXT for cell in cells):
            return None
        table.append({column: cell for column, cell in zip(columns, cells, strict=True) if cell})
    return table


def tidy(text: str) -> str:
    """Return a text on one line, without invisible characters."""
    return "".join(sign for sign in " ".join(text.split()) if sign.isprintable())


def plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def says(field: Field, value: Any, quote: str) -> bool:
    """Tell whether the quote has the value in it, in any spelling."""
    match field.type:
        case FieldType.DATE:
            return says_date(date.fromisoformat(value), quote)
        case FieldType.AMOUNT:
            return says_number(Decimal(value["amount"]), quote)
        case FieldType.NUMBER:
            return says_number(Decimal(value), quote)
        case FieldType.TABLE:
            return True
        case _:
            return letters_of(value) in letters_of(quote)


def says_number(number: Decimal, quote: str) -> bool:
    """Look for a number with any separators, with or without zero decimals."""
    digits = {digits_of(f"{number:f}"), digits_of(plain(number)), digits_of(f"{number:.2f}")}
    return any(digits_of(figure) in digits for pattern in FIGURES for figure in pattern.findall(quote))


def says_date(day: date, quote: str) -> bool:
    """Look for the day and the year, and for the month as a number or a word."""
    numbers = [int(figure) for figure in re.findall(r"\d{1,4}", quote)]
    compact = day.strftime("%Y%m%d") in quote
    year = day.year in numbers or day.year % 100 in numbers
    month = day.month in numbers or bool(re.search(r"[^\W\d_]{3}", quote))
    return compact or (year and month and day.day in numbers)


def digits_of(text: str) -> str:
    return "".join(sign for sign in text if sign.isdigit()).lstrip("0")
