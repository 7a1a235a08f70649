"""Which column of a table plays which part."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection

from rowmill.model.declare import NULLABLE
from rowmill.model.queue import EpochUnit
from rowmill.store.adopt import lexicon
from rowmill.store.adopt.look import Look
from rowmill.store.adopt.times import kind_of_time

TIME_ROLES = ("available_at", "leased_until", "finished_at", "started_at", "created_at", "updated_at")


@dataclass(slots=True)
class Roles:
    """Columns that the table has, by the part they play."""

    names: dict[str, str] = field(default_factory=dict)
    types: dict[str, "sa.types.TypeEngine[Any]"] = field(default_factory=dict)
    """By column: as what to take it where the database's own type says too little (SQLite)."""
    epoch: EpochUnit = "s"
    notes: list[str] = field(default_factory=list)


def guess_roles(
    connection: Connection,
    look: Look,
    state: str | None,
    done_words: list[str],
    chosen: Mapping[str, str],
    epoch: EpochUnit | None = None,
) -> Roles:
    """Columns by name and type. What the caller chose is taken as it is; a column plays one part only."""
    roles = Roles()
    by_plain = {lexicon.plain(column.name): column for column in look.table.columns}
    taken = {*chosen.values(), *(() if state is None else (state,))}
    units: set[EpochUnit] = set()
    for role in ("lease", *lexicon.NAMES):
        if role in chosen:
            column = look.table.columns.get(chosen[role])
            candidates = [] if column is None else [column]
        else:
            candidates = [
                by_plain[name]
                for name in _names(role, state, done_words)
                if name in by_plain and by_plain[name].name not in taken
            ]
        for column in candidates:
            fit = _fits(connection, look, role, column)
            if fit is None and role not in chosen:
                continue
            if not column.nullable and role in NULLABLE and connection.dialect.name == "sqlite":
                roles.notes.append(
                    f"column {column.name} can't be used as {role}: it must allow NULL, and SQLite can't change that"
                )
                continue
            roles.names[role] = column.name
            taken.add(column.name)
            if fit is not None:
                kind, unit = fit
                units |= {unit} if unit else set()
                if kind is not column.type:
                    roles.types[column.name] = kind
            break
    if len(units) > 1:
        roles.notes.append("some times are in seconds, others in milliseconds: map only those of one unit")
    roles.epoch = epoch or ("ms" if units == {"ms"} else "s")
    if roles.epoch == "ms" and connection.dialect.name == "sqlite":
        for role in TIME_ROLES:
            name = roles.names.get(role, "")
            if name and _is_short(roles.types.get(name, look.table.columns[name].type)):
                roles.types[name] = sa.BigInteger()  # an INTEGER of SQLite's holds as much
    return roles


def _is_short(kind: "sa.types.TypeEngine[Any]") -> bool:
    return isinstance(kind, sa.Integer) and not isinstance(kind, sa.BigInteger)


def _names(role: str, state: str | None, done_words: list[str]) -> list[str]:
    """Plain names to look for, best first. Beside processing_status, processing_error is meant, not error."""
    names = list(lexicon.NAMES.get(role, (role,)))
    if role == "finished_at":
        names += [f"{word}_at" for word in done_words]
    stem = ""
    if state is not None:
        stem = lexicon.plain(state).removesuffix("status").removesuffix("state")
    # First those that an earlier adoption had to give because the plain ones were taken.
    given = [prefix + role for prefix in lexicon.PREFIXES]
    return [*given, *(f"{stem}{name}" for name in names if stem), *names]


def _fits(
    connection: Connection, look: Look, role: str, column: "Column[Any]"
) -> "tuple[sa.types.TypeEngine[Any], EpochUnit | None] | None":
    """The type as which this column can play the part, and the unit of an epoch; None if it can't."""
    if column.primary_key or (column.foreign_keys and role != "created_at"):
        return None
    kind = column.type
    if role in TIME_ROLES:
        return kind_of_time(connection, look, column)
    fits = {
        "lease": isinstance(kind, sa.BigInteger),
        "attempts": isinstance(kind, sa.Integer),
        "priority": isinstance(kind, (sa.Integer, sa.Numeric)),
    }.get(role, isinstance(kind, sa.String) and not isinstance(kind, sa.Enum))
    return (kind, None) if fits else None
