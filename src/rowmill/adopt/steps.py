"""Steps of a migration."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Table

from rowmill.adopt.look import reflect
from rowmill.store.expressions import as_text

# Values for rows that are there already, written in batches that commit by themselves.


BATCH = 5000
MARK = "\0"
"""Stands for the colon of a parameter until the colons of the statement's own are out of the way."""


@dataclass(frozen=True, slots=True)
class Fill:
    """`UPDATE table SET sets WHERE where`, where `where` no longer holds for a row that is filled."""

    name: str
    schema: str | None
    sets: str
    where: str
    walk: bool = False
    """The rows are many, and no index finds them: walk along the primary key. Otherwise they are found by an
    index, a batch at a time, until none is left."""

    def statement(self, table: str) -> str:
        """All at once: for a small table, or a transaction that must hold everything."""
        return f"UPDATE {table} SET {self.sets} WHERE {self.where}"


def run(connection: Connection, fill: Fill, batch: int = BATCH) -> Iterator[int]:
    """Rows changed, batch by batch. The connection commits each statement by itself."""
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
    """One step."""

    part: StepKind
    what: str
    """What is missing, in a line."""
    statements: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    alone: bool = False
    """Can't be part of a transaction."""
    fill: Fill | None = None


@dataclass(slots=True)
class MigrationPlan:
    """Steps, and what stands in their way."""

    changes: list[MigrationStep] = field(default_factory=list)
    obstacles: list[str] = field(default_factory=list)
    """What must be done by hand first, each with how."""
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.changes or self.obstacles)
