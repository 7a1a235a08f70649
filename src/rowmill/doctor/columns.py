"""Checks of columns: do they exist, and can they hold what is written?"""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column

from rowmill.adopt.plan import texts_of
from rowmill.doctor.finding import AuditedQueue, DoctorFinding, FindingSeverity, many
from rowmill.model.errors import MESSAGE_LENGTH
from rowmill.model.lifecycle import CLAIMABLE
from rowmill.store.postgres.session import index_plans
from rowmill.store.queue_sql import bare
from rowmill.store.table_checks import column_problems, key_problem


def columns(audited: AuditedQueue) -> Iterator[DoctorFinding]:
    there = audited.facts.table.columns
    for column in audited.sql.queue.table.columns:
        if column.name not in there:
            ours = column in audited.sql.queue.columns.values()
            yield audited.finding(
                FindingSeverity.ERROR,
                "column_missing",
                f"table {audited.facts.table.name} lacks column {column.name}, so no row can be claimed",
                audited.adopt if ours else f"add column {column.name} with a migration of your own",
            )
    for role, column in audited.sql.queue.columns.items():
        if column.name in there:
            yield from _column(audited, role, column, there[column.name])


def _column(audited: AuditedQueue, role: str, declared: "Column[Any]", found: "Column[Any]") -> Iterator[DoctorFinding]:
    name, alter = found.name, f"ALTER TABLE {audited.sql.table} ALTER COLUMN {audited.sql.name(found)}"
    for problem in column_problems(audited.sql, role, found.type, nullable=bool(found.nullable)):
        fix = audited.adopt if problem.code == "column_not_null" and audited.postgres else problem.fix
        yield audited.finding(FindingSeverity.ERROR, problem.code, problem.what, fix)
    if role == "lease" and _default(found).upper() not in ("", "NULL"):
        drop = f"{alter} DROP DEFAULT"
        yield audited.finding(
            FindingSeverity.WARNING,
            "lease_default",
            f"column {name} (lease) has a default: new rows look as if somebody held them",
            drop if audited.postgres else "make the table anew without it",
        )
    if not audited.postgres:
        return  # SQLite's columns take anything
    wanted, kind = bare(declared, audited.sql.dialect), bare(found, audited.sql.dialect)
    if isinstance(wanted, sa.DateTime) and isinstance(kind, sa.DateTime) and wanted.timezone != kind.timezone:
        yield audited.finding(
            FindingSeverity.WARNING,
            "column_type",
            f"column {name} ({role}) {'has' if kind.timezone else 'has no'} time zone in the database, and "
            f"{'has one' if wanted.timezone else 'none'} in your code: times are off by the session's zone",
            f"declare it as DateTime(timezone={kind.timezone})",
        )
    length = kind.length if isinstance(kind, sa.String) and not isinstance(kind, sa.Enum) else None
    needed = {"error": MESSAGE_LENGTH, "state": max(map(len, texts_of(audited.sql)))}.get(role, 0)
    if length is not None and length < needed:
        yield audited.finding(
            FindingSeverity.WARNING if role == "error" else FindingSeverity.ERROR,
            "column_too_short",
            f"column {name} ({role}) takes {length} characters; {needed} may be written",
            f"{alter} TYPE text",
        )


def key(audited: AuditedQueue) -> Iterator[DoctorFinding]:
    """Check that the key exists and is unique in the database."""
    problem = key_problem(audited.connection, audited.sql)
    if problem is not None:
        yield audited.finding(FindingSeverity.ERROR, "key_not_unique", problem.what, problem.fix)
    sql, most = audited.sql, audited.limits.most
    missing = [sql.name(one) for one in sql.queue.key if _may_be_null(audited, one)]
    if missing:
        ready = sql.is_in(sql.queue.vocabulary.all_of(CLAIMABLE))
        without = " OR ".join(f"{name} IS NULL" for name in missing)
        some = f"SELECT 1 FROM {sql.table} WHERE {ready} AND ({without}) LIMIT {most + 1}"
        with index_plans(audited.connection):
            count: int = audited.connection.exec_driver_sql(f"SELECT count(*) FROM ({some}) AS found").scalar_one()
        if count:
            changes = ", ".join(f"ALTER COLUMN {name} SET NOT NULL" for name in missing)
            forbid = f"; then forbid it: ALTER TABLE {sql.table} {changes}"
            yield audited.finding(
                FindingSeverity.ERROR,
                "key_null",
                f"{many(count, most)} ready without a key: no claim can take them, and they are in the way of others",
                f"give them one: UPDATE {sql.table} SET ... WHERE {without}" + (forbid if audited.postgres else ""),
            )


def _may_be_null(audited: AuditedQueue, column: "Column[Any]") -> bool:
    return bool(audited.facts.table.columns[column.name].nullable)


def _default(column: "Column[Any]") -> str:
    given = getattr(column.server_default, "arg", "")
    return str(getattr(given, "text", given))


def zones(audited: AuditedQueue) -> Iterator[DoctorFinding]:
    """Find timestamps without a zone. Rowmill reads them as UTC, but DEFAULT now() writes the time of the session's
    zone."""
    naive = [
        column.name
        for column in audited.sql.queue.columns.values()
        if isinstance(kind := bare(column, audited.sql.dialect), sa.DateTime) and not kind.timezone
    ]
    if audited.postgres and naive and audited.facts.zone not in ("UTC", "Etc/UTC", "GMT"):
        yield audited.finding(
            FindingSeverity.WARNING,
            "naive_times",
            f"{', '.join(naive)} have no time zone and are taken as UTC, but this database writes now() in "
            f"{audited.facts.zone}",
            "make them timestamptz, or let every writer write UTC: ALTER DATABASE … SET timezone = 'UTC'",
        )
