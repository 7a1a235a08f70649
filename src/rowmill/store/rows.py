"""Makes rows for handlers (`lease.row`) out of what a driver returns."""

from collections.abc import Callable, Sequence
from functools import cached_property
from operator import itemgetter
from sys import getsizeof
from typing import Any

from sqlalchemy import Column

from rowmill.model.errors import BadRequest, ColumnNotLoaded, LeaseLost, PermanentError
from rowmill.model.lease import Lease
from rowmill.model.retry import Retry
from rowmill.model.states import Step
from rowmill.store.port import GONE, Store
from rowmill.store.queue_sql import QueueSql


async def fetch(store: Store, lease: Lease[Any], name: str) -> tuple[Any, int]:
    """Return the value of a column, and the bytes that it added. It is read by the row's key while the lease holds,
    unless the row has it already."""
    queue = lease.queue
    column = queue.names.get(name)
    if column is None:
        known = ", ".join(one.name for one in queue.table.columns)
        raise BadRequest(f"table {queue.table.name} has no column {name}. It has: {known}")
    load, row = row_loader(store.sql(queue)), lease.row
    try:
        return load.get(row, column), 0
    except ColumnNotLoaded:
        pass
    raw = await store.value(lease, column)
    if raw is GONE:
        lease.lost = True
        raise LeaseLost(
            f"row {queue.key_text(lease.key)} of {queue.name} is held by somebody else now: nothing is read"
        )
    value = load.value(column, raw)
    load.put(row, column, value)
    return value, getsizeof(raw)


