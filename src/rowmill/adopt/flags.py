"""States of a table that has no column for them: from flags, from times that are set, or as the caller says."""

from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection
from sqlalchemy.exc import DBAPIError

from rowmill.adopt import known_names
from rowmill.adopt.apply import database_said
from rowmill.adopt.evidence import FIRST, StateCondition
from rowmill.adopt.guess import AdoptOptions
from rowmill.adopt.look import TableFacts
from rowmill.adopt.times import kind_of_time, values_of
from rowmill.model.errors import BadRequest
from rowmill.model.lifecycle import StateKind
from rowmill.store import expressions


@dataclass(slots=True)
class Flags:
    """Conditions in SQL, by the state that they stand for. A row for which none holds is ready, unless there is a
    condition for ready too."""

    where: dict[StateKind, str] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    """Booleans that the conditions name, which nobody will write any longer."""
    doubts: list[str] = field(default_factory=list)

    @property
    def conditions(self) -> dict[StateKind, StateCondition]:
        found = {kind: StateCondition(sql=self.where[kind]) for kind in FIRST if kind in self.where}
        return found if StateKind.READY in found else {**found, StateKind.READY: StateCondition(sql="1 = 1")}


def read_flags(connection: Connection, look: TableFacts, wishes: AdoptOptions) -> Flags:
    """What the caller says decides alone. Otherwise a row is what its flags and times say."""
    if wishes.where:
        _check(connection, look, wishes)
        return Flags(dict(wishes.where))
    flags = Flags()
    format_column = connection.dialect.identifier_preparer.format_column
    found: dict[StateKind, list[str]] = {}
    weak: list[str] = []
    for column in look.table.columns:
        name, quoted = known_names.plain(column.name), format_column(column)
        kind = known_names.flag_kind(name)
        if kind is not None and _is_flag(connection, look, column):
            flags.columns.append(column.name)
            test = quoted if isinstance(column.type, sa.Boolean) else f"{quoted} <> 0"
            found.setdefault(kind, []).append(f"coalesce({test}, false)")
            continue
        kind = _time_kind(name, column, wishes)
        if kind is not None and kind_of_time(connection, look, column) is not None:
            found.setdefault(kind, []).append(f"{quoted} IS NOT NULL")
        elif name in known_names.WEAK_NAMES["finished_at"] and kind_of_time(connection, look, column) is not None:
            weak.append(quoted)
    flags.where = {kind: " OR ".join(found[kind]) for kind in FIRST if kind in found}
    if StateKind.DONE not in flags.where and not look.empty:
        way = f'--done-where "{weak[0]} IS NOT NULL", if that is what it means' if weak else "--done-where SQL"
        flags.doubts.append(
            f"nothing says for certain which rows are done already: every row would be worked on. Say it with {way}. "
            "If every row is meant, say --sure"
        )
    return flags


def _time_kind(name: str, column: "Column[Any]", wishes: AdoptOptions) -> StateKind | None:
    """The state of a row in which this time is set. Which one says that it is done, the caller may know better."""
    chosen = wishes.columns.get("finished_at")
    if column.name == chosen:
        return StateKind.DONE
    if name in known_names.NAMES["finished_at"]:
        return StateKind.DONE if chosen is None and "finished_at" not in wishes.new else None
    return next((kind for kind, names in known_names.STATE_TIMES.items() if name in names), None)


def _is_flag(connection: Connection, look: TableFacts, column: "Column[Any]") -> bool:
    """A boolean, or a number that is never anything but 0 or 1."""
    if isinstance(column.type, sa.Boolean):
        return True
    if not isinstance(column.type, sa.Integer) or column.primary_key or column.foreign_keys:
        return False
    values = values_of(connection, look, column)
    return bool(values) and all(value in (0, 1) for value in values)


def _check(connection: Connection, look: TableFacts, wishes: AdoptOptions) -> None:
    """Each condition is asked once, so that a mistake in it is found before anything is changed."""
    table = connection.dialect.identifier_preparer.format_table(look.table)
    for kind, condition in wishes.where.items():
        try:
            with connection.begin_nested():
                expressions.run(connection, f"SELECT 1 FROM {table} WHERE ({condition}) LIMIT 1").close()
        except DBAPIError as error:
            raise BadRequest(f"--{kind}-where is no condition on this table: {database_said(error)}") from error
