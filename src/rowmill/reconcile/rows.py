"""An inventory of the rows of a table."""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import Connection, Table
from sqlalchemy.sql import visitors

from rowmill.model import declare
from rowmill.model.errors import DeclarationError
from rowmill.reconcile.inventory import PAGE, Expected, Inventory, Pages
from rowmill.reconcile.item import NOTHING, Facts
from rowmill.store.port import Store
from rowmill.store.postgres.session import index_plans

# Rows are read in bytewise order of their keys, page by page, each page in its own short transaction.
#
# Text is compared byte by byte (COLLATE "C", BINARY), like Python and object stores do, whatever the database's locale.
# An index in that order serves the pages. Without one, each page would sort the whole table. The rows are then read in
# the order of the primary key, and sorted by the caller.


Row = tuple[Any, ...]
Expression = sa.ColumnElement[Any]
SORT = re.compile(r"\s*(->\s+)?(Incremental )?Sort\b")
EXAMPLES: dict[type, Any] = {int: 0, str: "a", UUID: UUID(int=0)}


@dataclass(frozen=True, slots=True)
class Listing:
    """Selects rows, their key and their facts."""

    table: Table
    key: Expression
    facts: Mapping[str, Expression]
    where: Expression | None = None
    grouped: bool = False
    """One entry per key, with the maximum of each fact."""

    @property
    def wanted(self) -> "sa.Select[Any]":
        facts = [sa.func.max(fact) if self.grouped else fact for fact in self.facts.values()]
        statement = sa.select(self.key, *facts).select_from(self.table).where(*self._conditions())
        return statement.group_by(self.key) if self.grouped else statement

    @property
    def ungrouped(self) -> "sa.Select[Any]":
        """Select the primary key, the key and the facts of each row."""
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
    """Return int, str or UUID; None if the database may order this key differently than Python."""
    kind = bare_type(key)
    if isinstance(kind, (sa.Enum, sa.Boolean)):
        return None
    if isinstance(kind, sa.Uuid):
        return UUID if kind.as_uuid else str
    return int if isinstance(kind, sa.Integer) else str if isinstance(kind, sa.String) else None


# served by: an index on the key in bytewise order, which `order_of` has asked for
def page(connection: Connection, listing: Listing, order: Expression, after: Any, limit: int) -> Sequence[Row]:
    """Return the rows after a key, in the order of keys: (key, facts…)."""
    with _plans(connection, listing):
        return _rows(connection, _page(listing, order, after, limit))


def _page(listing: Listing, order: Expression, after: Any, limit: int) -> "sa.Select[Any]":
    wanted = listing.wanted.order_by(order).limit(limit)
    return wanted if after is None else wanted.where(order > sa.literal(after, listing.key.type))


# served by: the primary key
def unordered_page(connection: Connection, listing: Listing, after: Row | None, limit: int) -> Sequence[Row]:
    """Return the rows after a primary key, in its order: (primary key…, key, facts…)."""
    own = list(listing.table.primary_key.columns)
    wanted = listing.ungrouped.order_by(*own).limit(limit)
    if after is not None:
        parts = [sa.literal(part, column.type) for part, column in zip(after, own, strict=True)]
        wanted = wanted.where(own[0] > parts[0] if len(own) == 1 else sa.tuple_(*own) > sa.tuple_(*parts))
    with _plans(connection, listing):
        return _rows(connection, wanted)


def _plans(connection: Connection, listing: Listing) -> AbstractContextManager[None]:
    """Force index plans, whatever the statistics say, unless the condition reads other tables: those may need a hash
    join."""
    parts = () if listing.where is None else visitors.iterate(listing.where)
    return nullcontext() if any(isinstance(part, sa.SelectBase) for part in parts) else index_plans(connection)


# served by: an index on the key, of any order
def look(connection: Connection, listing: Listing, keys: Sequence[Any]) -> Sequence[Row]:
    """Return the rows with these keys as they are now: (key, facts…)."""
    return _rows(connection, listing.wanted.where(listing.key.in_(keys)))


