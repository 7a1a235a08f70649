"""How a column stores times: in the database's own type, as text (SQLite), or as a number since 1970."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection

from rowmill.adopt.table_facts import TableFacts, samples
from rowmill.model.declare import NUMBERS
from rowmill.model.queue import EpochUnit

LOOKED_AT = 500
LENGTH = 40
"""Most characters in a text that may be a time."""
EARLIEST, LATEST = 5e8, 1e10
"""Range of seconds since 1970 that are plausible times of rows (1985 to 2286). Milliseconds are a thousand times
larger."""


def values_of(connection: Connection, facts: TableFacts, column: "Column[Any]") -> list[Any]:
    """Return some values that are not NULL, as the driver returns them; of texts, only their first characters."""
    found: list[Any] = []
    for sample in samples(facts.table, [column], lambda rows: rows.c[column.key].is_not(None), LOOKED_AT):
        inner = sample.subquery()
        raw = sa.type_coerce(inner.c[column.key], sa.types.NullType())
        beginning = sa.func.substr(raw, 1, LENGTH) if isinstance(column.type, sa.String) else raw
        found += connection.scalars(sa.select(beginning))
    return found


def kind_of_time(
    connection: Connection, facts: TableFacts, column: "Column[Any]"
) -> "tuple[sa.types.TypeEngine[Any], EpochUnit | None] | None":
    """Return the type as which a column can hold times, and the unit if it is a number; None if it can't."""
    declared = column.type
    on_sqlite = connection.dialect.name == "sqlite"
    if isinstance(declared, sa.DateTime) and not on_sqlite:
        return declared, None
    if not isinstance(declared, (sa.DateTime, *NUMBERS, sa.String, sa.types.NullType)):
        return None
    if isinstance(declared, sa.String) and not on_sqlite:
        return None
    values = values_of(connection, facts, column)
    if not values:
        # An empty column says nothing: its type must. Text may be anything.
        return None if isinstance(declared, (sa.String, sa.types.NullType)) else (declared, None)
    if all(isinstance(value, str) for value in values):
        # SQLite has no type for times: most are text, whatever the column is called.
        if not all(looks_like_a_time(value) for value in values):
            return None
        return (declared if isinstance(declared, sa.DateTime) else sa.DateTime()), None
    numbers = [float(value) for value in values if not isinstance(value, (str, bytes))]
    if len(numbers) < len(values):
        return None
    if not any(numbers):
        return declared, None  # all of them 0, which stands for no time
    unit = unit_of(numbers)
    if unit is None:
        return None
    if isinstance(declared, NUMBERS):
        return declared, unit
    whole = all(number.is_integer() for number in numbers)
    return (sa.BigInteger() if whole else sa.Float()), unit


def unit_of(numbers: list[float]) -> EpochUnit | None:
    """Return the unit of numeric times since 1970: seconds or milliseconds. None for numbers that are no times, such as
    a wait of 300. 0 counts as no time, as in many tables without NULL."""
    numbers = [number for number in numbers if number]
    if all(EARLIEST < number < LATEST for number in numbers):
        return "s"
    if all(EARLIEST * 1000 < number < LATEST * 1000 for number in numbers):
        return "ms"
    return None


def looks_like_a_time(value: str) -> bool:
    return len(value) >= 10 and value[:4].isdigit() and value[4] == "-" == value[7] and value[8:10].isdigit()


def sorts_wrongly(value: Any) -> bool:
    """Return whether this text sorts wrongly beside times in the format of SQLite and SQLAlchemy (a blank between date
    and time, UTC). "2026-01-31T09:00" sorts after every other time of that day."""
    return isinstance(value, str) and (value[10:11] == "T" or "+" in value[19:] or "-" in value[19:])
