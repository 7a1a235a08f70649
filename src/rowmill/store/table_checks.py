"""Checks before a worker starts that a table in the database is as declared: a migration may have been forgotten."""

import shlex
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Table
from sqlalchemy.dialects.postgresql import DOMAIN
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.exc import NoSuchTableError
from sqlalchemy.types import NullType, TypeEngine

from rowmill.model.declare import NULLABLE, NUMBERS, TIMES
from rowmill.model.errors import DeclarationError, TableMismatch
from rowmill.model.states import Step
from rowmill.store.queue_sql import QueueSql, bare


@dataclass(frozen=True, slots=True)
class ColumnProblem:
    """Why rows could not be claimed, settled or kept apart."""

    code: str
    """The code that `rowmill doctor` shows."""
    what: str
    fix: str


def column_problems(sql: QueueSql, role: str, found: "TypeEngine[Any]", *, nullable: bool) -> Iterator[ColumnProblem]:
    """Yield what is wrong with the column of a role, given its type and nullability in the database."""
    declared = sql.queue.columns[role]
    name = f"column {declared.name} ({role})"
    postgres = sql.dialect.name == "postgresql"
    if role in NULLABLE and not nullable:
        drop = f"{_alter(sql, declared)} DROP NOT NULL"
        yield ColumnProblem(
            "column_not_null",
            f"{name} does not allow NULL, so rows can't be settled",
            drop if postgres else f"map another column: Columns({role}=...)",
        )
    kind = _without_domain(found)
    if isinstance(kind, NullType):
        return  # a type that SQLAlchemy does not know: the database itself refuses what does not fit
    if postgres:
        yield from _types_on_postgres(sql, role, kind, name)
    elif role == "lease" and isinstance(kind, (sa.String, sa.Float)):
        yield ColumnProblem(
            "column_type", f"{name} is {kind}: tokens are numbers, and come back as something else", "make it a BIGINT"
        )


def _types_on_postgres(sql: QueueSql, role: str, kind: "TypeEngine[Any]", name: str) -> Iterator[ColumnProblem]:
    declared = sql.queue.columns[role]
    wanted, alter = bare(declared, sql.dialect), _alter(sql, declared)
    if role in TIMES:
        if isinstance(wanted, sa.DateTime) != isinstance(kind, sa.DateTime) or not isinstance(
            kind, (sa.DateTime, *NUMBERS)
        ):
            fits = isinstance(kind, (sa.DateTime, *NUMBERS))
            yield ColumnProblem(
                "column_type",
                f"{name} is {kind} in the database and {wanted} in your code",
                f"declare it as {kind}" if fits else f"{alter} TYPE {wanted.compile(sql.dialect)} USING ...",
            )
        elif sql.queue.epoch == "ms" and isinstance(kind, sa.Integer) and not isinstance(kind, sa.BigInteger):
            yield ColumnProblem("column_type", f"{name} is {kind}: milliseconds do not fit", f"{alter} TYPE bigint")
    if role == "lease" and not isinstance(kind, sa.BigInteger):
        yield ColumnProblem("column_type", f"{name} is {kind}: tokens do not fit", f"{alter} TYPE bigint")
    if role in ("attempts", "max_attempts") and not isinstance(kind, sa.Integer):
        cast = f"{alter} TYPE integer USING {sql.name(declared)}::int"
        yield ColumnProblem("column_type", f"{name} is {kind}", cast)


def _alter(sql: QueueSql, column: "Column[Any]") -> str:
    return f"ALTER TABLE {sql.table} ALTER COLUMN {sql.name(column)}"


def _without_domain(kind: "TypeEngine[Any]") -> "TypeEngine[Any]":
    while isinstance(kind, DOMAIN):
        kind = kind.data_type
    return kind


@dataclass(frozen=True, slots=True)
class KeyProblem:
    """Why a key may not be unique, and how to make it so."""

    what: str
    fix: str


@dataclass(frozen=True, slots=True)
class Unique:
    """A unique index, or a primary key."""

    name: str
    columns: tuple[str, ...]
    flaw: str = ""
    """Why it does not make the key unique; empty if it does."""
    invalid: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """What kind of relation a table is, and what is unique in it."""

    is_table: bool
    partitioned: bool
    unique: Sequence[Unique]


def key_problem(connection: Connection, sql: QueueSql) -> KeyProblem | None:
    """Return why two rows may have the same key; None if they can't, or if there is no such table."""
    found = (
        _unique_on_postgres(connection, sql) if connection.dialect.name == "postgresql" else _on_sqlite(connection, sql)
    )
    if found is None:
        return None
    table = sql.queue.table.name
    if not found.is_table:
        return KeyProblem(
            f"{table} is a view or a foreign table, in which nothing is unique", "declare the table behind it"
        )
    key = {column.name for column in sql.queue.key}
    # A part of the key that is unique makes the whole unique. A deferred check is one all the same: it comes before
    # the commit, and nobody sees rows that are not committed. Rows with a NULL in the key are found by no statement.
    if any(not one.flaw and set(one.columns) <= key for one in found.unique):
        return None
    return KeyProblem(_what(sql, found, key), _fix(sql, found, key, connection.dialect.name == "postgresql"))