def order_of(connection: Connection, listing: Listing) -> Expression | None:
    """Return the key in a form whose order is Python's and is served by an index, so that a page reads no more rows
    than it returns. None: there is no such index."""
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
    except sa.exc.CompileError:  # a value in `where` has no literal form
        return False
    with index_plans(connection):
        if connection.dialect.name == "postgresql":
            plan = [str(row[0]) for row in connection.exec_driver_sql(f"EXPLAIN {text}")]
            return not any(SORT.match(line) for line in plan) and any("Index Cond:" in line for line in plan)
        steps = [str(row[-1]) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")]
        return not any(step.startswith("USE TEMP B-TREE") for step in steps)


def _is_bytewise(connection: Connection, key: Expression) -> bool:
    """Return whether the column's own collation is bytewise. Its indexes then give the right order, though PostgreSQL
    does not treat them as ordered by "C"."""
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


Named = str | sa.ColumnElement[Any] | Any
"""A column by its name, an attribute of an ORM class, or an SQL expression."""


class RowInventory(Inventory):
    """Reads rows in pages: by an index on the key in bytewise order, else by the primary key and sorted afterwards."""

    def __init__(self, wanted: Listing, **common: Any) -> None:
        super().__init__(**common)
        self.listing = wanted
        self._names = list(wanted.facts)

    async def walk(self, store: Store) -> Pages:
        store.translate(self.listing.table.schema)
        order = await store.run(partial(order_of, listing=self.listing), write=False)
        chosen = UnsortedRows(self) if order is None else IndexedRows(self, order)
        async with aclosing(chosen.walk(store)) as pages:
            async for page in pages:
                yield page

    async def look(self, store: Store, keys: Sequence[Any]) -> dict[Any, Facts]:
        store.translate(self.listing.table.schema)
        found = await store.run(partial(look, listing=self.listing, keys=keys), write=False)
        return dict(self.item(row) for row in found)

    def item(self, row: Sequence[Any]) -> tuple[Any, Facts]:
        return row[0], dict(zip(self._names, row[1:], strict=True)) if self._names else NOTHING


class IndexedRows(Inventory):
    """Reads rows by an index, in the order of their keys."""

    def __init__(self, rows: RowInventory, order: Any) -> None:
        super().__init__(at=rows.at, many=rows.many, expects=rows.expects, epoch=rows.epoch)
        self._rows = rows
        self._order = order

    async def pages(self, store: Store) -> Pages:
        wanted, after = self._rows.listing, None
        while True:
            found = await store.run(
                partial(page, listing=wanted, order=self._order, after=after, limit=PAGE), write=False
            )  # fmt: skip
            if found:
                yield [self._rows.item(row) for row in found]
                after = found[-1][0]
            if len(found) < PAGE:
                return


class UnsortedRows(Inventory):
    """Reads rows in the order of their primary key, to be sorted afterwards."""

    sort = True

    def __init__(self, rows: RowInventory) -> None:
        super().__init__(at=rows.at, many=rows.many, expects=rows.expects, epoch=rows.epoch)
        self._rows = rows

    async def pages(self, store: Store) -> Pages:
        wanted, after = self._rows.listing, None
        width = len(wanted.table.primary_key.columns)
        while True:
            found = await store.run(
                partial(unordered_page, listing=wanted, after=after, limit=PAGE), write=False
            )  # fmt: skip
            if found:
                yield [self._rows.item(row[width:]) for row in found]
                after = found[-1][:width]
            if len(found) < PAGE:
                return


def rows(
    source: Any,
    *,
    key: Named | None = None,
    facts: Sequence[str] | Mapping[str, Named] = (),
    at: str | None = None,
    where: Any = None,
    many: bool = False,
    expects: Expected = None,
    epoch: Literal["s", "ms"] = "s",
) -> RowInventory:
    """Return an inventory of the rows of a table in the mill's database: an ORM class or a Table.

    `key` is an integer, text or UUID: the primary key, unless you name another column or SQL expression. `facts` are
    the columns that rules read; `at` is the one that holds when the row last changed; `where` is an SQL expression.
    With `many`, several rows may have the same key, and count as one item.
    """
    table, mapper = declare.inspect_source(source)
    names = declare.columns_by_name(table, mapper)
    problems: list[str] = []

    def column(named: Named, what: str) -> Any:
        if not isinstance(named, str):
            return named.__clause_element__() if hasattr(named, "__clause_element__") else named
        if named not in names:
            problems.append(f"{what} {named} is no column of table {table.name}. It has: {', '.join(names)}")
        return names.get(named)

    fact_columns = {name: column(name, "the fact") for name in facts} if not isinstance(facts, Mapping) else {
        name: column(named, "the fact") for name, named in facts.items()
    }  # fmt: skip
    if at is not None and at not in fact_columns:
        fact_columns[at] = column(at, "the time")
    own = list(table.primary_key.columns)
    chosen = column(key, "the key") if key is not None else own[0] if len(own) == 1 else None
    if not own:
        problems.append(f"table {table.name} has no primary key, by which its rows could be read in pages")
    elif key is None and len(own) > 1:
        problems.append(
            f"the primary key of table {table.name} has {len(own)} columns: say which is the key, with key="
        )
    if chosen is not None and kind_of(chosen) is None:
        problems.append(
            f"the key is {chosen.type!r}, whose order may differ from place to place: "
            "name one that is an integer, text or a UUID, or cast it to text"
        )
    if many and set(fact_columns) - {at}:
        problems.append(
            "with many=True several rows are one item, and its only fact is the latest time: name it with at="
        )
    if problems:
        raise DeclarationError(table.name, problems, "inventory of rows of")
    assert chosen is not None
    wanted = Listing(table, chosen, fact_columns, where, many)
    return RowInventory(wanted, at=at, many=many, expects=expects, epoch=epoch)
