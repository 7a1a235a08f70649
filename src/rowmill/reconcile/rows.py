"""Rows of a table as an inventory."""

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Literal

import sqlalchemy as sa

from rowmill.model import declare
from rowmill.model.errors import DeclarationError
from rowmill.reconcile.inventory import PAGE, Expected, Inventory, Pages
from rowmill.reconcile.item import NOTHING, Facts
from rowmill.store import listing
from rowmill.store.listing import Listing
from rowmill.store.port import Store

Named = str | sa.ColumnElement[Any] | Any
"""A column by its name, an attribute of an ORM class, or an SQL expression."""


class Rows(Inventory):
    """Read in pages by the key's own index where it gives bytewise order, else by the primary key, and sorted."""

    def __init__(self, wanted: Listing, **common: Any) -> None:
        super().__init__(**common)
        self.listing = wanted
        self._names = list(wanted.facts)

    async def walk(self, store: Store) -> Pages:
        store.translate(self.listing.table.schema)
        order = await store.run(partial(listing.order_of, listing=self.listing), write=False)
        chosen = Unserved(self) if order is None else Served(self, order)
        async with aclosing(chosen.walk(store)) as pages:
            async for page in pages:
                yield page

    async def look(self, store: Store, keys: Sequence[Any]) -> dict[Any, Facts]:
        store.translate(self.listing.table.schema)
        found = await store.run(partial(listing.look, listing=self.listing, keys=keys), write=False)
        return dict(self.item(row) for row in found)

    def item(self, row: Sequence[Any]) -> tuple[Any, Facts]:
        return row[0], dict(zip(self._names, row[1:], strict=True)) if self._names else NOTHING


class Served(Inventory):
    """The rows by an index that gives them in the order of their keys."""

    def __init__(self, rows: Rows, order: Any) -> None:
        super().__init__(at=rows.at, many=rows.many, expects=rows.expects, epoch=rows.epoch)
        self._rows = rows
        self._order = order

    async def pages(self, store: Store) -> Pages:
        wanted, after = self._rows.listing, None
        while True:
            found = await store.run(
                partial(listing.page, listing=wanted, order=self._order, after=after, limit=PAGE), write=False
            )  # fmt: skip
            if found:
                yield [self._rows.item(row) for row in found]
                after = found[-1][0]
            if len(found) < PAGE:
                return


class Unserved(Inventory):
    """The same rows in the order of their primary key, to be sorted."""

    sort = True

    def __init__(self, rows: Rows) -> None:
        super().__init__(at=rows.at, many=rows.many, expects=rows.expects, epoch=rows.epoch)
        self._rows = rows

    async def pages(self, store: Store) -> Pages:
        wanted, after = self._rows.listing, None
        width = len(wanted.table.primary_key.columns)
        while True:
            found = await store.run(
                partial(listing.unordered_page, listing=wanted, after=after, limit=PAGE), write=False
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
) -> Rows:
    """Rows of a table of the mill's database: an ORM class or a Table.

    `key` is the primary key unless another column or SQL expression is named: an integer, text or UUID. `facts` are
    the columns that rules look at; `at` is the one that says when the row last changed; `where` an SQL expression.
    With `many`, several rows may have the same key: they count as one thing.
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

    told = {name: column(name, "the fact") for name in facts} if not isinstance(facts, Mapping) else {
        name: column(named, "the fact") for name, named in facts.items()
    }  # fmt: skip
    if at is not None and at not in told:
        told[at] = column(at, "the time")
    own = list(table.primary_key.columns)
    chosen = column(key, "the key") if key is not None else own[0] if len(own) == 1 else None
    if not own:
        problems.append(f"table {table.name} has no primary key, by which its rows could be read in pages")
    elif key is None and len(own) > 1:
        problems.append(
            f"the primary key of table {table.name} has {len(own)} columns: say which is the key, with key="
        )
    if chosen is not None and listing.kind_of(chosen) is None:
        problems.append(
            f"the key is {chosen.type!r}, whose order may differ from place to place: "
            "name one that is an integer, text or a UUID, or cast it to text"
        )
    if many and set(told) - {at}:
        problems.append("with many=True several rows are one thing, and only their latest time can be told of them")
    if problems:
        raise DeclarationError(table.name, problems, "inventory of rows of")
    assert chosen is not None
    wanted = Listing(table, chosen, told, where, many)
    return Rows(wanted, at=at, many=many, expects=expects, epoch=epoch)
