"""A bounded examination of a table: its shape, approximate row count, and state words. Fast on ten million rows."""

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection, MetaData, Table
from sqlalchemy.dialects.postgresql import DOMAIN
from sqlalchemy.exc import DBAPIError, NoSuchTableError, SAWarning

from rowmill.adopt import known_names
from rowmill.model.errors import UnknownQueue
from rowmill.model.queue import REQUIRED
from rowmill.store.indexes import PREFIX
from rowmill.store.own import schema

BIG = 10_000
"""Row count from which a table is changed without a long lock."""
ALL = 100_000
"""Up to this count, all rows are read; above it, SAMPLE rows from each end."""
SAMPLE = 20_000
MANY_WORDS = 60
"""A column with more distinct values than this holds no states."""
FIRST_LOOK = 200
DOMAINS = "rowmill_domains"
"""Key in `Column.info` of the domains of a column."""
RETYPED = "rowmill_retyped"
"""Key in `Column.info` that marks a column whose type comes from its values, not from the database."""
LONGEST_WORD = 100
"""Most characters in a word for a state."""


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """Distinct values of a column with their counts."""

    counts: dict[Any, int]
    complete: bool
    """True if all rows were read; otherwise the counts come from a sample."""

    @property
    def known(self) -> list[Any]:
        return [word for word in self.counts if word is not None]


@dataclass(slots=True)
class TableFacts:
    """What is known about a table."""

    table: Table
    """The table as reflected from the database."""
    rows: int
    exact: bool
    checks: list[tuple[str | None, str]] = field(default_factory=list)
    """(name, condition) of each CHECK constraint."""
    partitioned: bool = False
    children: list[str] = field(default_factory=list)
    """Tables that inherit from this one, except partitions."""
    bound: frozenset[str] = frozenset()
    """Columns whose type can't be changed, because a view, rule, policy, trigger or generated column refers to them."""
    is_table: bool = True
    zone: str = "UTC"
    """The time zone in which the database writes times without a zone."""
    own_version: int | None = None
    elsewhere: bool = False
    """True if the plan is also for other databases: it must not depend on the rows of this one."""
    indexes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def adopted(self) -> bool:
        """Whether the table was adopted before, completely or partly."""
        names = [*(index["name"] or "" for index in self.indexes), *(index.name for index in self.table.indexes)]
        return any(str(name).startswith(PREFIX) for name in names) or any(
            isinstance(self.table.columns[f"{prefix}lease"].type, sa.BigInteger)
            for prefix in ("", *known_names.PREFIXES)
            if {f"{prefix}lease", "leased_until"} <= set(self.table.columns.keys())
        )

    def own_names(self, role: str) -> list[str]:
        """Return the names that an earlier adoption may have given to a column for this role."""
        if role not in REQUIRED:
            return []
        given = [prefix + role for prefix in known_names.PREFIXES]
        theirs = role == "state" and not self._is_own_state(role)
        return [*given, role] if self.adopted and not theirs else given

    def _is_own_state(self, name: str) -> bool:
        """Return whether an earlier adoption added this column as the state. A column of that name may describe
        something else. The queue's indexes name its state; without indexes, the default shows it, since an added state
        column always has one."""
        own = [index for index in self.indexes if str(index["name"]).startswith(PREFIX)]
        if own:
            return any(named_in(_condition(index), name) for index in own)
        column = self.table.columns.get(name)
        return column is not None and column.server_default is not None

    def is_indexed_first(self, column: str) -> bool:
        """Return whether an index begins with this column or has it in its condition, as indexes of queues do."""
        return bool(self.index_conditions(column)) or any(
            index["column_names"][:1] == [column] for index in self.indexes
        )

    def index_conditions(self, column: str) -> list[str]:
        """Return the conditions of partial indexes that name this column."""
        return [where for index in self.indexes if named_in(where := _condition(index), column)]

    def is_indexed_beside(self, column: str, other: str) -> bool:
        """Return whether an index has this column after the other one, or is partial by the other one."""
        return any(
            column in index["column_names"]
            and (index["column_names"][0] == other or named_in(_condition(index), other))
            for index in self.indexes
        )

    @property
    def big(self) -> bool:
        return self.rows > BIG or self.elsewhere

    @property
    def empty(self) -> bool:
        return self.rows == 0 and not self.elsewhere


BOUND = """
SELECT DISTINCT CAST(a.attname AS text)
FROM pg_depend AS d JOIN pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
LEFT JOIN pg_attrdef AS def ON d.classid = CAST('pg_attrdef' AS regclass) AND def.oid = d.objid
WHERE d.refclassid = CAST('pg_class' AS regclass) AND d.refobjid = to_regclass(:name) AND d.refobjsubid > 0
  AND (d.classid IN (CAST('pg_rewrite' AS regclass), CAST('pg_policy' AS regclass), CAST('pg_trigger' AS regclass))
       OR def.adnum <> a.attnum
       OR (d.classid = CAST('pg_class' AS regclass) AND d.objid = d.refobjid AND d.objsubid NOT IN (0, a.attnum)))
"""


def _condition(index: dict[str, Any]) -> str:
    options = index.get("dialect_options") or {}
    return str(options.get("postgresql_where", options.get("sqlite_where", "")))


def named_in(condition: str, column: str) -> bool:
    """Return whether an SQL condition names this column."""
    return re.search(rf"(?<![\w]){re.escape(column)}(?![\w])", condition) is not None


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings of reflection about what it can't represent: indexes on expressions, unknown types."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)
        yield


