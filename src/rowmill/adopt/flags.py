"""States of a table without a state column: from flags, from times that are set, or from the caller's conditions."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection
from sqlalchemy.exc import DBAPIError

from rowmill.adopt import known_names
from rowmill.adopt.apply import database_message
from rowmill.adopt.evidence import FIRST, StateCondition
from rowmill.adopt.guess import AdoptOptions
from rowmill.adopt.table_facts import TableFacts
from rowmill.adopt.times import kind_of_time, values_of
from rowmill.model.declare import NUMBERS
from rowmill.model.errors import BadRequest
from rowmill.model.lifecycle import StateKind
from rowmill.store import expressions


@dataclass(slots=True)
class Flags:
    """SQL conditions by state. A row that matches none is ready, unless there is a condition for ready too."""

    where: dict[StateKind, str] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    """Boolean columns in the conditions. Nothing writes them after the migration."""
    doubts: list[str] = field(default_factory=list)

    @property
    def conditions(self) -> dict[StateKind, StateCondition]:
        found = {kind: StateCondition(sql=self.where[kind]) for kind in FIRST if kind in self.where}
        return found if StateKind.READY in found else {**found, StateKind.READY: StateCondition(sql="1 = 1")}


def read_flags(connection: Connection, facts: TableFacts, choices: AdoptOptions) -> Flags:
    """Derive states from flags and times, unless the caller gives conditions. A condition for ready disables all
    guesses."""
    if choices.where:
        _check(connection, facts, choices)
    if StateKind.READY in choices.where:
        return Flags(dict(choices.where))
    flags = Flags()
    format_column = connection.dialect.identifier_preparer.format_column
    found: dict[StateKind, list[str]] = {}
    weak: list[str] = []
    for column in facts.table.columns:
        quoted = format_column(column)
        kind = known_names.flag_kind(column.name)
        if kind is not None and is_flag(connection, facts, column):
            flags.columns.append(column.name)
            test = quoted if isinstance(column.type, sa.Boolean) else f"{quoted} <> 0"
            found.setdefault(kind, []).append(f"coalesce({test}, false)")
            continue
        kind = _time_kind(column, choices)
        if kind is not None and (time := kind_of_time(connection, facts, column)) is not None:
            numbers = isinstance(time[0], NUMBERS)
            found.setdefault(kind, []).append(f"coalesce({quoted}, 0) <> 0" if numbers else f"{quoted} IS NOT NULL")
        elif known_names.is_called(column.name, known_names.WEAK_NAMES["finished_at"]) and kind_of_time(
            connection, facts, column
        ):
            weak.append(quoted)
    guessed = {kind: " OR ".join(found[kind]) for kind in found}
    flags.where = {kind: where for kind in FIRST if (where := choices.where.get(kind) or guessed.get(kind))}
    if StateKind.DONE not in flags.where and not facts.empty:
        way = f'--done-where "{weak[0]} IS NOT NULL", if that is what it means' if weak else "--done-where SQL"
        telling = _telling(facts)
        among = f" It may be one of: {', '.join(telling)}." if telling and not weak else ""
        flags.doubts.append(
            f"nothing says for certain which rows are done already: every row would be worked on. Say it with {way}."
            f"{among} If every row is meant, say --done-where false, or --sure"
        )
    return flags


def _telling(facts: TableFacts) -> list[str]:
    """Return columns that may show which rows are done: booleans, and times that are not always set."""
    others = [name for role, names in known_names.NAMES.items() if role != "finished_at" for name in names]
    others += [name for names in (*known_names.FLAGS.values(), *known_names.STATE_TIMES.values()) for name in names]
    return [
        column.name
        for column in facts.table.columns
        if column.nullable or isinstance(column.type, sa.Boolean)
        if not known_names.is_called(column.name, others)
        if isinstance(column.type, (sa.Boolean, sa.DateTime)) and not column.primary_key
    ]


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A column that excludes a row from processing, whatever its state: deleted_at, paused."""

    column: str
    sql: str
    """SQL condition for a row that is held back."""
    free: str
    """Python expression for the other rows; `{}` stands for the column."""


def held_back(connection: Connection, facts: TableFacts, mapped: Iterable[str]) -> list[HeldBack]:
    """Find such columns among those that play no part in the queue."""
    format_column = connection.dialect.identifier_preparer.format_column
    found = []
    for column in facts.table.columns:
        if column.name in mapped:
            continue
        name, quoted = known_names.without_verb(column.name), format_column(column)
        flag = known_names.flag_kind(column.name) is StateKind.CANCELLED or known_names.is_called(
            name, known_names.HELD_BACK
        )
        if flag and isinstance(column.type, sa.Boolean):
            found.append(HeldBack(column.name, f"coalesce({quoted}, false)", "{}.is_not(True)"))
        elif flag and is_flag(connection, facts, column):
            found.append(HeldBack(column.name, f"coalesce({quoted}, 0) <> 0", "sa.func.coalesce({}, 0) == 0"))
        elif known_names.is_called(column.name, known_names.STATE_TIMES[StateKind.CANCELLED]):
            time = kind_of_time(connection, facts, column)
            if time is not None and isinstance(time[0], NUMBERS):
                found.append(HeldBack(column.name, f"coalesce({quoted}, 0) <> 0", "sa.func.coalesce({}, 0) == 0"))
            elif time is not None:
                found.append(HeldBack(column.name, f"{quoted} IS NOT NULL", "{}.is_(None)"))
    return found


def done_flags(connection: Connection, facts: TableFacts) -> dict[str, str]:
    """Return boolean columns that mark a row as done, with their conditions."""
    format_column = connection.dialect.identifier_preparer.format_column
    found = {}
    for column in facts.table.columns:
        if known_names.flag_kind(column.name) is StateKind.DONE and is_flag(connection, facts, column):
            test = format_column(column) if isinstance(column.type, sa.Boolean) else f"{format_column(column)} <> 0"
            found[column.name] = f"coalesce({test}, false)"
    return found


def _time_kind(column: "Column[Any]", choices: AdoptOptions) -> StateKind | None:
    """Return the state that this time implies when it is set. The caller may override which one means done."""
    chosen = choices.columns.get("finished_at")
    if column.name == chosen:
        return StateKind.DONE
    if known_names.is_called(column.name, known_names.NAMES["finished_at"]):
        return StateKind.DONE if chosen is None and "finished_at" not in choices.new else None
    return next(
        (kind for kind, names in known_names.STATE_TIMES.items() if known_names.is_called(column.name, names)), None
    )


def is_flag(connection: Connection, facts: TableFacts, column: "Column[Any]") -> bool:
    """Return whether a column is boolean, or a number that is only ever 0 or 1."""
    if isinstance(column.type, sa.Boolean):
        return True
    if not isinstance(column.type, sa.Integer) or column.primary_key or column.foreign_keys:
        return False
    values = values_of(connection, facts, column)
    return bool(values) and all(value in (0, 1) for value in values)


def _check(connection: Connection, facts: TableFacts, choices: AdoptOptions) -> None:
    """Run each condition once, to detect mistakes before anything is changed."""
    table = connection.dialect.identifier_preparer.format_table(facts.table)
    for kind, condition in choices.where.items():
        try:
            with connection.begin_nested():
                expressions.run(connection, f"SELECT 1 FROM {table} WHERE ({condition}) LIMIT 1").close()
        except DBAPIError as error:
            raise BadRequest(f"--{kind}-where is no condition on this table: {database_message(error)}") from error
