"""Rows of a table as an inventory: their keys in bytewise order, page by page, each page in a short read of its own.

Text is compared byte by byte (COLLATE "C", BINARY), as Python and object stores do, whatever the database's language.
An index in that order serves the pages. Where there is none, each page would sort the whole table: the rows are then
read in the order of the primary key instead, for the caller to sort.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import Connection, Table
from sqlalchemy.sql import visitors

from rowmill.store.index_plans import index_plans

Row = tuple[Any, ...]
Expression = sa.ColumnElement[Any]
SORT = re.compile(r"\s*(->\s+)?(Incremental )?Sort\b")
EXAMPLES: dict[type, Any] = {int: 0, str: "a", UUID: UUID(int=0)}


@dataclass(frozen=True, slots=True)
class Listing:
    """Which rows, by which key, and what is told of each."""

    table: Table
    key: Expression
    facts: Mapping[str, Expression]
    where: Expression | None = None
    grouped: bool = False
    """One entry per key, with the greatest of each fact."""

    @property
    def wanted(self) -> "sa.Select[Any]":
        facts = [sa.func.max(fact) if self.grouped else fact for fact in self.facts.values()]
        statement = sa.select(self.key, *facts).select_from(self.table).where(*self._conditions())
        return statement.group_by(self.key) if self.grouped else statement

    @property
    def ungrouped(self) -> "sa.Select[Any]":
        """The primary key, then the key and the facts of each row."""
        own = self.table.primary_key.columns
        return sa.select(*own, self.key, *self.facts.values()).select_from(self.table).where(*self._conditions())

    def _conditions(self) -> list[Expression]:
        there: list[Expression] = [] if getattr(self.key, "nullable", True) is False else [self.key.is_not(None)]
        return there if self.where is None else [*there, self.where]


def bare_type(key: Expression) -> "sa.types.TypeEngine[Any]":
    kind = key.type
    while isinstance(kind, sa.types.TypeDecorator):
        kind = kind.impl_instance
    return kind


def kind_of(key: Expression) -> type | None:
    """int, str or UUID; None for a key whose order in the database may differ from Python's."""
    kind = bare_type(key)
    if isinstance(kind, (sa.Enum, sa.Boolean)):
        return None
    if isinstance(kind, sa.Uuid):
        return UUID if kind.as_uuid else str
    return int if isinstance(kind, sa.Integer) else str if isinstance(kind, sa.String) else None


# served by: an index on the key in bytewise order, which `order_of` has asked for
def page(connection: Connection, listing: Listing, order: Expression, after: Any, limit: int) -> Sequence[Row]:
    """The rows after a key, in the order of keys: (key, facts…)."""
    with _plans(connection, listing):
        return _rows(connection, _page(listing, order, after, limit))


def _page(listing: Listing, order: Expression, after: Any, limit: int) -> "sa.Select[Any]":
    wanted = listing.wanted.order_by(order).limit(limit)
    return wanted if after is None else wanted.where(order > sa.literal(after, listing.key.type))


# served by: the primary key
def unordered_page(connection: Connection, listing: Listing, after: Row | None, limit: int) -> Sequence[Row]:
    """The rows after a primary key, in its order, whatever that is: (primary key…, key, facts…)."""
    own = list(listing.table.primary_key.columns)
    wanted = listing.ungrouped.order_by(*own).limit(limit)
    if after is not None:
        parts = [sa.literal(part, column.type) for part, column in zip(after, own, strict=True)]
        wanted = wanted.where(own[0] > parts[0] if len(own) == 1 else sa.tuple_(*own) > sa.tuple_(*parts))
    with _plans(connection, listing):
        return _rows(connection, wanted)


def _plans(connection: Connection, listing: Listing) -> AbstractContextManager[None]:
    """By the index, whatever the statistics say; but a condition that asks other tables may need a hash of them."""
    parts = () if listing.where is None else visitors.iterate(listing.where)
    return nullcontext() if any(isinstance(part, sa.SelectBase) for part in parts) else index_plans(connection)


# served by: an index on the key, of any order
def look(connection: Connection, listing: Listing, keys: Sequence[Any]) -> Sequence[Row]:
    """The rows with these keys, as they are now: (key, facts…)."""
    return _rows(connection, listing.wanted.where(listing.key.in_(keys)))


def order_of(connection: Connection, listing: Listing) -> Expression | None:
    """The key, compared in such a way that its order is Python's and that an index serves it, so that a page reads no
    more than itself. None: there is no such index."""
    if not isinstance(bare_type(listing.key), sa.String):
        orders: list[Expression] = [listing.key]
    elif connection.dialect.name == "sqlite":
        orders = [sa.collate(listing.key, "BINARY")]
    else:
        orders = [sa.collate(listing.key, "C")]
        if _is_bytewise(connection, listing.key):
            orders.append(listing.key)
    return next((order for order in orders if _is_served(connection, listing, order)), None)


def _is_served(connection: Connection, listing: Listing, order: Expression) -> bool:
    kind = kind_of(listing.key)
    statement = _page(listing, order, EXAMPLES[kind] if kind else None, 100)
    try:
        text = str(statement.compile(connection, compile_kwargs={"literal_binds": True}))
    except sa.exc.CompileError:  # a value in `where` that can't be spelled out
        return False
    with index_plans(connection):
        if connection.dialect.name == "postgresql":
            plan = [str(row[0]) for row in connection.exec_driver_sql(f"EXPLAIN {text}")]
            return not any(SORT.match(line) for line in plan) and any("Index Cond:" in line for line in plan)
        steps = [str(row[-1]) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")]
        return not any(step.startswith("USE TEMP B-TREE") for step in steps)


def _is_bytewise(connection: Connection, key: Expression) -> bool:
    """Is the database's own order for this text that of bytes? Its indexes serve then as they are; yet PostgreSQL does
    not take them for ordered by "C"."""
    found: Any = connection.scalar(
        sa.text(
            "SELECT CASE WHEN c.collname = 'default' THEN "
            "CASE WHEN to_jsonb(d)->>'datlocprovider' = 'i' THEN 'icu' ELSE d.datcollate END ELSE c.collcollate END "
            "FROM pg_attribute a JOIN pg_collation c ON c.oid = a.attcollation, pg_database d "
            "WHERE d.datname = current_database() AND a.attrelid = to_regclass(:table) AND a.attname = :column"
        ),
        {
            "table": connection.dialect.identifier_preparer.format_table(key.table),
            "column": key.name,
        }
        if isinstance(key, sa.Column)
        else {"table": None, "column": None},
    )
    return found in ("C", "POSIX")


def _rows(connection: Connection, wanted: "sa.Select[Any]") -> Sequence[Row]:
    return [tuple(row) for row in connection.execute(wanted)]
