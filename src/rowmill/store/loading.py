"""Rows on their way in, in bulk: as records that a driver takes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Column

from rowmill.store.terms import Terms


def records_of(
    terms: Terms, rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[list["Column[Any]"], list[list[Any]]]]:
    """Runs of rows that fill the same columns, in the order they came. A column that a row leaves out is left to
    the table's default: it must not become NULL because another row fills it."""
    table = terms.queue.table
    for names, run in groupby(rows, key=tuple):
        columns = [table.columns[name] for name in names]
        binders = [terms.binder(column) for column in columns]
        yield columns, [[_bound(bind, row[name]) for name, bind in zip(names, binders, strict=True)] for row in run]


def _bound(bind: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if bind is None else bind(value)


def with_defaults(table_columns: Sequence["Column[Any]"], row: dict[str, Any]) -> dict[str, Any]:
    """The row with what SQLAlchemy would make for it in Python: a fixed default, or one made by a function."""
    for column in table_columns:
        default = column.default
        if default is None or column.key in row:
            continue
        if default.is_scalar:
            row[column.key] = default.arg  # type: ignore[attr-defined]
        elif default.is_callable:
            row[column.key] = default.arg(None)  # type: ignore[attr-defined]
    return row
