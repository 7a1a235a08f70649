"""A bounded look at a table: its shape, about how many rows, which words its states use. Quick on ten million rows."""

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection, MetaData, Table
from sqlalchemy.exc import DBAPIError, NoSuchTableError, SAWarning

from rowmill.adopt import known_names
from rowmill.model.errors import UnknownQueue
from rowmill.store.indexes import PREFIX
from rowmill.store.own import schema

BIG = 10_000
"""Rows from which on a table is changed without locking it for long."""
ALL = 100_000
"""Up to here every row is looked at; above it, SAMPLE rows from each end."""
SAMPLE = 20_000
MANY_WORDS = 60
"""A column with more different values than this holds no states."""


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """The values of one column, with how often they were seen."""

    counts: dict[Any, int]
    complete: bool
    """Were all rows looked at? If not, the counts are those of a sample."""

    @property
    def known(self) -> list[Any]:
        return [word for word in self.counts if word is not None]


@dataclass(slots=True)
class TableFacts:
    """What was found."""

    table: Table
    """As the database has it."""
    rows: int
    exact: bool
    checks: list[tuple[str | None, str]] = field(default_factory=list)
    """(name, condition) of each CHECK."""
    partitioned: bool = False
    is_table: bool = True
    zone: str = "UTC"
    """The time zone in which the database writes a time without one."""
    own_version: int | None = None
    elsewhere: bool = False
    """The plan is for other databases as well: it may not depend on the rows of this one."""
    indexes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def adopted(self) -> bool:
        """Was it made a queue before, or begun to be?"""
        names = [*(index["name"] or "" for index in self.indexes), *(index.name for index in self.table.indexes)]
        return any(str(name).startswith(PREFIX) for name in names) or any(
            isinstance(self.table.columns[f"{prefix}lease"].type, sa.BigInteger)
            for prefix in ("", *known_names.PREFIXES)
            if {f"{prefix}lease", "leased_until"} <= set(self.table.columns.keys())
        )

    def own_names(self, role: str) -> list[str]:
        """What an earlier adoption called a column that it added."""
        given = [prefix + role for prefix in known_names.PREFIXES]
        return [*given, role] if self.adopted else given

    def is_indexed_first(self, column: str) -> bool:
        """Does an index begin with this column, or hold only rows with some of its values? So do those of queues."""
        for index in self.indexes:
            if index["column_names"][:1] == [column]:
                return True
            options = index.get("dialect_options") or {}
            where = str(options.get("postgresql_where", options.get("sqlite_where", "")))
            if re.search(rf"(?<![\w]){re.escape(column)}(?![\w])", where):
                return True
        return False

    @property
    def big(self) -> bool:
        return self.rows > BIG or self.elsewhere

    @property
    def empty(self) -> bool:
        return self.rows == 0 and not self.elsewhere


@contextmanager
def quiet() -> Iterator[None]:
    """Reflection warns of what it can't tell (indexes on expressions, unknown types): no concern of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)
        yield


def reflect(connection: Connection, name: str, schema_name: str | None) -> Table:
    with quiet():
        return Table(name, MetaData(), schema=schema_name, autoload_with=connection, resolve_fks=False)


def find_table(connection: Connection, name: str) -> Table:
    """The table of that name: as it stands, or as schema.table; either part may be in double quotes."""
    tried: list[tuple[str, str | None]] = [(name, None)]
    parts = re.fullmatch(r'(?:("(?:[^"]|"")+"|[^".]+)\.)?("(?:[^"]|"")+"|[^"]+)', name)
    if parts is not None:
        schema_name, table_name = (part and part.strip('"').replace('""', '"') for part in parts.groups())
        tried.append((str(table_name), schema_name if connection.dialect.name == "postgresql" else None))
    for table_name, schema_name in dict.fromkeys(tried):
        try:
            return reflect(connection, table_name, schema_name)
        except NoSuchTableError:
            continue
    raise UnknownQueue(f"there is no table {name} in this database{_did_you_mean(connection, name)}")


def _did_you_mean(connection: Connection, name: str) -> str:
    inspector = sa.inspect(connection)
    names = inspector.get_table_names()
    if connection.dialect.name == "postgresql":
        for schema_name in inspector.get_schema_names():
            if schema_name not in ("information_schema", inspector.default_schema_name, schema.SCHEMA):
                names += [f"{schema_name}.{table}" for table in inspector.get_table_names(schema=schema_name)]
    own = schema.own_tables(connection.dialect.name).metadata.tables
    shown = [table for table in names if table not in own]
    near = [table for table in shown if name.lower().rsplit(".", 1)[-1] in table.lower()] or shown
    return f". It has: {', '.join(sorted(near)[:20])}" if near else ": it has no tables at all"


def look_at(connection: Connection, table: Table, *, elsewhere: bool = False) -> TableFacts:
    """`table` as reflected from this connection."""
    rows, exact = count(connection, table)
    inspector = sa.inspect(connection)
    with quiet():
        checks = inspector.get_check_constraints(table.name, schema=table.schema)
        indexes = inspector.get_indexes(table.name, schema=table.schema)
    found = TableFacts(table, rows, exact, elsewhere=elsewhere, indexes=[dict(index) for index in indexes])
    found.checks = [(check.get("name"), str(check["sqltext"])) for check in checks]
    found.own_version = schema.version_of(connection)
    if connection.dialect.name == "postgresql":
        name = connection.dialect.identifier_preparer.format_table(table)
        kind = connection.scalar(
            sa.text("SELECT CAST(relkind AS text) FROM pg_class WHERE oid = to_regclass(:name)"), {"name": name}
        )
        found.partitioned, found.is_table = kind == "p", kind in ("r", "p")
        found.zone = str(connection.scalar(sa.text("SELECT current_setting('TimeZone')")))
    else:
        found.is_table = table.name in inspector.get_table_names()
    return found


def count(connection: Connection, table: Table) -> tuple[int, bool]:
    """How many rows, and whether that is exact: above ALL it is the planner's estimate, or "at least"."""
    some = sa.select(sa.literal(1)).select_from(table).limit(ALL + 1).subquery()
    seen: int = connection.scalar(sa.select(sa.func.count()).select_from(some)) or 0
    if seen <= ALL:
        return seen, True
    estimate = 0
    if connection.dialect.name == "postgresql":
        name = connection.dialect.identifier_preparer.format_table(table)
        estimate = int(
            connection.scalar(
                sa.text("SELECT CAST(reltuples AS bigint) FROM pg_class WHERE oid = to_regclass(:name)"),
                {"name": name},
            )
            or 0
        )
    return max(seen, estimate), False


