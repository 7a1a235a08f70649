"""The privileges that each kind of PostgreSQL role needs. Printed as grants; checked when a worker starts.

A file of SQLite has no roles: whoever may write to it may do everything.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Table
from sqlalchemy.sql.compiler import IdentifierPreparer

from rowmill.model.errors import MissingRights
from rowmill.model.queue import READ_ONLY, QueueSpec
from rowmill.store.limits.functions import FUNCTION_NAMES
from rowmill.store.own.schedule_tables import QUEUE
from rowmill.store.own.schema import SCHEMA, own_tables
from rowmill.store.queue_sql import QueueSql


class Purpose(StrEnum):
    """What a role is for."""

    WORKER = "worker"
    """Runs workers, and reads."""
    OPERATOR = "operator"
    """The same, and requeues, cancels and pauses."""
    PRODUCER = "producer"
    """Inserts rows."""


@dataclass(frozen=True, slots=True)
class Privilege:
    """One privilege on one object; on some of its columns, if they are named."""

    verb: str
    kind: str
    """schema, table, sequence, function or database."""
    name: str
    """The name of the object; empty for a schema or a database."""
    schema: str | None = None
    """The schema of the object; None for a table that is declared without one."""
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        listed = f" ({', '.join(self.columns)})" if self.columns else ""
        return f"{self.verb}{listed} on {self.kind} {'.'.join(filter(None, (self.schema, self.name)))}"


LIMITS = own_tables("postgresql").limits

OWN: dict[str, dict[str, tuple[str, ...]]] = {
    "meta": {"SELECT": ()},
    "worker": {"SELECT": (), "INSERT": (), "UPDATE": ("seen_at", "stopped_at", "settle_lag"), "DELETE": ()},
    "attempt": {"SELECT": (), "INSERT": (), "DELETE": ()},
    "receipt": {"SELECT": (), "INSERT": (), "DELETE": ()},
    "throughput": {"SELECT": (), "INSERT": (), "UPDATE": ("rows", "seconds"), "DELETE": ()},
    "pause": {"SELECT": ()},
    "leader": {"SELECT": (), "INSERT": (), "UPDATE": ("worker", "until"), "DELETE": ()},
    "words": {"SELECT": (), "INSERT": (), "DELETE": ()},
    "inbox": {"SELECT": (), "DELETE": ()},
    "schedule": {"SELECT": (), "UPDATE": ("made_to",), "DELETE": ()},
    "tick": {"SELECT": (), "UPDATE": ("state",), "DELETE": ()},
    "reconciliation": {"SELECT": (), "DELETE": ()},
    "finding": {"SELECT": (), "DELETE": ()},
    "limiter": {"SELECT": (), "UPDATE": ("seen",), "DELETE": ()},
    "ticket": {"SELECT": (), "UPDATE": ("until",), "DELETE": ()},
    "spending": {"SELECT": (), "INSERT": (), "UPDATE": ("used", "noted_at"), "DELETE": ()},
    "limit_declaration": {"SELECT": (), "UPDATE": ("seen",), "DELETE": ()},
}
"""What a worker needs on Rowmill's own tables."""
TIMED: dict[str, dict[str, tuple[str, ...]]] = {
    "schedule": {
        "INSERT": (),
        "UPDATE": ("expression", "zone", "missed", "overlap", "declared_at", "kept_at"),
    },
    "tick": {"INSERT": ()},
}
"""What it needs besides to run schedules."""
LIMITED: dict[str, dict[str, tuple[str, ...]]] = {
    "limiter": {
        "INSERT": (),
        "UPDATE": tuple(c.name for c in LIMITS.limiter.columns if not c.primary_key and c.name != "seen"),
    },
    "ticket": {"INSERT": (), "UPDATE": ("slot", "amount", "done")},
    "limit_declaration": {"INSERT": ()},
}
"""What it needs besides for limits. The functions run with the rights of the caller."""
SEQUENCES = ("attempt_id_seq", "worker_id_seq")


def of_worker(queues: Iterable[QueueSql], *, limited: bool = False) -> Iterator[Privilege]:
    """Yield what a worker needs, other than the columns into which its handlers write results."""
    yield Privilege("USAGE", "schema", "", SCHEMA)
    for name, verbs in OWN.items():
        yield from (Privilege(verb, "table", name, SCHEMA, columns) for verb, columns in verbs.items())
    yield from (Privilege("USAGE", "sequence", name, SCHEMA) for name in SEQUENCES)
    if limited:
        yield from of_limits()
    for sql in queues:
        yield from of_queue(sql.queue.table, written(sql))
        yield from of_policies(sql)


