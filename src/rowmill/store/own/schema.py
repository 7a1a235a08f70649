"""Rowmill's own tables: in schema `rowmill` on PostgreSQL, with the prefix `rowmill_` on SQLite."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Column, Connection, MetaData, Table
from sqlalchemy.engine import Dialect
from sqlalchemy.engine.mock import MockConnection

from rowmill.model.errors import SchemaMismatch
from rowmill.store.limits import tables
from rowmill.store.limits.tables import LimitTables
from rowmill.store.own import SCHEMA as SCHEMA
from rowmill.store.own.reconcile_tables import finding_table, reconciliation_table
from rowmill.store.own.schedule_tables import schedule_table, tick_table
from rowmill.store.postgres.wakeup import WAKE_FUNCTION, WAKE_LOCK, wake_trigger

T = TypeVar("T")
VERSION = 9


@dataclass(frozen=True, slots=True)
class OwnTables:
    """The tables in which the engine keeps what is not on the user's rows."""

    metadata: MetaData
    meta: Table
    worker: Table
    attempt: Table
    receipt: Table
    throughput: Table
    pause: Table
    leader: Table
    words: Table
    inbox: Table
    schedule: Table
    tick: Table
    reconciliation: Table
    finding: Table
    limits: LimitTables
    limit_declaration: Table


def worker_columns() -> list["Column[Any]"]:
    """Return the columns of the table of workers in version 1."""
    moment = sa.DateTime(timezone=True)
    serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return [
        Column("id", serial, primary_key=True, autoincrement=True),
        Column("host", sa.Text, nullable=False),
        Column("pid", sa.Integer, nullable=False),
        Column("queues", sa.Text, nullable=False),
        Column("started_at", moment, nullable=False),
        Column("seen_at", moment, nullable=False),
        Column("stopped_at", moment),
    ]


def attempt_columns(prefix: str) -> list[sa.schema.SchemaItem]:
    """Return the columns and indexes of the history in version 1."""
    moment = sa.DateTime(timezone=True)
    serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return [
        Column("id", serial, primary_key=True, autoincrement=True),
        Column("queue", sa.Text, nullable=False),
        Column("key", sa.Text, nullable=False),
        Column("stage", sa.Text, nullable=False),
        Column("attempt", sa.Integer, nullable=False),
        Column("worker", sa.BigInteger, nullable=False),
        Column("started_at", moment),
        Column("ended_at", moment, nullable=False),
        Column("code", sa.Text, nullable=False),
        Column("message", sa.Text, nullable=False),
        sa.Index(f"{prefix}attempt_row", "queue", "key", "id"),
        sa.Index(f"{prefix}attempt_ended_at", "ended_at"),
    ]


def receipt_columns() -> list["Column[Any]"]:
    """Return the columns of the receipts in version 1."""
    return [
        Column("worker", sa.BigInteger, primary_key=True, autoincrement=False),
        Column("flush", sa.BigInteger, primary_key=True, autoincrement=False),
        Column("queue", sa.Text, nullable=False),
        Column("stage", sa.Text, nullable=False),
        Column("move", sa.Text, nullable=False),
        Column("rows", sa.Integer, nullable=False),
        Column("seconds", sa.Float, nullable=False),
        Column("at", sa.DateTime(timezone=True), nullable=False),
    ]


def numbering(dialect: str, name: str) -> dict[str, Any]:
    """Return the options of a table whose numbers are never given out again. SQLite would give the number of a deleted
    worker to a new one, and tokens are made of it."""
    return {"sqlite_autoincrement": True} if dialect == "sqlite" and name in ("worker", "reconciliation") else {}


