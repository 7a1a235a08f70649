"""Check a `project_files` table that existed before intake."""

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

import rowmill as rm

TABLE = "project_files"
NUMBERS = ("id", "organization_id", "project_id")
TEXTS = ("filename", "storage_key", "processing_status")
ADVICE = {
    "id": (
        "Pages and endpoints of intake find a file by a whole number. Keep your key in a column of its own, and add a "
        "number: ALTER TABLE project_files RENAME COLUMN id TO external_id; ALTER TABLE project_files ADD COLUMN id "
        "bigint GENERATED ALWAYS AS IDENTITY; then make id the primary key, and external_id UNIQUE"
    ),
    "organization_id": "Map your organizations to whole numbers, and keep your key in a column of its own",
    "project_id": "Map your projects to whole numbers, and keep your key in a column of its own",
    "processing_status": "ALTER TABLE project_files ALTER COLUMN processing_status TYPE text",
}


def check_existing(connection: sa.Connection, columns: Mapping[str, "sa.Column[Any]"]) -> None:
    """Raise SchemaMismatch with everything that must be changed first. Writes nothing."""
    found = {column["name"]: column["type"] for column in sa.inspect(connection).get_columns(TABLE)}
    has_rows = connection.scalar(sa.select(sa.literal(1)).select_from(sa.table(TABLE)).limit(1)) is not None
    problems = [*_of_another_type(found), *(_missing(found, columns) if has_rows else ())]
    if problems:
        told = "".join(f"\n  - {problem}" for problem in problems)
        raise rm.errors.SchemaMismatch(
            f"intake can't work on the table {TABLE} that is there:{told}\n"
            "Or leave the table as it is, and declare it as a queue of your own, with names and keys of any type: "
            f"rowmill adopt {TABLE}"
        )


def _of_another_type(found: Mapping[str, Any]) -> Iterator[str]:
    for name, kind, words in (
        *((name, sa.Integer, "a whole number") for name in NUMBERS),
        *((name, sa.String, "text") for name in TEXTS),
    ):
        there = found.get(name)
        if there is not None and (not isinstance(there, kind) or isinstance(there, sa.Enum)):
            advice = ADVICE.get(name, f"ALTER TABLE {TABLE} ALTER COLUMN {name} TYPE text")
            yield f"column {name} is {there}, and {words} is needed. {advice}"


def _missing(found: Mapping[str, Any], columns: Mapping[str, "sa.Column[Any]"]) -> Iterator[str]:
    """Yield the columns that intake can't fill in for existing rows."""
    for name, column in columns.items():
        if name not in found and not column.nullable and column.server_default is None:
            yield (
                f"column {name} is missing. If yours has another name: ALTER TABLE {TABLE} RENAME COLUMN … TO {name}; "
                f"if you have no such column, add it and fill it in for the rows that are there"
            )
