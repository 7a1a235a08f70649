"""The SQL of a queue on SQLite, and the statements that several parts of the store send.

Each runs inside BEGIN IMMEDIATE, so nobody else writes meanwhile: what a row lock is on PostgreSQL is the
whole file here. There are no dead index entries either, so no watermark.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column

from rowmill.store.queue_sql import QueueSql, bare

NOW = "strftime('%Y-%m-%d %H:%M:%f000', 'now')"
HISTORY = (
    "INSERT INTO rowmill_attempt (queue, key, stage, attempt, worker, started_at, ended_at, code, message, traceback) "
    f"VALUES (:queue, :key, :stage, :attempt, :worker, :started_at, {NOW}, :code, :message, :traceback)"
)


class SqliteQueueSql(QueueSql):
    """The SQL of one queue on SQLite. A table's schema is left out: SQLite has none."""

    @property
    def table(self) -> str:
        return self.preparer.format_table(self.queue.table, use_schema=False)

    def parameter(self, place: int) -> str:
        return f"?{place}"

    def moment(self, column: "Column[Any]", wait: str | None = None) -> str:
        kind = bare(column, self.dialect)
        if isinstance(kind, sa.DateTime):
            # Six digits, as SQLAlchemy writes them: with three it would read milliseconds as microseconds.
            shift = "" if wait is None else f", ({wait}) || ' seconds'"
            return f"strftime('%Y-%m-%d %H:%M:%f000', 'now'{shift})"
        unit = 1000 if self.queue.epoch == "ms" else 1
        seconds = "(julianday('now') - 2440587.5) * 86400.0" + ("" if wait is None else f" + ({wait})")
        number = f"({seconds}) * {unit}"
        return f"CAST({number} AS INTEGER)" if isinstance(kind, sa.Integer) else f"({number})"

    def shifted(self, column: "Column[Any]", seconds: float) -> str:
        if isinstance(bare(column, self.dialect), sa.DateTime):
            return f"strftime('%Y-%m-%d %H:%M:%f000', {self.name(column)}, '{float(seconds)!r} seconds')"
        return f"{self.name(column)} + {float(seconds) * (1000 if self.queue.epoch == 'ms' else 1)!r}"

    def attempts_plus(self, n: int) -> str:
        count = f"coalesce({self.attempts}, 0)"
        return f"{count} + {n}" if n > 0 else f"max({count} - {-n}, 0)"

    def own_limit(self, own: str, most: int) -> str:
        # A column of SQLite's takes anything: what is no number is no limit.
        return f"CASE WHEN typeof({own}) = 'integer' THEN max({own}, 1) ELSE {most} END"

    def bytes_of(self, column: "Column[Any]", alias: str = "") -> str:
        """Return the size of a value: of bytes from the row's header; a text has to be read."""
        value = f"{alias}{self.name(column)}"
        if not isinstance(bare(column, self.dialect), sa.LargeBinary):
            value = f"CAST({value} AS BLOB)"
        return f"coalesce(length({value}), 0)"

    @property
    def same_key(self) -> str:
        return " AND ".join(f"{key} = :k{n}" for n, key in enumerate(self.keys))


# served by: the primary key
def renew_statement(sql: SqliteQueueSql) -> str:
    """Extend one lease, only where it still holds. Parameters by name: seconds, lease, k0…"""
    return (
        f"UPDATE {sql.table} SET {sql.leased_until} = {sql.later('leased_until', ':seconds')} "
        f"WHERE {sql.same_key} AND {sql.lease} = :lease"
    )


# served by: the primary key
def holds_statement(sql: SqliteQueueSql) -> str:
    """Find one row, only where its lease still holds. Parameters by name: lease, k0…"""
    return f"SELECT 1 FROM {sql.table} WHERE {sql.same_key} AND {sql.lease} = :lease"


# served by: the primary key
def value_statement(sql: SqliteQueueSql, column: "Column[Any]") -> str:
    """Read a column of a row, only where its lease still holds. Parameters by name: lease, k0…"""
    return f"SELECT {sql.name(column)} FROM {sql.table} WHERE {sql.same_key} AND {sql.lease} = :lease"
