"""Are the columns of a queue in the database, and can they hold what is written?"""

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


def columns(patient: AuditedQueue) -> Iterator[DoctorFinding]:
    there = patient.look.table.columns
    for column in patient.sql.queue.table.columns:
        if column.name not in there:
            ours = column in patient.sql.queue.columns.values()
            yield patient.finding(
                FindingSeverity.ERROR,
                "column_missing",
                f"table {patient.look.table.name} lacks column {column.name}, so no row can be claimed",
                patient.adopt if ours else f"add column {column.name} with a migration of your own",
            )
    for role, column in patient.sql.queue.columns.items():
        if column.name in there:
            yield from _column(patient, role, column, there[column.name])


def _column(patient: AuditedQueue, role: str, declared: "Column[Any]", found: "Column[Any]") -> Iterator[DoctorFinding]:
    name, alter = found.name, f"ALTER TABLE {patient.sql.table} ALTER COLUMN {patient.sql.name(found)}"
    for problem in column_problems(patient.sql, role, found.type, nullable=bool(found.nullable)):
        fix = patient.adopt if problem.code == "column_not_null" and patient.postgres else problem.fix
        yield patient.finding(FindingSeverity.ERROR, problem.code, problem.what, fix)
    if role == "lease" and _default(found).upper() not in ("", "NULL"):
        drop = f"{alter} DROP DEFAULT"
        yield patient.finding(
            FindingSeverity.WARNING,
            "lease_default",
            f"column {name} (lease) has a default: new rows look as if somebody held them",
            drop if patient.postgres else "make the table anew without it",
        )
    if not patient.postgres:
        return  # SQLite's columns take anything
    wanted, kind = bare(declared, patient.sql.dialect), bare(found, patient.sql.dialect)
    if isinstance(wanted, sa.DateTime) and isinstance(kind, sa.DateTime) and wanted.timezone != kind.timezone:
        yield patient.finding(
            FindingSeverity.WARNING,
            "column_type",
            f"column {name} ({role}) {'has' if kind.timezone else 'has no'} time zone in the database, and "
            f"{'has one' if wanted.timezone else 'none'} in your code: times are off by the session's zone",
            f"declare it as DateTime(timezone={kind.timezone})",
        )
    length = kind.length if isinstance(kind, sa.String) and not isinstance(kind, sa.Enum) else None
    needed = {"error": MESSAGE_LENGTH, "state": max(map(len, texts_of(patient.sql)))}.get(role, 0)
    if length is not None and length < needed:
        yield patient.finding(
            FindingSeverity.WARNING if role == "error" else FindingSeverity.ERROR,
            "column_too_short",
            f"column {name} ({role}) takes {length} characters; {needed} may be written",
            f"{alter} TYPE text",
        )


def key(patient: AuditedQueue) -> Iterator[DoctorFinding]:
    """Does the database keep the key unique, and is it there?"""
    problem = key_problem(patient.connection, patient.sql)
    if problem is not None:
        yield patient.finding(FindingSeverity.ERROR, "key_not_unique", problem.what, problem.fix)
    sql, most = patient.sql, patient.limits.most
    missing = [sql.name(one) for one in sql.queue.key if _may_be_null(patient, one)]
    if missing:
        ready = sql.is_in(sql.queue.vocabulary.all_of(CLAIMABLE))
        without = " OR ".join(f"{name} IS NULL" for name in missing)
        some = f"SELECT 1 FROM {sql.table} WHERE {ready} AND ({without}) LIMIT {most + 1}"
        with index_plans(patient.connection):
            count: int = patient.connection.exec_driver_sql(f"SELECT count(*) FROM ({some}) AS found").scalar_one()
        if count:
            changes = ", ".join(f"ALTER COLUMN {name} SET NOT NULL" for name in missing)
            forbid = f"; then forbid it: ALTER TABLE {sql.table} {changes}"
            yield patient.finding(
                FindingSeverity.ERROR,
                "key_null",
                f"{many(count, most)} ready without a key: no claim can take them, and they are in the way of others",
                f"give them one: UPDATE {sql.table} SET ... WHERE {without}" + (forbid if patient.postgres else ""),
            )


def _may_be_null(patient: AuditedQueue, column: "Column[Any]") -> bool:
    return bool(patient.look.table.columns[column.name].nullable)


def _default(column: "Column[Any]") -> str:
    given = getattr(column.server_default, "arg", "")
    return str(getattr(given, "text", given))


def zones(patient: AuditedQueue) -> Iterator[DoctorFinding]:
    """A timestamp without a zone is UTC to us; a DEFAULT now() writes the zone of the session into it."""
    naive = [
        column.name
        for column in patient.sql.queue.columns.values()
        if isinstance(kind := bare(column, patient.sql.dialect), sa.DateTime) and not kind.timezone
    ]
    if patient.postgres and naive and patient.look.zone not in ("UTC", "Etc/UTC", "GMT"):
        yield patient.finding(
            FindingSeverity.WARNING,
            "naive_times",
            f"{', '.join(naive)} have no time zone and are taken as UTC, but this database writes now() in "
            f"{patient.look.zone}",
            "make them timestamptz, or let every writer write UTC: ALTER DATABASE … SET timezone = 'UTC'",
        )