@cache
def own_tables(dialect: str) -> OwnTables:
    """Return the tables as this dialect names them."""
    metadata = MetaData(schema=SCHEMA if dialect == "postgresql" else None)
    prefix = "" if dialect == "postgresql" else "rowmill_"
    serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    moment = sa.DateTime(timezone=True)

    def table(name: str, *columns: sa.schema.SchemaItem) -> Table:
        return Table(prefix + name, metadata, *columns, **numbering(dialect, name))

    return OwnTables(
        metadata=metadata,
        meta=table("meta", Column("version", sa.Integer, primary_key=True)),
        worker=table("worker", *worker_columns(), Column("settle_lag", sa.Text)),
        attempt=table("attempt", *attempt_columns(prefix), Column("traceback", sa.Text)),
        receipt=table("receipt", *receipt_columns(), Column("kept", sa.Text)),
        throughput=table(
            "throughput",
            Column("queue", sa.Text, primary_key=True),
            Column("stage", sa.Text, primary_key=True),
            Column("minute", moment, primary_key=True),
            Column("move", sa.Text, primary_key=True),
            Column("rows", sa.BigInteger, nullable=False),
            Column("seconds", sa.Float, nullable=False),
        ),
        pause=table(
            "pause",
            Column("queue", sa.Text, primary_key=True),
            Column("stage", sa.Text, primary_key=True, server_default=""),
            Column("since", moment, nullable=False),
        ),
        leader=table(
            "leader",
            Column("name", sa.Text, primary_key=True),
            Column("worker", sa.BigInteger, nullable=False),
            Column("until", moment, nullable=False),
        ),
        words=table(
            "words",
            Column("table_name", sa.Text, primary_key=True),
            Column("worker", sa.BigInteger, primary_key=True, autoincrement=False),
            Column("queue", sa.Text, nullable=False),
            Column("words", sa.Text, nullable=False),
        ),
        inbox=table(
            "inbox",
            Column("consumer", sa.Text, primary_key=True),
            Column("message_id", sa.Text, primary_key=True),
            Column("received_at", moment, nullable=False),
            Column("expires_at", moment, nullable=False),
            sa.Index(f"{prefix}inbox_expires_at", "expires_at"),
        ),
        schedule=schedule_table(table),
        tick=tick_table(table, dialect),
        reconciliation=reconciliation_table(table, dialect, prefix, serial, moment),
        finding=finding_table(table, dialect, prefix, serial, moment),
        limits=tables.limit_tables(metadata, dialect, prefix),
        limit_declaration=tables.declaration_table(metadata, prefix),
    )


def full_name(table: Table, dialect: str) -> str:
    """Return one name for a table, whether or not a declaration writes out the default schema."""
    return table.name if dialect == "sqlite" else f"{table.schema or 'public'}.{table.name}"


def same_table(one: Table, other: Table, dialect: str) -> bool:
    return full_name(one, dialect) == full_name(other, dialect)


def version_of(connection: Connection) -> int | None:
    """Return the version of Rowmill's tables in this database; None if there are none."""
    own = own_tables(connection.dialect.name)
    if not sa.inspect(connection).has_table(own.meta.name, schema=own.meta.schema):
        return None
    version: int | None = connection.scalar(sa.select(sa.func.max(own.meta.c.version)))
    return version


def check_version(connection: Connection) -> None:
    """Raise SchemaMismatch for a database that this version of Rowmill can't work on."""
    found = version_of(connection)
    if found == VERSION:
        return
    if found is None:
        raise SchemaMismatch("this database has no tables of Rowmill's yet. Run: rowmill migrate")
    if found < VERSION:
        raise SchemaMismatch(
            f"Rowmill's tables are at version {found}, this code needs {VERSION}. Run: rowmill migrate"
        )
    raise SchemaMismatch(
        f"Rowmill's tables are at version {found}, this code knows only {VERSION}. Install a newer rowmill"
    )


def checked(work: Callable[[Connection], T]) -> Callable[[Connection], T]:
    """Return the function with a check of the version before it."""

    def on(connection: Connection) -> T:
        check_version(connection)
        return work(connection)

    return on


def _first(connection: Connection) -> None:
    own = own_tables(connection.dialect.name)
    if connection.dialect.name == "postgresql":
        connection.execute(sa.schema.CreateSchema(SCHEMA, if_not_exists=True))
    own.metadata.create_all(
        connection,
        tables=[own.meta, own.throughput, own.pause, own.leader, own.words],
    )
    prefix = own.attempt.name.removesuffix("attempt")
    for table, columns in (
        (own.worker, worker_columns()),
        (own.receipt, receipt_columns()),
        (own.attempt, attempt_columns(prefix)),
    ):
        options = numbering(connection.dialect.name, table.name.removeprefix(prefix))
        Table(table.name, MetaData(), *columns, schema=table.schema, **options).create(connection)
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(WAKE_FUNCTION.replace(":", r"\:")))


