"""A queue's keys, states and moves as SQLAlchemy expressions, for statements outside the hot path."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import Connection, CursorResult, Table
from sqlalchemy.sql.elements import TextClause
from sqlalchemy.types import NULLTYPE

from rowmill.model.states import Word
from rowmill.store.queue_sql import QueueSql

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


def as_text(statement: str) -> TextClause:
    """Return a finished statement as a TextClause, with its colons escaped: they are no parameters."""
    return sa.text(statement.replace(":", r"\:"))


def run(connection: Connection, statement: str) -> "CursorResult[tuple[object, ...]]":
    return connection.execute(as_text(statement))


PIECES = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(?<![\w$])\$(\d+)|\?(\d+)|(?<![:\w]):([a-z]\w*)""")
"""Placeholders ($1, ?1, :name), and strings and quoted names, which may contain what only looks like one."""


def placeholders(statement: str) -> list[str]:
    """Return the names of the placeholders in a statement, without their sign, as often as they occur."""
    return [name for found in PIECES.finditer(statement) for name in found.groups() if name is not None]


def renamed(statement: str, name: Callable[[str], str]) -> str:
    """Return the statement with other placeholders. Strings and quoted names stay as they are."""

    def piece(found: "re.Match[str]") -> str:
        return next((name(given) for given in found.groups() if given is not None), found[0])

    return PIECES.sub(piece, statement)


def insert_of(dialect: str) -> "Callable[[Table], postgresql.Insert | sqlite.Insert]":
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as postgres_insert

        return postgres_insert
    from sqlalchemy.dialects.sqlite import insert as sqlite_insert

    return sqlite_insert


def partial_index(dialect: str, name: str, *parts: Any, where: str, unique: bool = False) -> sa.Index:
    """Return an index on the rows that meet a condition.

    For every dialect that an index names, SQLAlchemy imports the whole dialect: on PostgreSQL the condition is named
    for PostgreSQL alone. On SQLite it is named for both: a mill without a URL is on SQLite, and its metadata may be
    what Alembic compares with a PostgreSQL database.
    """
    named = {"postgresql", dialect}
    condition: dict[str, Any] = {f"{each}_where": as_text(where) for each in named}
    return sa.Index(name, *parts, unique=unique, **condition)


def raw_key(sql: QueueSql) -> list["sa.ColumnElement[Any]"]:
    """Return the key columns without type conversion, as the driver gives them. See `RowLoader.raw_key`."""
    return [sa.literal_column(f"{sql.table}.{name}") for name in sql.keys]


def raw_key_in(sql: QueueSql, keys: Sequence[tuple[Any, ...]]) -> "sa.ColumnElement[bool]":
    """Return the condition for rows with these raw keys. The values are sent without a type, so that the server gives
    them that of their column."""
    columns = raw_key(sql)
    if len(columns) == 1:
        # As one parameter that is spread when it is sent: the statement is made once, not anew for each batch.
        spread: sa.BindParameter[Any] = sa.bindparam(
            None, [key[0] for key in keys], type_=NULLTYPE, expanding=True, unique=True
        )
        return columns[0].in_(spread)
    values = [[sa.literal(part, NULLTYPE) for part in key] for key in keys]
    return sa.tuple_(*columns).in_([sa.tuple_(*parts) for parts in values])


def keys_in(sql: QueueSql, keys: Sequence[tuple[Any, ...]]) -> "sa.ColumnElement[bool]":
    """Return the condition for rows with these keys. The literals get no names of their own: SQLAlchemy would name them
    after their columns, and not every column name can be a parameter."""
    columns = sql.queue.key
    values = [[sa.literal(part, column.type) for part, column in zip(key, columns, strict=True)] for key in keys]
    if len(columns) == 1:
        return columns[0].in_([parts[0] for parts in values])
    return sa.tuple_(*columns).in_([sa.tuple_(*parts) for parts in values])


def in_words(sql: QueueSql, words: Sequence[Word]) -> "sa.ColumnElement[bool]":
    """Return `state IN (…)` with literal words, so that partial indexes serve it."""
    return sa.literal_column(sql.is_in(words, f"{sql.table}."))


def delete_oldest(
    table: sa.Table, key: "Sequence[sa.Column[Any]]", by: "sa.Column[Any]", before: Any, most: int
) -> "sa.Delete":
    """Return a DELETE of at most `most` rows whose time in column `by` lies before a moment, the oldest first."""
    oldest = sa.select(*key).where(by < before).order_by(by).limit(most)
    return sa.delete(table).where(sa.tuple_(*key).in_(oldest) if len(key) > 1 else key[0].in_(oldest))