def _what(sql: QueueSql, found: Relation, key: set[str]) -> str:
    names = ", ".join(column.name for column in sql.queue.key)
    text = (
        f"nothing in the database keeps {names} unique in table {sql.queue.table.name}, though it is declared as the "
        "primary key: of two rows that share it, the result of one would be written to the other"
    )
    flawed = [f"index {one.name} {one.flaw}" for one in found.unique if one.flaw and set(one.columns) <= key]
    return f"{text}. {'; '.join(flawed)}" if flawed else text


def _fix(sql: QueueSql, found: Relation, key: set[str], postgres: bool) -> str:
    keys = ", ".join(sql.keys)
    steps = [f"see whether rows share it: SELECT {keys}, count(*) FROM {sql.table} GROUP BY {keys} HAVING count(*) > 1"]
    steps += [f"DROP INDEX CONCURRENTLY {one.name}" for one in found.unique if one.invalid and set(one.columns) <= key]
    if postgres:
        how = "" if found.partitioned else "CONCURRENTLY "
        steps.append(f"CREATE UNIQUE INDEX {how}ON {sql.table} ({keys})")
    else:
        name = sql.quote(f"{sql.queue.table.name}_key")
        steps.append(f"CREATE UNIQUE INDEX {name} ON {sql.table} ({keys})")
    wider = next((one for one in found.unique if not one.flaw and set(one.columns) > key), None)
    other = f". Or declare ({', '.join(wider.columns)}) as the primary key: that is unique" if wider else ""
    return "; then: ".join(steps) + other


CATALOGUE = """
SELECT c.relkind IN ('r', 'p') AS is_table, c.relkind = 'p' AS partitioned,
       CAST(CAST(i.indexrelid AS regclass) AS text) AS name, i.indisvalid AS valid,
       i.indpred IS NOT NULL AS partial, i.indexprs IS NOT NULL AS expressions,
       ARRAY(SELECT CAST(a.attname AS text) FROM generate_series(0, i.indnkeyatts - 1) AS n
             JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[n]) AS columns,
       EXISTS (SELECT 1 FROM generate_series(0, i.indnkeyatts - 1) AS n
               JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[n]
               JOIN pg_collation AS l ON l.oid = a.attcollation
               WHERE NOT l.collisdeterministic AND i.indcollation[n] <> a.attcollation) AS collated
FROM pg_class AS c LEFT JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisunique
WHERE c.oid = to_regclass(:table)
ORDER BY name
"""


def _unique_on_postgres(connection: Connection, sql: QueueSql) -> Relation | None:
    rows = connection.execute(sa.text(CATALOGUE), {"table": sql.table}).all()
    if not rows:
        return None
    unique = []
    for row in rows:
        if row.name is None:
            continue
        flaw = ""
        if not row.valid:
            flaw = "is invalid, because making it failed or is not finished"
        elif row.partial:
            flaw = "holds only some of the rows"
        elif row.expressions:
            flaw = "is on an expression, which may be NULL"
        elif row.collated:
            flaw = "compares texts in another way than the column"
        unique.append(Unique(row.name, tuple(row.columns), flaw, not row.valid))
    return Relation(rows[0].is_table, rows[0].partitioned, unique)


def _on_sqlite(connection: Connection, sql: QueueSql) -> Relation | None:
    name = sql.queue.table.name
    kind = connection.scalar(
        sa.text("SELECT type FROM sqlite_master WHERE type IN ('table', 'view') AND lower(name) = lower(:name)"),
        {"name": name},
    )
    if kind is None:
        return None
    # Names are the same in either case to SQLite: here they are spelled as the queue declares them.
    declared = {column.name.casefold(): column.name for column in sql.queue.table.columns}
    return Relation(kind == "table", False, list(_unique_on_sqlite(connection, name, declared)))


def _unique_on_sqlite(connection: Connection, name: str, declared: dict[str, str]) -> Iterator[Unique]:
    key = connection.scalars(sa.text("SELECT name FROM pragma_table_info(:name) WHERE pk > 0"), {"name": name}).all()
    if key:  # of one INTEGER it has no index: it is the number of the row itself
        yield Unique("its primary key", tuple(declared.get(str(one).casefold(), str(one)) for one in key))
    indexes = sa.text("SELECT name, partial FROM pragma_index_list(:name) WHERE \"unique\" = 1 AND origin <> 'pk'")
    for index in connection.execute(indexes, {"name": name}).all():
        parts = connection.scalars(sa.text("SELECT name FROM pragma_index_info(:name)"), {"name": index.name}).all()
        columns = tuple(declared.get(str(one).casefold(), str(one)) for one in parts if one is not None)
        flaw = "is on an expression, which may be NULL" if None in parts else ""
        yield Unique(index.name, columns, "holds only some of the rows" if index.partial else flaw)


