"""Steps of a migration."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Table

from rowmill.adopt.table_facts import reflect
from rowmill.store.expressions import as_text

# Values for rows that are there already, written in batches that commit by themselves.


BATCH = 5000
MARK = "\0"
"""Replaces the colons of parameters while the statement's own colons are escaped."""


@dataclass(frozen=True, slots=True)
class Fill:
    """An update of existing rows: `UPDATE table SET sets WHERE where`. `where` must not match a row after its
    update."""

    name: str
    schema: str | None
    sets: str
    where: str
    walk: bool = False
    """True if the rows are many and no index finds them: the batches walk along the primary key. Otherwise an index
    finds the rows, batch by batch, until none is left."""

    def statement(self, table: str) -> str:
        """Return one statement for all rows, for a small table or a transaction."""
        return f"UPDATE {table} SET {self.sets} WHERE {self.where}"


def run(connection: Connection, fill: Fill, batch: int = BATCH) -> Iterator[int]:
    """Update in batches. Yield the number of rows of each batch. The connection commits each statement by itself."""
    table = reflect(connection, fill.name, fill.schema)
    name = connection.dialect.identifier_preparer.format_table(table)
    yield from (
        _walk(connection, fill, table, name, batch) if fill.walk else _drain(connection, fill, table, name, batch)
    )


def _drain(connection: Connection, fill: Fill, table: Table, name: str, batch: int) -> Iterator[int]:
    keys = ", ".join(connection.dialect.identifier_preparer.format_column(key) for key in table.primary_key)
    some = f"SELECT {keys} FROM {name} WHERE {fill.where} LIMIT {batch}"
    # The condition stands in the UPDATE itself as well: a row may have changed since it was picked.
    statement = as_text(f"UPDATE {name} SET {fill.sets} WHERE ({keys}) IN ({some}) AND {fill.where}")
    while changed := connection.execute(statement).rowcount:
        yield changed


def _walk(connection: Connection, fill: Fill, table: Table, name: str, batch: int) -> Iterator[int]:
    keys = list(table.primary_key.columns)
    quoted = ", ".join(connection.dialect.identifier_preparer.format_column(key) for key in keys)
    passed: Any = None
    while True:
        beyond = sa.select(*keys).order_by(*keys).offset(batch - 1).limit(1)
        if passed is not None:
            beyond = beyond.where(sa.tuple_(*keys) > sa.tuple_(*_bound(keys, passed)))
        end = connection.execute(beyond).first()
        statement, given = fill.statement(name), []
        for sign, bound, prefix in ((">", passed, "a"), ("<=", end, "b")):
            if bound is not None:
                marks = ", ".join(MARK + f"{prefix}{n}" for n in range(len(keys)))
                statement += f" AND ({quoted}) {sign} ({marks})"
                given += [
                    sa.bindparam(f"{prefix}{n}", value, key.type)
                    for n, (key, value) in enumerate(zip(keys, bound, strict=True))
                ]
        text = sa.text(statement.replace(":", r"\:").replace(MARK, ":"))
        yield connection.execute(text.bindparams(*given)).rowcount
        if end is None:
            return
        passed = end


def _bound(keys: "list[sa.Column[Any]]", values: Any) -> "list[sa.BindParameter[Any]]":
    return [sa.bindparam(None, value, key.type) for key, value in zip(keys, values, strict=True)]


class StepKind(StrEnum):
    WORD = "word"
    COLUMN = "column"
    OWN = "own tables"
    INDEX = "index"
    TRIGGER = "trigger"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """One step of a migration."""

    part: StepKind
    what: str
    """What is missing, in one line."""
    statements: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    alone: bool = False
    """True if it can't run in a transaction."""
    fill: Fill | None = None


@dataclass(slots=True)
class MigrationPlan:
    """Steps, and obstacles that block them."""

    changes: list[MigrationStep] = field(default_factory=list)
    obstacles: list[str] = field(default_factory=list)
    """What must be done by hand first, each with instructions."""
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.changes or self.obstacles)