def _inbox(connection: Connection) -> None:
    own_tables(connection.dialect.name).inbox.create(connection)


def _kept(connection: Connection) -> None:
    """Add the column for which verdicts of a batch were written, if not all were."""
    receipt = own_tables(connection.dialect.name).receipt
    connection.execute(sa.text(f"ALTER TABLE {receipt.fullname} ADD COLUMN kept text"))


def _schedules(connection: Connection) -> None:
    own = own_tables(connection.dialect.name)
    own.metadata.create_all(connection, tables=[own.schedule, own.tick])
    if connection.dialect.name == "postgresql":
        for statement in wake_trigger(own.tick, f"{SCHEMA}.tick"):
            connection.execute(sa.text(statement))


def _reconciliation(connection: Connection) -> None:
    own = own_tables(connection.dialect.name)
    own.metadata.create_all(connection, tables=[own.reconciliation, own.finding])


def _limits(connection: Connection) -> None:
    tables.make(connection, own_tables(connection.dialect.name).limits)


def _settle_lag(connection: Connection) -> None:
    """Add the column for what a worker has finished and could not write yet."""
    worker = own_tables(connection.dialect.name).worker
    connection.execute(sa.text(f"ALTER TABLE {worker.fullname} ADD COLUMN settle_lag text"))


def _declarations(connection: Connection) -> None:
    """Add the table of limit declarations, and rebuild the in-order index of ticks with running ones first."""
    own = own_tables(connection.dialect.name)
    own.limit_declaration.create(connection)
    prefix = f"{SCHEMA}." if connection.dialect.name == "postgresql" else ""
    [index] = [index for index in own.tick.indexes if str(index.name).endswith("_in_order")]
    connection.execute(sa.text(f"DROP INDEX IF EXISTS {prefix}{index.name}"))
    connection.execute(sa.schema.CreateIndex(index))


def _tracebacks(connection: Connection) -> None:
    """Add the column for the traceback of a failed attempt."""
    attempt = own_tables(connection.dialect.name).attempt
    connection.execute(sa.text(f"ALTER TABLE {attempt.fullname} ADD COLUMN traceback text"))


MIGRATIONS = {
    1: _first,
    2: _inbox,
    3: _kept,
    4: _schedules,
    5: _reconciliation,
    6: _limits,
    7: _settle_lag,
    8: _declarations,
    9: _tracebacks,
}
"""The step to each version from the one before."""


def statements(dialect: Dialect, found: int) -> list[str]:
    """Return the statements that `migrate` would run on tables of version `found`, as text, to be run elsewhere."""
    recorded: list[str] = []
    kind: Any = type(dialect)
    plain = kind(paramstyle="named")  # with others, percent signs are doubled

    def record(statement: Any, *_: Any, **__: Any) -> None:
        text = str(statement.compile(dialect=plain, compile_kwargs={"literal_binds": True}))
        recorded.append(text.strip())

    connection: Any = MockConnection(plain, record)
    for version in (version for version in MIGRATIONS if version > found):
        MIGRATIONS[version](connection)
        record(own_tables(dialect.name).meta.insert().values(version=version))
    return _in_one_order(recorded)


def _in_one_order(texts: Sequence[str]) -> list[str]:
    """Sort the CREATE INDEX statements of each table. SQLAlchemy emits them in any order, and plans should compare
    equal."""
    found: list[str] = []
    for is_index, group in groupby(texts, lambda text: text.startswith(("CREATE INDEX", "CREATE UNIQUE INDEX"))):
        run = list(group)
        found += sorted(run) if is_index else run
    return found


def migrate(connection: Connection) -> list[int]:
    """Bring Rowmill's own tables to this version; return the steps taken. Safe to run twice, and by two processes at
    once."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({WAKE_LOCK}, 0)"))
    found = version_of(connection) or 0
    if found > VERSION:
        check_version(connection)
    own = own_tables(connection.dialect.name)
    steps = [version for version in MIGRATIONS if version > found]
    for version in steps:
        MIGRATIONS[version](connection)
        connection.execute(own.meta.insert().values(version=version))
    return steps
