"""Run all checks."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from rowmill.adopt.guess import AdoptOptions
from rowmill.adopt.table_facts import TableFacts, read_facts, reflect
from rowmill.doctor import columns, connections, indexes, rows, server, unadopted
from rowmill.doctor.finding import AuditedQueue, DoctorFinding, FindingSeverity, Thresholds
from rowmill.doctor.unadopted import AuditedTable, TableGuess, guess_table
from rowmill.model.queue import QueueSpec
from rowmill.store.own import schema
from rowmill.store.port import Store

Check = Callable[[Connection], Iterable[DoctorFinding]]
SECONDS = 10
"""Time limit of one check in seconds: an audit must not burden a database that is in trouble."""

OF_A_TABLE = (
    columns.columns,
    columns.key,
    columns.zones,
    indexes.words_allowed,
    indexes.indexes,
    indexes.trigger,
    indexes.plans,
)
OF_ITS_ROWS = (rows.running, rows.words, rows.never_due, rows.used_up, rows.order)
WITH_OUR_TABLES = (rows.waiting, rows.refused)
RANK = {FindingSeverity.ERROR: 0, FindingSeverity.WARNING: 1, FindingSeverity.INFO: 2}


async def audit(
    store: Store, queues: Sequence[QueueSpec[Any]], limits: Thresholds | None = None
) -> list[DoctorFinding]:
    """Run all checks on an open store. Return the findings, worst first."""
    limits = limits or Thresholds()
    size = connections.pool_size(store.engine)
    found = list(connections.pool(queues, size))
    found += await _made(store, "own tables", server.version)
    ours = not found or all(finding.code not in ("schema_missing", "schema_old", "schema_new") for finding in found)
    if store.dialect.name == "postgresql":
        found += await _on_postgres(store, limits, size, ours=ours)
    else:
        path = store.engine.url.database or ""
        found += await _made(store, "file", lambda connection: server.sqlite_file(connection, path))
    if ours:
        found += await _made(store, "limits", server.limits_declared)
    for queue in queues:
        found += await _queue(store, queue, limits, ours=ours)
    return sorted(found, key=lambda finding: RANK[finding.severity])


def this_machine() -> datetime:
    """Return the time of this machine's clock."""
    return datetime.now(UTC)


async def audit_table(
    store: Store, name: str, choices: AdoptOptions, others: Sequence[str] = (), unique: Sequence[tuple[str, ...]] = (),
    limits: Thresholds | None = None,
) -> tuple[TableGuess, list[DoctorFinding]]:  # fmt: skip
    """Audit a table that no application declares. Return the guess about it, and the findings, worst first."""
    chosen = limits or Thresholds()
    guess = await store.run(lambda connection: guess_table(connection, name, choices, others, unique), write=False)
    found = await _made(store, "clocks", lambda connection: unadopted.clock(connection, chosen, this_machine))
    if store.dialect.name == "postgresql":
        found += await _made(store, "xmin horizon", lambda connection: server.horizon(connection, chosen))
        found += await _made(store, "autovacuum", server.vacuum)

    def examined(check: Callable[[AuditedTable], Iterable[DoctorFinding]]) -> Check:
        return lambda connection: check(AuditedTable(AuditedQueue(connection, guess.sql, guess.facts, chosen), guess))

    for check in unadopted.CHECKS:
        found += await _made(store, f"{check.__name__} of {guess.table}", examined(check), guess.sql.queue.name)
    return guess, sorted(found, key=lambda finding: RANK[finding.severity])


async def _on_postgres(store: Store, limits: Thresholds, size: int | None, *, ours: bool) -> list[DoctorFinding]:
    found = await _made(store, "writable", server.writable)
    found += await _made(store, "search path", server.search_path)
    found += await _made(store, "xmin horizon", lambda connection: server.horizon(connection, limits))
    found += await _made(store, "autovacuum", server.vacuum)
    if ours:
        found += await _made(store, "time-outs", server.timeouts)
        found += await _made(store, "connections", lambda connection: connections.server_limit(connection, size))
    try:
        async with asyncio.timeout(3 * SECONDS):
            if store.pooled is not None:
                found += await connections.pooled(store)
            found += await connections.pooler(store.engine.url)
    except (OSError, TimeoutError, connections.ServerRefused) as error:
        found.append(_not_made("LISTEN", error))
    return found


async def _queue(store: Store, queue: QueueSpec[Any], limits: Thresholds, *, ours: bool) -> list[DoctorFinding]:
    sql = store.sql(queue)
    schema_name = queue.table.schema if store.dialect.name == "postgresql" else None

    looks: list[TableFacts] = []

    def there(connection: Connection) -> Iterator[DoctorFinding]:
        if not sa.inspect(connection).has_table(queue.table.name, schema=schema_name):
            yield DoctorFinding(
                FindingSeverity.ERROR,
                "table_missing",
                f"this database has no table {schema.full_name(queue.table, store.dialect.name)}",
                "create it with your own migrations, or with: rowmill migrate --tables",
                queue.name,
            )
        else:
            looks.append(read_facts(connection, reflect(connection, queue.table.name, schema_name)))

    found = await _made(store, f"table of {queue.name}", there, queue.name)
    if found:
        return found

    def examined(check: Callable[[AuditedQueue], Iterable[DoctorFinding]]) -> Check:
        return lambda connection: check(AuditedQueue(connection, sql, looks[0], limits))

    for check in OF_A_TABLE:
        found += await _made(store, f"{check.__name__} of {queue.name}", examined(check), queue.name)
        if any(finding.code == "column_missing" for finding in found):
            return found
    for check in (*OF_ITS_ROWS, *(WITH_OUR_TABLES if ours else ())):
        found += await _made(store, f"{check.__name__} of {queue.name}", examined(check), queue.name)
    return found


async def _made(store: Store, name: str, check: Check, queue: str | None = None) -> list[DoctorFinding]:
    """Run one check in its own transaction. A check that fails becomes a finding too."""

    def work(connection: Connection) -> list[DoctorFinding]:
        if connection.dialect.name == "postgresql" and check is not server.timeouts:
            connection.execute(sa.text(f"SET LOCAL statement_timeout = '{SECONDS}s'"))
        return list(check(connection))

    try:
        return await store.run(work)
    except DBAPIError as error:
        return [_not_made(name, error.orig or error, queue)]


def _not_made(name: str, error: BaseException, queue: str | None = None) -> DoctorFinding:
    state = getattr(error, "sqlstate", None) or getattr(error, "sqlite_errorname", None) or type(error).__name__
    return DoctorFinding(
        FindingSeverity.WARNING,
        "check_failed",
        f"{name}: could not be looked at ({state})",
        "try again; if it stays, the role may lack rights (pg_read_all_stats), or the table is too slow to look at",
        queue,
    )