def words_in(connection: Connection, look: TableFacts, column: "Column[Any]") -> ColumnValues:
    """The values of a column. Of a big table: of its first and its last rows, where new work is found, of what the
    planner knows to be common, and, if an index begins with the column, every value there is."""
    if look.exact:
        counted = sa.func.count().label("rows")
        found = sa.select(column, counted).group_by(column).order_by(counted.desc()).limit(MANY_WORDS + 1)
        rows = connection.execute(found).all()
        return ColumnValues({row[0]: row[1] for row in rows}, len(rows) <= MANY_WORDS)
    seen: Counter[Any] = Counter()
    for sample in samples(look.table, [column]):
        seen.update(row[0] for row in connection.execute(sample))
    for word in [*_in_index(connection, look, column), *_common(connection, look, column)]:
        seen.setdefault(word, 0)
    return ColumnValues(dict(seen.most_common(MANY_WORDS + 1)), False)


def samples(
    table: Table, columns: "list[Column[Any]]", where: Any = None, most: int = SAMPLE
) -> "list[sa.Select[Any]]":
    """Rows of both ends of a table, bounded: the condition is asked of them, not of the whole table."""
    keys = list(table.primary_key.columns)
    ends = [sa.select(table).limit(most)]
    if keys:
        ends.append(sa.select(table).order_by(*(key.desc() for key in keys)).limit(most))
    found = []
    for end in ends:
        rows = end.subquery()
        wanted = sa.select(*(rows.c[column.key] for column in columns))
        found.append(wanted if where is None else wanted.where(where(rows)))
    return found


def _in_index(connection: Connection, look: TableFacts, column: "Column[Any]") -> list[Any]:
    """Every value, one descent each, where an index begins with this column; else none."""
    leads = any(
        index["column_names"][:1] == [column.name] and not (index.get("dialect_options") or {}).get("postgresql_where")
        for index in look.indexes
    )
    if not leads or connection.dialect.name != "postgresql":
        return []
    values: list[Any] = []
    following = sa.select(column).where(column.is_not(None)).order_by(column).limit(1)
    while len(values) <= MANY_WORDS:
        wanted = following.where(column > values[-1]) if values else following
        value = connection.scalar(wanted)
        if value is None:
            break
        values.append(value)
    return values


def _common(connection: Connection, look: TableFacts, column: "Column[Any]") -> list[Any]:
    """The values that the planner's statistics name."""
    if connection.dialect.name != "postgresql":
        return []
    try:
        with connection.begin_nested():
            found = connection.scalar(
                sa.text(
                    "SELECT CAST(CAST(most_common_vals AS text) AS text[]) FROM pg_stats WHERE tablename = :table "
                    "AND attname = :column AND schemaname = coalesce(:schema, current_schema())"
                ),
                {"table": look.table.name, "column": column.name, "schema": look.table.schema},
            )
    except DBAPIError:
        return []
    if not found or len(found) > MANY_WORDS:
        return []
    return [int(word) if isinstance(column.type, sa.Integer) else word for word in found]
