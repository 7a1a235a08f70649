"""How Python values are sent to PostgreSQL: as arrays of their own type, or as text that the server reads."""

from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any
from uuid import UUID

import asyncpg
from sqlalchemy import Column
from sqlalchemy.dialects.postgresql.ranges import AbstractMultiRange

from rowmill.store.postgres.sql import PostgresQueueSql, is_text
from rowmill.store.queue_sql import bare

ToArray = Callable[[list[Any]], Any]
"""Converts a list to the array that is sent."""


def element_converter(sql: PostgresQueueSql, column: "Column[Any]") -> Callable[[Any], Any] | None:
    """Return the function that converts a Python value to an element of the array in which it is sent."""
    bind = sql.binder(column)
    if sent_as_own_type(sql, column):
        return bind
    spell = multirange_text if isinstance(bare(column, sql.dialect), AbstractMultiRange) else as_text

    def convert(value: Any) -> Any:
        given = value if bind is None else bind(value)
        return given if given is None else spell(given)

    return convert


def key_converter(sql: PostgresQueueSql, column: "Column[Any]") -> ToArray:
    """Return the function that makes an array of key parts, in the type that `key_fields` names."""
    if sql.is_number(column):
        return numbers
    if sent_as_own_type(sql, column):
        return unchanged
    return lambda parts: [as_text(part) for part in parts]


def unchanged(array: list[Any]) -> list[Any]:
    return array


def numbers(array: list[int]) -> str:
    """Return an array of whole numbers as text."""
    return f"{{{str(array)[1:-1]}}}"


def sent_as_own_type(sql: PostgresQueueSql, column: "Column[Any]") -> bool:
    return sql.type_of(column) != "text" or is_text(bare(column, sql.dialect))


PLAIN = frozenset({NoneType, str, int, float, bool, Decimal, datetime, date, time, timedelta, UUID, bytes})


def flat(values: Iterable[Any]) -> list[Any]:
    """Return values as one array. Raise for a list among them: it would be taken for a dimension of the array, and its
    items would be written to other rows."""
    array = list(values)
    for kind in set(map(type, array)) - PLAIN:
        if issubclass(kind, Iterable) and not issubclass(kind, (str, bytes, bytearray, memoryview)):
            raise TypeError(f"{kind.__name__} is not a value for this column")
    return array


def as_text(value: Any) -> str:
    """Return a value as text that PostgreSQL reads. Lists become array literals."""
    match value:
        case list() | tuple():
            return "{" + ",".join("NULL" if part is None else _element(part) for part in value) + "}"
        case bool():
            return "t" if value else "f"
        case bytes() | bytearray() | memoryview():
            return "\\x" + value.hex()
        case asyncpg.BitString():
            return str(value.as_string()).replace(" ", "")
        case asyncpg.Range():
            return _range(value)
    return str(value)


def multirange_text(value: Any) -> str:
    return value if isinstance(value, str) else "{" + ",".join(as_text(part) for part in value) + "}"


def _range(value: "asyncpg.Range[Any]") -> str:
    if value.isempty:
        return "empty"
    lower, upper = ("" if end is None else _element(end) for end in (value.lower, value.upper))
    return f"{'[' if value.lower_inc else '('}{lower},{upper}{']' if value.upper_inc else ')'}"


def _element(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return as_text(value)
    escaped = as_text(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
