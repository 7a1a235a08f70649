"""Lists that people sort and page through. Pages are cut by the values of the last row (keyset), so that a page costs
the same wherever it is, and rows that are added meanwhile shift nothing.

keyset = Keyset({"name": File.name, "size": File.size}, key=File.id, default="-name")
page = keyset.read(connection, sa.select(...), sort="-size", after=cursor, limit=50)
page.rows, page.next
"""

import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa


class UnknownPage(ValueError):
    """There is no such page: the cursor or the order is none of this list."""


@dataclass(frozen=True, slots=True)
class KeysetPage:
    """The rows of one page, the order that they are in, and the cursor of the next page; None at the end.

    With filters, a page may have few rows or none, and yet a next page.
    """

    rows: Sequence[sa.RowMapping]
    sort: str
    next: str | None


LOOKED_AT = 10_000
"""The most rows that are looked at for one page of a filtered list."""


class Keyset:
    """Orders by one of several columns, and then by a key that is unique.

    The columns must not be NULL: wrap one that may be in `coalesce`, with a literal in place of a parameter, so that an
    index on the same expression and the key serves it. An order is named by its column, with a minus before it for
    descending.
    """

    def __init__(self, columns: Mapping[str, Any], key: Any, *, default: str) -> None:
        for name, column in columns.items():
            if isinstance(column.type, sa.types.NullType):
                raise TypeError(f"the order {name} has no type. Give it one: sa.func.lower(column, type_=sa.Text())")
        self.columns, self.key, self.default = columns, key, default

    def read(
        self,
        connection: sa.Connection,
        wanted: "sa.Select[Any]",
        *,
        filters: Sequence["sa.ColumnElement[bool]"] = (),
        within: tuple[Any, Any] | None = None,
        sort: str = "",
        after: str = "",
        limit: int = 50,
        looked_at: int = LOOKED_AT,
    ) -> KeysetPage:
        """Run a select in this order, from the row after the cursor on. Raises UnknownPage.

        Conditions that the index of the order serves belong into the select. `filters` are for all others: at most
        `looked_at` rows are compared with them, and the next page goes on after the last of these. `within` is a column
        and its value, for an index that begins with this column.
        """
        sort = sort or self.default
        name, descending = sort.removeprefix("-"), sort.startswith("-")
        if name not in self.columns:
            raise UnknownPage("there is no such order")
        column = self.columns[name]
        if connection.dialect.name == "sqlite" and isinstance(column.type, sa.DateTime):
            # SQLite compares times as texts, and CURRENT_TIMESTAMP has no fractions, which a bound datetime has.
            column = sa.type_coerce(column, sa.Text())
        before: list[tuple[Any, Any]] = []
        if within is not None:
            # Not `=`: PostgreSQL would then take the order of an index without the column for good enough, and read all
            # of it for a value that only rows at its end have.
            first, given = within[0], sa.bindparam(None, within[1], type_=within[0].type)
            wanted = wanted.where(first >= given, first <= given)
            wanted = wanted.order_by(first.desc() if descending else first.asc())
            before.append((first, given))
        if after:
            value, key = (
                sa.bindparam(None, given, type_=side.type)
                for given, side in zip(_decoded(after, column, self.key), (column, self.key), strict=True)
            )
            # As one comparison of two pairs, an index finds where the page begins; with OR, it would read up to there.
            pairs = [*before, (column, value), (self.key, key)]
            here, there = (sa.tuple_(*side) for side in zip(*pairs, strict=True))
            wanted = wanted.where(here < there if descending else here > there)

        def ordered(select: "sa.Select[Any]", *columns: Any) -> "sa.Select[Any]":
            return select.order_by(*(each.desc() if descending else each.asc() for each in columns))

        wanted = ordered(wanted.add_columns(column.label("_sorted"), self.key.label("_key")), column, self.key)
        if filters:
            compared = wanted.add_columns(sa.and_(*filters).label("_matches")).limit(looked_at).subquery()
            found = ordered(sa.select(compared), compared.c._sorted, compared.c._key).where(compared.c._matches)
        else:
            found = wanted
        rows = connection.execute(found.limit(limit + 1)).mappings().all()
        last = rows[limit - 1] if len(rows) > limit else None
        if last is None and filters:
            last = connection.execute(wanted.offset(looked_at - 1).limit(1)).mappings().first()
        return KeysetPage(rows[:limit], sort, None if last is None else _encoded(last["_sorted"], last["_key"]))


def contains(column: Any, text: str) -> sa.ColumnElement[bool]:
    """Return the condition that a column contains a text, ignoring case. % and _ stand for themselves."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return sa.func.lower(column).like(f"%{escaped.lower()}%", escape="\\")


def _encoded(*values: Any) -> str:
    plain = [each.isoformat() if isinstance(each, datetime) else each for each in values]
    text = json.dumps([str(each) if isinstance(each, uuid.UUID) else each for each in plain], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decoded(cursor: str, *columns: Any) -> list[Any]:
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if not isinstance(values, list) or len(values) != len(columns):
            raise UnknownPage("there is no such page")
        return [_typed(value, column.type.python_type) for value, column in zip(values, columns, strict=True)]
    except (ValueError, TypeError, RecursionError) as error:
        raise UnknownPage("there is no such page") from error


def _typed(value: Any, kind: type) -> Any:
    if kind is datetime:
        return datetime.fromisoformat(value)
    if kind is uuid.UUID:
        return uuid.UUID(value)
    if kind is str and (not isinstance(value, str) or "\x00" in value):
        raise ValueError("not a text")
    if kind is int and not isinstance(value, int):
        raise ValueError("not a number")
    return kind(value)