def reflect(connection: Connection, name: str, schema_name: str | None) -> Table:
    """Reflect a table from the database. Domains become their base types."""
    with quiet():
        table = Table(name, MetaData(), schema=schema_name, autoload_with=connection, resolve_fks=False)
    for column in table.columns:
        while isinstance(column.type, DOMAIN):
            column.info.setdefault(DOMAINS, []).append(column.type)
            column.type = column.type.data_type
        if connection.dialect.name == "sqlite" and isinstance(column.type, (sa.NUMERIC, sa.types.NullType)):
            _take_as_text(connection, column)
    return table


def _take_as_text(connection: Connection, column: "Column[Any]") -> None:
    """Determine the type of a SQLite column from its values. SQLite accepts any type name, or none."""
    value = sa.type_coerce(column, sa.types.NullType())
    kinds = sa.select(sa.func.typeof(value).label("kind")).where(value.is_not(None)).limit(FIRST_LOOK).subquery()
    if set(connection.scalars(sa.select(kinds.c.kind).distinct())) == {"text"}:
        column.type = sa.Text()
        column.info[RETYPED] = True


def find_table(connection: Connection, name: str) -> Table:
    """Find a table by name or schema.table. Each part may be in double quotes."""
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


def read_facts(connection: Connection, table: Table, *, elsewhere: bool = False) -> TableFacts:
    """Examine `table`, as reflected from this connection."""
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
        found.bound = frozenset(connection.scalars(sa.text(BOUND), {"name": name}))
        if not found.partitioned:
            heirs = sa.text(
                "SELECT CAST(CAST(inhrelid AS regclass) AS text) FROM pg_inherits "
                "WHERE inhparent = to_regclass(:name) ORDER BY 1"
            )
            found.children = list(connection.scalars(heirs, {"name": name}))
        found.zone = str(connection.scalar(sa.text("SELECT current_setting('TimeZone')")))
    else:
        found.is_table = table.name in inspector.get_table_names()
    return found


def count(connection: Connection, table: Table) -> tuple[int, bool]:
    """Count rows, and return whether the count is exact. Above ALL it is the planner's estimate, or a lower bound."""
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


def words_in(connection: Connection, facts: TableFacts, column: "Column[Any]") -> ColumnValues:
    """Return the distinct values of a column. For a big table: from its first and last rows, the planner's most common
    values, and, if an index starts with the column, all values."""
    if facts.exact:
        counted = sa.func.count().label("rows")
        found = sa.select(column, counted).group_by(column).order_by(counted.desc()).limit(MANY_WORDS + 1)
        rows = connection.execute(found).all()
        return ColumnValues({_unpadded(connection, column, row[0]): row[1] for row in rows}, len(rows) <= MANY_WORDS)
    seen: Counter[Any] = Counter()
    for sample in samples(facts.table, [column]):
        seen.update(_unpadded(connection, column, row[0]) for row in connection.execute(sample))
    for word in [*_in_index(connection, facts, column), *_common(connection, facts, column)]:
        seen.setdefault(_unpadded(connection, column, word), 0)
    return ColumnValues(dict(seen.most_common(MANY_WORDS + 1)), False)


def _unpadded(connection: Connection, column: "Column[Any]", word: Any) -> Any:
    """Strip the padding of PostgreSQL's `char(n)`."""
    padded = isinstance(word, str) and isinstance(column.type, sa.CHAR) and connection.dialect.name == "postgresql"
    return word.rstrip(" ") if padded else word


def has_few_words(connection: Connection, facts: TableFacts, column: "Column[Any]") -> bool:
    """Return whether a column may hold states, by a quick look at some values: few and short ones."""
    if isinstance(column.type, sa.Enum):
        return True
    seen: set[Any] = set()
    for sample in samples(facts.table, [column], most=FIRST_LOOK):
        text = sample.subquery().c[column.key]
        seen.update(connection.scalars(sa.select(sa.func.substr(text, 1, LONGEST_WORD + 1))))
    return len(seen) <= MANY_WORDS and all(len(str(word)) <= LONGEST_WORD for word in seen)


def samples(
    table: Table, columns: "list[Column[Any]]", where: Any = None, most: int = SAMPLE
) -> "list[sa.Select[Any]]":
    """Select rows from both ends of a table. The condition applies to these rows only."""
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


def _in_index(connection: Connection, facts: TableFacts, column: "Column[Any]") -> list[Any]:
    """Return all distinct values with one index descent each, if an index starts with this column; otherwise none."""
    leads = any(
        index["column_names"][:1] == [column.name] and not (index.get("dialect_options") or {}).get("postgresql_where")
        for index in facts.indexes
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


def _common(connection: Connection, facts: TableFacts, column: "Column[Any]") -> list[Any]:
    """Return the most common values from the planner's statistics."""
    if connection.dialect.name != "postgresql":
        return []
    try:
        with connection.begin_nested():
            found = connection.scalar(
                sa.text(
                    "SELECT CAST(CAST(most_common_vals AS text) AS text[]) FROM pg_stats WHERE tablename = :table "
                    "AND attname = :column AND schemaname = coalesce(:schema, current_schema())"
                ),
                {"table": facts.table.name, "column": column.name, "schema": facts.table.schema},
            )
    except DBAPIError:
        return []
    if not found or len(found) > MANY_WORDS:
        return []
    return [int(word) if isinstance(column.type, sa.Integer) else word for word in found]
