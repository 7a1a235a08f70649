"""Can the columns of a queue, as a database has them, hold what the engine writes?"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column
from sqlalchemy.dialects.postgresql import DOMAIN
from sqlalchemy.types import NullType, TypeEngine

from rowmill.model.declare import NULLABLE, NUMBERS, TIMES
from rowmill.store.terms import Terms, bare


@dataclass(frozen=True, slots=True)
class ColumnProblem:
    """Why rows could not be claimed or settled, or not be kept apart."""

    code: str
    """As `rowmill doctor` has it."""
    what: str
    fix: str


def column_problems(terms: Terms, role: str, found: "TypeEngine[Any]", *, nullable: bool) -> Iterator[ColumnProblem]:
    """What is wrong with the column of a role, whose type and nullability the database tells."""
    declared = terms.queue.columns[role]
    name = f"column {declared.name} ({role})"
    postgres = terms.dialect.name == "postgresql"
    if role in NULLABLE and not nullable:
        drop = f"{_alter(terms, declared)} DROP NOT NULL"
        yield ColumnProblem(
            "column_not_null",
            f"{name} does not allow NULL, so rows can't be settled",
            drop if postgres else f"map another column: Columns({role}=...)",
        )
    kind = _without_domain(found)
    if isinstance(kind, NullType):
        return  # a type that SQLAlchemy does not know: the database itself refuses what does not fit
    if postgres:
        yield from _on_postgres(terms, role, kind, name)
    elif role == "lease" and isinstance(kind, (sa.String, sa.Float)):
        yield ColumnProblem(
            "column_type", f"{name} is {kind}: tokens are numbers, and come back as something else", "make it a BIGINT"
        )


def _on_postgres(terms: Terms, role: str, kind: "TypeEngine[Any]", name: str) -> Iterator[ColumnProblem]:
    declared = terms.queue.columns[role]
    wanted, alter = bare(declared, terms.dialect), _alter(terms, declared)
    if role in TIMES:
        if isinstance(wanted, sa.DateTime) != isinstance(kind, sa.DateTime) or not isinstance(
            kind, (sa.DateTime, *NUMBERS)
        ):
            fits = isinstance(kind, (sa.DateTime, *NUMBERS))
            yield ColumnProblem(
                "column_type",
                f"{name} is {kind} in the database and {wanted} in your code",
                f"declare it as {kind}" if fits else f"{alter} TYPE {wanted.compile(terms.dialect)} USING ...",
            )
        elif terms.queue.epoch == "ms" and isinstance(kind, sa.Integer) and not isinstance(kind, sa.BigInteger):
            yield ColumnProblem("column_type", f"{name} is {kind}: milliseconds do not fit", f"{alter} TYPE bigint")
    if role == "lease" and not isinstance(kind, sa.BigInteger):
        yield ColumnProblem("column_type", f"{name} is {kind}: tokens do not fit", f"{alter} TYPE bigint")
    if role in ("attempts", "max_attempts") and not isinstance(kind, sa.Integer):
        cast = f"{alter} TYPE integer USING {terms.name(declared)}::int"
        yield ColumnProblem("column_type", f"{name} is {kind}", cast)


def _alter(terms: Terms, column: "Column[Any]") -> str:
    return f"ALTER TABLE {terms.table} ALTER COLUMN {terms.name(column)}"


def _without_domain(kind: "TypeEngine[Any]") -> "TypeEngine[Any]":
    while isinstance(kind, DOMAIN):
        kind = kind.data_type
    return kind