class Record:
    """A row of a `Table`: columns as attributes or by name. Read only."""

    __slots__ = ("_left_out", "_values")

    def __init__(self, values: dict[str, Any], left_out: frozenset[str] = frozenset()) -> None:
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_left_out", left_out)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            self._check(name)
            raise AttributeError(f"the row has no column {name}") from None

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            self._check(name)
        return self._values[name]

    def _check(self, name: str) -> None:
        if name in self._left_out:
            raise ColumnNotLoaded(name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a claimed row is read only: return the new values from the handler")

    def as_dict(self) -> dict[str, Any]:
        """Return the columns by name, without those that were left out of the claim."""
        return dict(self._values)

    def __repr__(self) -> str:
        return f"<Record {', '.join(self._values)}>"


class UnreadableText(bytes):
    """The bytes of a text column that are not valid UTF-8."""


def read_text(raw: bytes) -> str | UnreadableText:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return UnreadableText(raw)


Attributes = list[tuple[int, str, Callable[[Any], Any] | None]]
"""For each column: its place in a record, its name on the row, and its converter."""


class RowLoader:
    """Builds rows of one queue from records, in the order of the columns that a claim reads. Rows of a queue on an ORM
    class are built by `store.orm_rows`."""

    def __init__(self, sql: QueueSql) -> None:
        self._sql = sql
        self.queue = queue = sql.queue
        self.columns = list(queue.claimed)
        self.readers = [sql.reader(column) for column in self.columns]
        places = {column.name: place for place, column in enumerate(self.columns)}
        self.key_places = [(places[column.name], sql.reader(column)) for column in queue.key]
        self.attempts_place = places[queue.columns["attempts"].name]
        own_limit = queue.columns.get("max_attempts")
        self._limit_place = None if own_limit is None else places[own_limit.name]
        self.lease_place = places[queue.columns["lease"].name]
        self._per_place = None if queue.per is None else places[queue.per.name]
        # The key of a record: a scalar, or a tuple for a composite key. A part that can't be read stays as it is: its
        # row is looked at by the handler, and fails alone.
        first, reader = self.key_places[0]
        if len(self.key_places) == 1 and reader is None:
            self.key: Callable[[Sequence[Any]], Any] = itemgetter(first)
        else:
            self.key = self._read_key

    def _read_key(self, record: Sequence[Any]) -> Any:
        return self.key_of([record[place] for place, _ in self.key_places])

    def per(self, record: Sequence[Any]) -> Any:
        """Return the value of the order-per-key column, as the driver gave it."""
        return None if self._per_place is None else record[self._per_place]

    def retry(self, step: Step, record: Sequence[Any]) -> Retry:
        """Return the retry policy of a row: that of the stage, with the row's own limit of attempts if it has one."""
        own = None if self._limit_place is None else record[self._limit_place]
        return step.retry.with_limit(own if isinstance(own, int) else None)

    def with_own_limits(self, leases: list[Lease[Any]]) -> list[Lease[Any]]:
        """Set each claimed row's own limit of attempts, in a queue whose rows have one."""
        if self._limit_place is not None:
            for lease in leases:
                lease.retry = self.retry(lease.step, lease.record)
        return leases

    def key_of(self, raw: Sequence[Any]) -> Any:
        """Return the key, converted from its raw parts."""
        readers = (reader for _, reader in self.key_places)
        parts = [part if reader is None else read_or(reader, part) for part, reader in zip(raw, readers, strict=True)]
        return parts[0] if len(parts) == 1 else tuple(parts)

    def raw_key(self, record: Sequence[Any]) -> tuple[Any, ...]:
        """Return the parts of the key as the driver gave them. Statements use these to name the row: a converted value
        may be spelled differently when it is written again, as a time without fractions on SQLite."""
        return tuple(record[place] for place, _ in self.key_places)

    def __call__(self, record: Sequence[Any]) -> Any:
        return Record(self.values(record, self._attributes), self._left_out)

    @cached_property
    def _attributes(self) -> Attributes:
        places = enumerate(zip(self.columns, self.readers, strict=True))
        return [(place, column.key, reader) for place, (column, reader) in places]

    def values(self, record: Sequence[Any], attributes: Attributes) -> dict[str, Any]:
        """Return the converted values of a record by their names on the row. Raises PermanentError if one can't be
        read."""
        if UnreadableText in map(type, record):
            raise self._unreadable(record, UnicodeError())
        try:
            return {
                name: record[place] if reader is None else reader(record[place]) for place, name, reader in attributes
            }
        except Exception as error:
            raise self._unreadable(record, error) from error

    @cached_property
    def _left_out(self) -> frozenset[str]:
        """The names, on a Record, of the columns that were left out of the claim."""
        return frozenset(column.key for column in self.queue.left_out)

    def value(self, column: "Column[Any]", raw: Any) -> Any:
        """Convert one value that the driver gave."""
        reader = self._sql.reader(column)
        try:
            if isinstance(raw, UnreadableText):
                raise UnicodeError
            return raw if reader is None else reader(raw)
        except Exception as error:
            raise _unreadable(column, error) from error

    def get(self, row: Any, column: "Column[Any]") -> Any:
        """Return a column of a row. Raises ColumnNotLoaded if the row does not have it."""
        return row[column.key]

    def put(self, row: Any, column: "Column[Any]", value: Any) -> None:
        """Set a column that was fetched later on a row, as if it had come with the claim."""
        row._values[column.key] = value

    def _unreadable(self, record: Sequence[Any], error: Exception) -> PermanentError:
        """Return the error for a record that can't be read. It names the column, never the value."""
        for column, reader, value in zip(self.columns, self.readers, record, strict=False):
            failed = object()
            if isinstance(value, UnreadableText) or (reader is not None and read_or(reader, value, failed) is failed):
                return _unreadable(column, error)
        return PermanentError(f"the row can't be read: {type(error).__name__}", code="unreadable")


def row_loader(sql: QueueSql) -> RowLoader:
    """Return the loader for a queue's rows. That of an ORM class is imported for a queue on one only."""
    if sql.queue.mapper is None:
        return RowLoader(sql)
    from rowmill.store.orm_rows import OrmRowLoader

    return OrmRowLoader(sql)


def _unreadable(column: "Column[Any]", error: Exception) -> PermanentError:
    return PermanentError(
        f"column {column.name} can't be read as {column.type!r}: {type(error).__name__}", code="unreadable"
    )


def read_or(reader: Callable[[Any], Any], value: Any, *instead: Any) -> Any:
    """Return the converted value; if it can't be converted, the value itself or what is given instead."""
    try:
        return reader(value)
    except Exception:
        return instead[0] if instead else value