def check_table(connection: Connection, sql: QueueSql) -> None:
    """Raise TableMismatch for a table that is missing, lacks columns, or can't keep the promises of a queue: rows that
    no claim would find, a key that is not unique, a lease that does not fit. Names every problem."""
    queue, table = sql.queue, sql.queue.table
    try:
        columns = sa.inspect(connection).get_columns(table.name, schema_of(connection, table))
    except NoSuchTableError:
        raise TableMismatch(
            queue.name,
            [f"there is no table {table.name} in the database. Create it, or look whether DATABASE_URL is right"],
        ) from None
    there = {column["name"]: column for column in columns}
    problems = lacking(sql, there)
    priority = queue.priority
    if priority is not None and not priority.nullable and _may_be_null(there.get(priority.name)):
        problems.append(
            f"column {priority.name} (priority) may be NULL in the database and is declared NOT NULL: one such row "
            "would keep others from being claimed. Declare it nullable, and a missing one counts as 0; or make it "
            "NOT NULL in the database"
        )
    for role, column in queue.columns.items():
        if column.name in there and role != "created_at":
            found = there[column.name]
            unfit = column_problems(sql, role, found["type"], nullable=found["nullable"])
            problems += [f"{problem.what}. Mend it: {problem.fix}" for problem in unfit]
    key = key_problem(connection, sql)
    if key is not None:
        problems.append(f"{key.what}. Mend it: {key.fix}")
    if problems:
        raise TableMismatch(queue.name, problems)


def missing_columns(connection: Connection, sql: QueueSql) -> list[str]:
    """Return the declared columns that the table lacks, each with the statement that adds it."""
    table = sql.queue.table
    columns = sa.inspect(connection).get_columns(table.name, schema_of(connection, table))
    return lacking(sql, {column["name"] for column in columns})


def lacking(sql: QueueSql, there: Container[str]) -> list[str]:
    table, dialect = sql.queue.table, sql.dialect
    of_queue = {column.name for column in sql.queue.columns.values()}
    problems = []
    for column in table.columns:
        if column.name in there:
            continue
        if column.name in of_queue:
            advice = f"Run: rowmill adopt {shlex.quote(sql.queue.name)} --apply"
        else:
            column_sql = str(sa.schema.CreateColumn(column).compile(dialect=dialect)).strip()
            advice = f"Add it with a migration of yours, as: ALTER TABLE {sql.table} ADD COLUMN {column_sql}"
        problems.append(f"table {table.name} lacks column {column.name} in the database. {advice}")
    return problems


def _may_be_null(column: ReflectedColumn | None) -> bool:
    return column is not None and column["nullable"]


def claim_refused(sql: QueueSql, step: Step, reason: str) -> DeclarationError:
    """Return the error for a table that does not let a row be claimed. Nobody can work on it until that is fixed."""
    queue = sql.queue
    return DeclarationError(
        queue.name,
        [
            f"a claim writes {sql.word(step.running[0])} into column {queue.columns['state'].name} of table "
            f"{queue.table.name}, and the table refuses it: {reason}. Is there a constraint or a trigger against it?"
        ],
    )


def lease_changed(sql: QueueSql) -> DeclarationError:
    """Return the error for a claimed row that came back with another lease than was written: two workers could hold
    it."""
    queue = sql.queue
    return DeclarationError(
        queue.name,
        [
            f"a claim writes a token of its own into column {queue.columns['lease'].name} of table {queue.table.name}, "
            "and the table keeps something else: is there a trigger that writes to it? The token is what keeps a "
            "worker from writing to a row that another one holds. Take the column out of the trigger"
        ],
    )


def has_table(connection: Connection, table: Table) -> bool:
    return sa.inspect(connection).has_table(table.name, schema=schema_of(connection, table))


def make_schema(connection: Connection, table: Table) -> None:
    """Create the table's schema if it is missing. Checks first: CREATE … IF NOT EXISTS needs the right to create one
    even where it exists."""
    name = schema_of(connection, table)
    if name is not None and not sa.inspect(connection).has_schema(name):
        connection.execute(sa.schema.CreateSchema(name, if_not_exists=True))


def schema_of(connection: Connection, table: Table) -> str | None:
    """Return the schema of a table; None on SQLite, which has none."""
    return table.schema if connection.dialect.name == "postgresql" else None
