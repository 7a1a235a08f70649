"""The SQL of a queue on PostgreSQL, and the parts that its statements share."""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column
from sqlalchemy.dialects.postgresql import CITEXT, INTERVAL
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.engine import Dialect

from rowmill.store.queue_sql import QueueSql, bare

NOW = "statement_timestamp()"

SENT_AS_OWN_TYPE = (
    sa.Integer, sa.Numeric, sa.Float, sa.Boolean, sa.DateTime, sa.Date, sa.Time, INTERVAL, sa.Uuid,
    sa.LargeBinary, sa.JSON,
)  # fmt: skip
"""Types whose values are sent as an array of that type. Others are sent as text and cast on the server."""

PLAIN: Dialect = PGDialect()  # type: ignore[no-untyped-call]
"""PostgreSQL's dialect without a driver, which reads JSON from text."""
FLOAT8, NUMERIC = 701, 1700
"""The server's numbers for these types, by which SQLAlchemy reads them."""


COMPRESSED = "4::bigint"
"""How much larger than its stored form a document or an array is assumed to be. The server knows the full size only of
text and bytes without reading them."""


class PostgresQueueSql(QueueSql):
    """The SQL of one queue on PostgreSQL."""

    nulls_first = " NULLS FIRST"

    @property
    def table(self) -> str:
        return self.preparer.format_table(self.queue.table)

    def parameter(self, place: int) -> str:
        return f"${place}"

    @property
    def lock(self) -> str:
        """The row lock that the UPDATE takes anyway. A stronger one would skip rows to which an open transaction refers
        by a foreign key: they could not be claimed, nor their leases renewed."""
        return "FOR UPDATE" if self.writes_a_key else "FOR NO KEY UPDATE"

    def moment(self, column: "Column[Any]", wait: str | None = None) -> str:
        kind = bare(column, self.dialect)
        if isinstance(kind, sa.DateTime):
            at = NOW if wait is None else f"{NOW} + {wait} * interval '1 second'"
            return at if kind.timezone else f"(({at}) AT TIME ZONE 'UTC')"
        unit = 1000 if self.queue.epoch == "ms" else 1
        seconds = f"extract(epoch FROM {NOW})" + ("" if wait is None else f" + {wait}")
        number = f"({seconds}) * {unit}"
        return f"floor({number})::bigint" if isinstance(kind, sa.Integer) else f"({number})::numeric"

    def shifted(self, column: "Column[Any]", seconds: float) -> str:
        if isinstance(bare(column, self.dialect), sa.DateTime):
            return f"{self.name(column)} + {float(seconds)!r} * interval '1 second'"
        return f"{self.name(column)} + {float(seconds) * (1000 if self.queue.epoch == 'ms' else 1)!r}"

    def attempts_plus(self, n: int) -> str:
        count = f"coalesce({self.attempts}, 0)"
        return f"{count} + {n}" if n > 0 else f"greatest({count} - {-n}, 0)"

    def own_limit(self, own: str, most: int) -> str:
        return f"greatest(coalesce({own}, {most}), 1)"

    def bytes_of(self, column: "Column[Any]", alias: str = "") -> str:
        """Return the size of a value, read from its header, even if it is stored out of line. The cast costs nothing
        for text, and serves a column of another type than declared."""
        value = f"{alias}{self.name(column)}"
        impl = bare(column, self.dialect)
        if is_text(impl) or isinstance(impl, sa.LargeBinary):
            kind = "bytea" if isinstance(impl, sa.LargeBinary) else "text"
            return f"coalesce(octet_length({value}::{kind}), 0)"
        return f"coalesce(pg_column_size({value}), 0) * {COMPRESSED}"

    def weight(self, alias: str = "") -> str:
        """Return the size of a row: whole numbers are added, which is cheaper, then cast to a float, whose sums never
        overflow."""
        return f"(0::bigint + {super().weight(alias)})::float8"

    def type_of(self, column: "Column[Any]") -> str:
        """Return the type in which values of a column are sent."""
        impl = bare(column, self.dialect)
        return str(impl.compile(self.dialect)) if isinstance(impl, SENT_AS_OWN_TYPE) else "text"

    def is_number(self, column: "Column[Any]") -> bool:
        """Return whether a column holds whole numbers that the driver sends and returns as they are."""
        return isinstance(bare(column, self.dialect), sa.Integer)

    def key_type(self, column: "Column[Any]") -> str:
        """Return the type in which a key column is compared, so that its index is used."""
        impl = bare(column, self.dialect)
        if not is_text(impl) or isinstance(impl, CITEXT):
            return str(impl.compile(self.dialect))
        return "bpchar" if isinstance(impl, sa.CHAR) else "text"

    def cast(self, column: "Column[Any]", value: str) -> str:
        """Return a sent value cast to the column's type. Text is left to the assignment: a cast would silently cut it
        to the column's length."""
        impl = bare(column, self.dialect)
        if is_text(impl) or isinstance(impl, SENT_AS_OWN_TYPE):
            return value
        return f"{value}::{impl.compile(self.dialect)}"

    def reader(self, column: "Column[Any]") -> Callable[[Any], Any] | None:
        impl = bare(column, self.dialect)
        while isinstance(impl, sa.ARRAY):
            impl = impl.item_type
        if isinstance(impl, sa.JSON):
            # SQLAlchemy has its asyncpg decode JSON; ours does not, so that a row is decoded when it is looked at.
            return column.type.dialect_impl(PLAIN).result_processor(PLAIN, None)
        number = FLOAT8 if isinstance(impl, sa.Float) else NUMERIC
        return column.type.dialect_impl(self.dialect).result_processor(self.dialect, number)