def of_policies(sql: QueueSql) -> Iterator[Privilege]:
    """Yield what a worker needs for ticks, which it makes itself, and to delete old rows."""
    if sql.queue.name == QUEUE:
        for name, verbs in TIMED.items():
            yield from (Privilege(verb, "table", name, SCHEMA, columns) for verb, columns in verbs.items())
        yield Privilege("USAGE", "sequence", "tick_id_seq", SCHEMA)
    if sql.queue.retention.ages():
        yield Privilege("DELETE", "table", sql.queue.table.name, sql.queue.table.schema)


def of_limits() -> Iterator[Privilege]:
    """Yield what a worker needs to use limits, and an operator to switch them off and on."""
    for name, verbs in LIMITED.items():
        yield from (Privilege(verb, "table", name, SCHEMA, columns) for verb, columns in verbs.items())
    yield from (Privilege("EXECUTE", "function", name, SCHEMA) for name in FUNCTION_NAMES)


def of_operator() -> Iterator[Privilege]:
    """Yield what an operator needs besides. Pruning is not included: to delete rows is left to the table's owner."""
    yield from (Privilege(verb, "table", "pause", SCHEMA) for verb in ("INSERT", "DELETE"))
    yield Privilege("UPDATE", "table", "schedule", SCHEMA, ("paused_since",))
    yield Privilege("INSERT", "table", "tick", SCHEMA)
    yield Privilege("USAGE", "sequence", "tick_id_seq", SCHEMA)


def of_queue(table: Table, columns: tuple[str, ...]) -> Iterator[Privilege]:
    if table.schema is not None:
        yield Privilege("USAGE", "schema", "", table.schema)
    yield Privilege("SELECT", "table", table.name, table.schema)
    yield Privilege("UPDATE", "table", table.name, table.schema, columns)


def of_producer(connection: Connection, queue: QueueSpec[Any]) -> Iterator[Privilege]:
    """Yield what a role that inserts rows needs. The trigger that wakes workers needs nothing. An ORM reads back the
    key and the queue's columns that the database fills. A serial key needs its sequence; an identity does not."""
    table = queue.table
    filled = (one for one in queue.columns.values() if one.server_default is not None and one.default is None)
    schema = schema_of(connection, table)
    yield Privilege("USAGE", "schema", "", schema)
    yield Privilege("INSERT", "table", table.name, table.schema)
    read = dict.fromkeys(column.name for column in (*table.primary_key, *filled))
    yield Privilege("SELECT", "table", table.name, table.schema, tuple(read))
    for name, of in connection.execute(sa.text(SERIAL), {"schema": schema, "table": table.name}):
        yield Privilege("USAGE", "sequence", name, of)


def written(sql: QueueSql) -> tuple[str, ...]:
    """Return the columns that the engine itself writes."""
    return tuple(column.name for role, column in sql.queue.columns.items() if role not in READ_ONLY)


def writable(sql: QueueSql) -> tuple[str, ...]:
    """Return the columns into which a handler may write results: all but the engine's and those that the database
    computes."""
    computed = {column.name for column in sql.queue.table.columns if column.computed is not None}
    return tuple(name for name in dict.fromkeys(sql.queue.writable.values()) if name not in computed)


def schema_of(connection: Connection, table: Table) -> str:
    """Return the schema of a table that is declared without one; `public` if it does not exist yet."""
    return table.schema or found_in(connection, table) or "public"


def found_in(connection: Connection, table: Table) -> str | None:
    """Return the schema in which a table is found by its bare name. A schema that the role may not use is not
    searched."""
    found: str | None = connection.scalar(sa.text(FOUND), {"table": table.name})
    return found


