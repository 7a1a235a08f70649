"""Keys as people type them, and as the history stores them."""

import json
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import Column

from rowmill.model.errors import BadRequest
from rowmill.model.queue import QueueSpec
from rowmill.store.queue_sql import QueueSql

Key = tuple[Any, ...]
"""The parts of a key, one or more."""

LARGEST = 1 << 63


def parse_key(queue: QueueSpec[Any], text: str) -> Key:
    """Return the key that somebody typed: parts joined by |, or a JSON list if a part contains one."""
    if len(queue.key) == 1:
        parts = [text]
    elif text.startswith("["):
        try:
            parts = [str(part) for part in json.loads(text)]
        except ValueError:
            raise _wrong(queue, text) from None
    else:
        parts = text.split("|")
    if len(parts) != len(queue.key):
        raise _wrong(queue, text)
    try:
        return tuple(_part(column, part) for column, part in zip(queue.key, parts, strict=True))
    except (ValueError, ArithmeticError, KeyError):
        raise _wrong(queue, text) from None


def _part(column: "Column[Any]", text: str) -> Any:
    try:
        kind = column.type.python_type
    except NotImplementedError:
        return text
    if issubclass(kind, bool):
        return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
    if issubclass(kind, Enum):
        return kind[text.rpartition(".")[2]]  # DEAD, or Status.DEAD as `Queue.key_text` writes it
    if issubclass(kind, UUID):
        return UUID(text) if getattr(column.type, "as_uuid", True) else text
    if issubclass(kind, (datetime, date)):
        return kind.fromisoformat(text)
    if issubclass(kind, int) and not -LARGEST <= int(text) < LARGEST:
        raise ValueError(text)
    if issubclass(kind, (int, float, Decimal)):
        return kind(text)
    return text


def _wrong(queue: QueueSpec[Any], text: str) -> BadRequest:
    parts = " and ".join(f"{column.name} ({column.type!r})" for column in queue.key)
    example = "" if len(queue.key) == 1 else f": write {'|'.join(column.name for column in queue.key)}"
    return BadRequest(f"{text!r} is not a key of queue {queue.name}, which is {parts}{example}")


def scalar(key: Key) -> Any:
    """Return a key as the engine passes it around: the bare value if it has one part."""
    return key[0] if len(key) == 1 else key


def key_text_sql(sql: QueueSql) -> "sa.ColumnElement[str]":
    """Return an SQL expression for a row's key as `Queue.key_text` writes it, to look it up in the history."""
    parts = [_text_sql(sql, column) for column in sql.queue.key]
    text = parts[0]
    for part in parts[1:]:
        text = text.concat("|").concat(part)
    return text


def _text_sql(sql: QueueSql, column: "Column[Any]") -> "sa.ColumnElement[str]":
    if isinstance(column.type, sa.Uuid) and sql.dialect.name == "sqlite":
        # SQLite holds 32 digits; Python writes them in five groups.
        text = sa.cast(sa.type_coerce(column, sa.String()), sa.Text)
        groups = [sa.func.substr(text, first, length) for first, length in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))]
        return sa.cast(sa.func.printf("%s-%s-%s-%s-%s", *groups), sa.Text)
    return sa.cast(column, sa.Text)