def is_text(impl: "sa.types.TypeEngine[Any]") -> bool:
    """Return whether a column of this type is text to the server. An enum without a native type is."""
    return isinstance(impl, sa.String) and not (isinstance(impl, sa.Enum) and impl.native_enum)


NUMBERS = "text::bigint"
"""Arrays of whole numbers are sent as text: the driver takes longer to encode them than the server to parse them."""
FENCE = (("g_lease", NUMBERS),)


def free(sql: PostgresQueueSql, fields: list[tuple[str, str]], first: int) -> str:
    """Return a sub-query that locks those of the `given` rows whose lease holds and that nobody else has locked."""
    names = ", ".join([*(name for name, _ in fields), "g_place"])
    return (
        f"(SELECT {names} FROM {given(fields, first)} JOIN {sql.table} AS t "
        f"ON {same_key(sql)} AND t.{sql.lease} = g_lease {sql.lock} OF t SKIP LOCKED) AS free"
    )


# served by: the primary key
def holds_statement(sql: PostgresQueueSql) -> str:
    """Select the leases that still hold, also of rows that others have locked. $1 tokens, then the parts of the
    keys."""
    return (
        f"SELECT g_place FROM {given(fenced(sql), first=1)} JOIN {sql.table} AS t "
        f"ON {same_key(sql)} AND t.{sql.lease} = g_lease"
    )


# served by: the primary key
def lock_statement(sql: PostgresQueueSql) -> str:
    """Lock rows, each only where its lease still holds, until the transaction ends. $1 tokens, then the parts of the
    keys."""
    return f"{holds_statement(sql)} {sql.lock} OF t"


# served by: the primary key
def value_statement(sql: PostgresQueueSql, column: "Column[Any]") -> str:
    """Read a column of a row, only where its lease still holds. $1 its token, then the parts of its key, each in an
    array."""
    return (
        f"SELECT t.{sql.name(column)} FROM {given(fenced(sql), first=1)} JOIN {sql.table} AS t "
        f"ON {same_key(sql)} AND t.{sql.lease} = g_lease"
    )


def fenced(sql: PostgresQueueSql) -> list[tuple[str, str]]:
    return [*FENCE, *key_fields(sql)]


def key_fields(sql: PostgresQueueSql) -> list[tuple[str, str]]:
    """Return the names of the key arrays, each with the type in which it is sent."""
    return [
        (f"g_k{n}", NUMBERS if sql.is_number(column) else sql.type_of(column)) for n, column in enumerate(sql.queue.key)
    ]


def given(fields: list[tuple[str, str]], first: int) -> str:
    """Return arrays as a table, with the place of each row."""
    arrays = ", ".join(f"${place}::{kind}[]" for place, (_, kind) in enumerate(fields, start=first))
    return f"unnest({arrays}) WITH ORDINALITY AS given({', '.join(name for name, _ in fields)}, g_place)"


def given_one(fields: list[tuple[str, str]], first: int) -> str:
    """Return a single row as a table, from values instead of arrays."""
    values = ", ".join(
        f"${place}::{kind.removeprefix('text::')}" for place, (_, kind) in enumerate(fields, start=first)
    )
    return f"(VALUES ({values}, 1::bigint)) AS given({', '.join(name for name, _ in fields)}, g_place)"


def same_key(sql: PostgresQueueSql) -> str:
    return " AND ".join(
        f"t.{sql.name(column)} = {one_of(f'g_k{n}::{sql.key_type(column)}')}" for n, column in enumerate(sql.queue.key)
    )


def one_of(key: str) -> str:
    """Return a comparison that leaves the planner only a look-up by the key. With a plain `=` it may walk the key's
    whole index and search for each row among those given: the best plan for an empty table, which it keeps when the
    table is full."""
    return f"ANY (ARRAY[{key}])"