FOUND = """
SELECT n.nspname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relname = :table AND c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid)
"""
SERIAL = """
SELECT s.relname, sn.nspname FROM pg_class AS t
JOIN pg_namespace AS n ON n.oid = t.relnamespace AND n.nspname = :schema
JOIN pg_depend AS d ON d.refobjid = t.oid AND d.refclassid = 'pg_class'\\:\\:regclass AND d.deptype = 'a'
JOIN pg_class AS s ON s.oid = d.objid AND s.relkind = 'S' JOIN pg_namespace AS sn ON sn.oid = s.relnamespace
WHERE t.relname = :table
"""
LACKING = """
SELECT w.place FROM unnest(CAST(:kinds AS text[]), CAST(:schemas AS text[]), CAST(:names AS text[]),
                           CAST(:columns AS text[]), CAST(:verbs AS text[])) WITH ORDINALITY
       AS w(kind, schema, name, "column", verb, place)
LEFT JOIN pg_namespace AS n ON n.nspname = w.schema
LEFT JOIN pg_class AS c ON c.relname = w.name AND CASE WHEN w.schema IS NULL THEN pg_table_is_visible(c.oid)
                                                       ELSE c.relnamespace = n.oid END
LEFT JOIN pg_proc AS p ON p.proname = w.name AND p.pronamespace = n.oid
LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = w."column"
WHERE NOT CASE w.kind WHEN 'schema' THEN has_schema_privilege(n.oid, w.verb)
                      WHEN 'function' THEN has_function_privilege(p.oid, w.verb)
                      WHEN 'sequence' THEN has_sequence_privilege(c.oid, w.verb)
                      WHEN 'column' THEN has_column_privilege(c.oid, a.attnum, w.verb)
                      ELSE has_table_privilege(c.oid, w.verb) END
ORDER BY w.place
"""
"""Selects the numbers of the privileges that the role lacks. Objects that do not exist are skipped: other checks report
them."""


def lacking(connection: Connection, rights: Iterable[Privilege]) -> list[Privilege]:
    """Return the privileges that the connection's role lacks, with only the columns in question."""
    asked = [(right, column) for right in rights for column in right.columns or ("",)]
    given = {
        "kinds": ["column" if column else right.kind for right, column in asked],
        "schemas": [right.schema for right, _ in asked],
        "names": [right.name for right, _ in asked],
        "columns": [column for _, column in asked],
        "verbs": [right.verb for right, _ in asked],
    }
    found: dict[Privilege, list[str]] = {}
    for place in connection.scalars(sa.text(LACKING), given):
        right, column = asked[place - 1]
        found.setdefault(right, []).append(column)
    return [
        Privilege(right.verb, right.kind, right.name, right.schema, tuple(filter(None, columns)))
        for right, columns in found.items()
    ]


def check(
    connection: Connection, queues: Sequence[QueueSql], results: tuple[str, ...] = (), *, limited: bool = False
) -> None:
    """Raise MissingRights if the role may not do a worker's work: it would claim rows that it can't settle."""
    if connection.dialect.name != "postgresql":
        return
    wanted = [*of_worker(queues, limited=limited)]
    unnamed = [sql.queue.table for sql in queues if sql.queue.table.schema is None]
    if not all(found_in(connection, table) for table in unnamed):
        wanted.append(Privilege("USAGE", "schema", "", "public"))
    if results:
        wanted += [right for sql in queues for right in of_queue(sql.queue.table, results)]
    found = lacking(connection, wanted)
    if found:
        role = connection.scalar(sa.text("SELECT current_user"))
        raise MissingRights(
            f"role {role} may not do what a worker has to: it lacks {'; '.join(map(str, found))}. "
            f"The statements that grant it are printed by: rowmill grants --role {shlex.quote(str(role))}"
        )


def grants(rights: Iterable[Privilege], role: str, preparer: IdentifierPreparer) -> list[str]:
    """Return GRANT statements, one for each object."""
    things: dict[tuple[str, str | None, str], list[Privilege]] = {}
    for right in rights:
        same = things.setdefault((right.kind, right.schema, right.name), [])
        if right not in same:
            same.append(right)
    found = []
    for (kind, schema, name), each in things.items():
        verbs = ", ".join(_verb(right, preparer) for right in each)
        path = ".".join(preparer.quote(part) for part in (schema, name) if part)
        found.append(f"GRANT {verbs} ON {kind.upper()} {path} TO {preparer.quote(role)}")
    return found


def _verb(right: Privilege, preparer: IdentifierPreparer) -> str:
    return f"{right.verb} ({', '.join(map(preparer.quote, right.columns))})" if right.columns else right.verb
