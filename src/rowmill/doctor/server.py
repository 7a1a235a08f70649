"""Checks of the server or the file, which affect all queues."""

from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.doctor.finding import DoctorFinding, FindingSeverity, Thresholds
from rowmill.model.batch_size import MOST as BATCH
from rowmill.model.limits import strictest
from rowmill.operator.activity import workers
from rowmill.store.limits import declarations
from rowmill.store.own import schema

NETWORK = ("nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "fuse.sshfs")


def limits_declared(connection: Connection) -> Iterator[DoctorFinding]:
    """Find limits that live processes declare differently."""
    for name, ways in declarations.living(connection).items():
        if len(ways) > 1:
            yield DoctorFinding(
                FindingSeverity.WARNING,
                "limit_differs",
                f"limit {name} is declared in {len(ways)} ways by living processes ({'; '.join(map(str, ways))}): the "
                f"strictest holds, {strictest(ways)}",
                "let all processes declare it alike; it ends half a minute after the last one that differs has stopped",
            )


def version(connection: Connection) -> Iterator[DoctorFinding]:
    found = schema.version_of(connection)
    if found is None:
        yield DoctorFinding(
            FindingSeverity.ERROR,
            "schema_missing",
            "this database has no tables of Rowmill's: no worker starts",
            "rowmill migrate",
        )
    elif found < schema.VERSION:
        yield DoctorFinding(
            FindingSeverity.ERROR,
            "schema_old",
            f"Rowmill's tables are at version {found}, this code needs {schema.VERSION}: no worker starts",
            "rowmill migrate",
        )
    elif found > schema.VERSION:
        yield DoctorFinding(
            FindingSeverity.ERROR,
            "schema_new",
            f"Rowmill's tables are at version {found}, this code knows only {schema.VERSION}: no worker starts",
            "install a newer rowmill",
        )


def writable(connection: Connection) -> Iterator[DoctorFinding]:
    if connection.scalar(sa.text("SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool")):
        yield DoctorFinding(
            FindingSeverity.ERROR,
            "read_only",
            "this database is read-only: a standby, or set so",
            "use the URL of the primary",
        )


def search_path(connection: Connection) -> Iterator[DoctorFinding]:
    """Find a role named rowmill, whose search path starts with the schema of that name."""
    if connection.scalar(sa.text("SELECT current_schema()")) == schema.SCHEMA:
        yield DoctorFinding(
            FindingSeverity.WARNING,
            "schema_first",
            "names without a schema mean Rowmill's own first: new tables of yours land among them, and a table of "
            "yours called worker or attempt is taken for ours",
            "ALTER ROLE … SET search_path = public, or connect as another role than rowmill",
        )


# Only of this database: one of another holds back nothing here but the catalogs that they share.
HORIZON = """
SELECT pid, coalesce(application_name, '') AS application, state,
       extract(epoch FROM clock_timestamp() - xact_start) AS seconds
FROM pg_stat_activity
WHERE xact_start < clock_timestamp() - :limit * interval '1 second' AND pid <> pg_backend_pid()
  AND datname = current_database() AND backend_type = 'client backend'
  AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL OR state LIKE 'idle in%')
ORDER BY xact_start LIMIT 10
"""
PREPARED = """
SELECT gid, extract(epoch FROM clock_timestamp() - prepared) AS seconds FROM pg_prepared_xacts
WHERE prepared < clock_timestamp() - :limit * interval '1 second' ORDER BY prepared LIMIT 10
"""
SLOTS = """
SELECT slot_name, active, greatest(age(xmin), age(catalog_xmin)) AS transactions FROM pg_replication_slots
WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL ORDER BY 3 DESC LIMIT 10
"""
PINNED = "nothing that was updated since can be cleaned away, and every queue gets slower"
MANY_TRANSACTIONS = 100_000


def horizon(connection: Connection, limits: Thresholds) -> Iterator[DoctorFinding]:
    """Find sessions that hold back the cleanup of dead row versions."""
    for row in connection.execute(sa.text(HORIZON), {"limit": limits.old_transaction}):
        who = f"process {row.pid} ({row.application or 'unnamed'}, {row.state})"
        yield DoctorFinding(
            FindingSeverity.WARNING,
            "old_transaction",
            f"{who} has a transaction open for {float(row.seconds):.0f} s: {PINNED}",
            f"end it: SELECT pg_terminate_backend({row.pid}); "
            "against the next: ALTER DATABASE … SET idle_in_transaction_session_timeout = '5min'",
        )
    for row in connection.execute(sa.text(PREPARED), {"limit": limits.old_transaction}):
        yield DoctorFinding(
            FindingSeverity.WARNING,
            "prepared_transaction",
            f"a prepared transaction has been waiting for {float(row.seconds):.0f} s: {PINNED}",
            f"ROLLBACK PREPARED '{str(row.gid).replace(chr(39), chr(39) * 2)}', or commit it",
        )
    for row in connection.execute(sa.text(SLOTS)):
        if not row.active or row.transactions > MANY_TRANSACTIONS:
            yield DoctorFinding(
                FindingSeverity.WARNING,
                "replication_slot",
                f"replication slot {row.slot_name} ({'active' if row.active else 'nobody reads it'}) is "
                f"{row.transactions} transactions behind: {PINNED}",
                f"let its reader catch up, or drop it: SELECT pg_drop_replication_slot('{row.slot_name}')",
            )


def vacuum(connection: Connection) -> Iterator[DoctorFinding]:
    if connection.scalar(sa.text("SELECT current_setting('autovacuum')")) == "off":
        yield DoctorFinding(
            FindingSeverity.WARNING,
            "autovacuum_off",
            "autovacuum is off: dead rows of every queue pile up",
            "ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf()",
        )


TIMEOUTS = """
SELECT name, setting::bigint / 1000.0 AS seconds FROM pg_settings
WHERE name IN ('statement_timeout', 'transaction_timeout') AND setting::bigint > 0
"""
SHORT_TIMEOUT = 5.0


def timeouts(connection: Connection) -> Iterator[DoctorFinding]:
    """Find session timeouts that a batch of many rows may exceed. Workers report how long settles take, and use smaller
    statements if the database cuts them off."""
    for row in connection.execute(sa.text(TIMEOUTS)):
        limit = float(row.seconds)
        slow = {
            queue: lag
            for worker in workers(connection)
            for queue, lag in worker.settle_lags.items()
            if lag.cancelled or lag.seconds_per_row * BATCH > limit
        }
        for queue, lag in slow.items():
            yield DoctorFinding(
                FindingSeverity.WARNING,
                "timeout_short",
                f"{row.name} is {limit:g} s, and settling takes about {lag.seconds_per_row * 1000:.0f} ms a row: a "
                f"batch of {BATCH} does not fit. {lag.cancelled} statements were cancelled; batches are down to "
                f"{lag.batch} rows",
                f"make the table's triggers faster, or give the role of the workers more time: "
                f"ALTER ROLE … SET {row.name} = '{max(limit, 60):g}s'",
                queue,
            )
        if not slow and limit < SHORT_TIMEOUT:
            yield DoctorFinding(
                FindingSeverity.INFO,
                "timeout_short",
                f"{row.name} is {limit:g} s for this role. No worker has reported that its statements take longer",
                f"if triggers make settling slow: ALTER ROLE … SET {row.name} = '60s'",
            )


def sqlite_file(connection: Connection, path: str) -> Iterator[DoctorFinding]:
    mode = str(connection.exec_driver_sql("PRAGMA journal_mode").scalar())
    if mode not in ("wal", "memory"):
        yield DoctorFinding(
            FindingSeverity.WARNING,
            "journal_mode",
            f"the journal is in mode {mode}, not WAL: readers and writers wait for each other",
            "PRAGMA journal_mode = WAL, on a local disk",
        )
    yield from network_file(path, _mounts())


def _mounts() -> str:
    file = Path("/proc/mounts")
    return file.read_text(errors="replace") if file.is_file() else ""


def network_file(path: str, mounts: str) -> Iterator[DoctorFinding]:
    """Find a SQLite file on a network file system, where locks are not reliable."""
    place = Path(path).absolute()
    best, kind = "", ""
    for line in mounts.splitlines():
        parts = line.split()
        if len(parts) > 2:
            point = parts[1].replace("\\040", " ")
            if place.is_relative_to(point) and len(point) >= len(best):
                best, kind = point, parts[2]
    if kind in NETWORK:
        yield DoctorFinding(
            FindingSeverity.ERROR,
            "network_file",
            f"the SQLite file lies on a network file system ({kind} at {best}), where its locks do not hold",
            "move it to a local disk, or use PostgreSQL",
        )
