"""Are the columns of a queue in the database, and can they hold what is written?"""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column

from rowmill.model.errors import MESSAGE_LENGTH
from rowmill.store.adopt.plan_words import texts_of
from rowmill.store.adopt.roles import NULLABLE, TIME_ROLES
from rowmill.store.doctor.finding import Finding, Patient, Severity
from rowmill.store.terms import bare


def columns(patient: Patient) -> Iterator[Finding]:
    there = patient.look.table.columns
    for column in patient.terms.queue.table.columns:
        if column.name not in there:
            ours = column in patient.terms.queue.columns.values()
            yield patient.finding(
                Severity.ERROR,
                "column_missing",
                f"table {patient.look.table.name} lacks column {column.name}, so no row can be claimed",
                patient.adopt if ours else f"add column {column.name} with a migration of your own",
            )
    for role, column in patient.terms.queue.columns.items():
        if column.name in there:
            yield from _column(patient, role, column, there[column.name])


def _column(patient: Patient, role: str, declared: "Column[Any]", found: "Column[Any]") -> Iterator[Finding]:
    name, alter = found.name, f"ALTER TABLE {patient.terms.table} ALTER COLUMN {patient.terms.name(found)}"
    if role in NULLABLE and not found.nullable:
        yield patient.finding(
            Severity.ERROR,
            "column_not_null",
            f"column {name} ({role}) does not allow NULL, so rows can't be settled",
            patient.adopt if patient.postgres else f"map another column: Columns({role}=...)",
        )
    if not patient.postgres:
        return  # SQLite's columns take anything
    wanted, kind = bare(declared, patient.terms.dialect), bare(found, patient.terms.dialect)
    if role in TIME_ROLES and isinstance(wanted, sa.DateTime) != isinstance(kind, sa.DateTime):
        yield patient.finding(
            Severity.ERROR,
            "column_type",
            f"column {name} ({role}) is {kind} in the database and {wanted} in your code",
            f"declare it as {kind}",
        )
    elif isinstance(wanted, sa.DateTime) and isinstance(kind, sa.DateTime) and wanted.timezone != kind.timezone:
        yield patient.finding(
            Severity.WARNING,
            "column_type",
            f"column {name} ({role}) {'has' if kind.timezone else 'has no'} time zone in the database, and "
            f"{'has one' if wanted.timezone else 'none'} in your code: times are off by the session's zone",
            f"declare it as DateTime(timezone={kind.timezone})",
        )
    if role == "lease" and not isinstance(kind, sa.BigInteger):
        yield patient.finding(
            Severity.ERROR, "column_type", f"column {name} (lease) is {kind}: tokens do not fit", f"{alter} TYPE bigint"
        )
    if role == "attempts" and not isinstance(kind, sa.Integer):
        yield patient.finding(
            Severity.ERROR,
            "column_type",
            f"column {name} (attempts) is {kind}",
            f"{alter} TYPE integer USING {patient.terms.name(found)}::int",
        )
    length = kind.length if isinstance(kind, sa.String) and not isinstance(kind, sa.Enum) else None
    needed = {"error": MESSAGE_LENGTH, "state": max(map(len, texts_of(patient.terms)))}.get(role, 0)
    if length is not None and length < needed:
        yield patient.finding(
            Severity.WARNING if role == "error" else Severity.ERROR,
            "column_too_short",
            f"column {name} ({role}) takes {length} characters; {needed} may be written",
            f"{alter} TYPE text",
        )


def zones(patient: Patient) -> Iterator[Finding]:
    """A timestamp without a zone is UTC to us; a DEFAULT now() writes the zone of the session into it."""
    naive = [
        column.name
        for column in patient.terms.queue.columns.values()
        if isinstance(kind := bare(column, patient.terms.dialect), sa.DateTime) and not kind.timezone
    ]
    if patient.postgres and naive and patient.look.zone not in ("UTC", "Etc/UTC", "GMT"):
        yield patient.finding(
            Severity.WARNING,
            "naive_times",
            f"{', '.join(naive)} have no time zone and are taken as UTC, but this database writes now() in "
            f"{patient.look.zone}",
            "make them timestamptz, or let every writer write UTC: ALTER DATABASE … SET timezone = 'UTC'",
        )
