"""Which column of a table plays which part. A name alone decides only where the rows do not speak against it, and where
no other column competes: everything else is a doubt, which a person settles."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection

from rowmill.adopt import known_names
from rowmill.adopt.evidence import HeldByState, RowEvidence
from rowmill.adopt.guess import AdoptOptions
from rowmill.adopt.look import TableFacts
from rowmill.adopt.times import kind_of_time
from rowmill.model.declare import NULLABLE
from rowmill.model.lifecycle import StateKind
from rowmill.model.queue import Columns, EpochUnit

TIME_ROLES = ("available_at", "leased_until", "finished_at", "started_at", "created_at", "updated_at")
ORDER = ("lease", *(role for role in known_names.NAMES if role != "available_at"), "available_at")
"""The start time comes last: what plays another part is no candidate for it."""
MEANS = {
    "attempts": "counts the attempts",
    "available_at": "says from when on a row may run",
    "leased_until": "says until when a row is somebody's",
    "error": "holds the last error",
    "finished_at": "says when a row was finished",
}


@dataclass(slots=True)
class Roles:
    """Columns that the table has, by the part they play."""

    names: dict[str, str] = field(default_factory=dict)
    types: dict[str, "sa.types.TypeEngine[Any]"] = field(default_factory=dict)
    """By column: as what to take it where the database's own type says too little (SQLite)."""
    epoch: EpochUnit = "s"
    doubts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RoleCandidate:
    """A column that may play a part."""

    column: "Column[Any]"
    sure: bool
    """Its name means this part and nothing else."""
    kind: "sa.types.TypeEngine[Any]"
    unit: EpochUnit | None = None
    held: HeldByState = field(default_factory=HeldByState)

    @property
    def borne_out(self) -> bool:
        """Empty on the rows that are ready, set on those that are done."""
        done = self.held.of(StateKind.DONE)
        ready = self.held.ready
        return ready.rows > 0 and ready.filled == 0 and done.filled > 0 and done.filled * 2 > done.rows


def guess_roles(
    connection: Connection,
    look: TableFacts,
    state: str | None,
    done_words: list[str],
    wishes: AdoptOptions,
    evidence: RowEvidence,
) -> Roles:
    """Columns by name, type and what the rows hold. What the caller chose is taken as it is; a column plays one part
    only."""
    return _RoleGuess(connection, look, state, done_words, wishes, evidence).all()


class _RoleGuess:
    """One table, part by part."""

    def __init__(
        self,
        connection: Connection,
        look: TableFacts,
        state: str | None,
        done_words: list[str],
        wishes: AdoptOptions,
        evidence: RowEvidence,
    ) -> None:
        self.connection = connection
        self.look = look
        self.state = state
        self.done_words = done_words
        self.wishes = wishes
        self.evidence = evidence
        self.roles = Roles()
        self.chosen = {role: name for role, name in wishes.columns.items() if role != "state"}
        self.taken = {*self.chosen.values(), *(() if state is None else (state,))}
        self.units: set[EpochUnit] = set()
        self.by_plain = {known_names.plain(column.name): column for column in look.table.columns}
        self.sqlite = connection.dialect.name == "sqlite"

    def all(self) -> Roles:
        for role in ORDER:
            found = self._of(role)
            if found is not None:
                self._take(role, found)
        roles = self.roles
        if len(self.units) > 1:
            roles.notes.append("some times are in seconds, others in milliseconds: map only those of one unit")
        roles.epoch = self.wishes.epoch or ("ms" if self.units == {"ms"} else "s")
        if roles.epoch == "ms" and self.sqlite:
            for role in TIME_ROLES:
                name = roles.names.get(role, "")
                if name and _is_short(roles.types.get(name, self.look.table.columns[name].type)):
                    roles.types[name] = sa.BigInteger()  # an INTEGER of SQLite's holds as much
        return roles

    def _take(self, role: str, found: RoleCandidate) -> None:
        name = found.column.name
        self.taken.add(name)
        if role not in (*Columns.__slots__, "priority"):
            self.roles.notes.append(
                f"{name} limits the attempts of a row, and is not read: the limit is Retry(attempts=...) of the queue"
            )
            return
        self.roles.names[role] = name
        self.units |= {found.unit} if found.unit else set()
        if found.kind is not found.column.type:
            self.roles.types[name] = found.kind

    def _of(self, role: str) -> RoleCandidate | None:
        if role in self.chosen:
            column = self.look.table.columns[self.chosen[role]]
            if not self._may_be_null(role, column):
                return None
            return RoleCandidate(
                column, True, *(_fits(self.connection, self.look, role, column) or (column.type, None))
            )
        own = self._fitting(role, self.look.own_names(role), sure=True)
        if own:
            return own[0]
        if role in self.wishes.new:
            return None
        names = self._names(role)
        sure = self._fitting(role, names, sure=True)
        weak = self._fitting(role, known_names.WEAK_NAMES.get(role, ()), sure=False)
        found = self._with_rows([*sure, *weak])
        match role:
            case "available_at":
                return self._start(found)
            case "attempts":
                return self._count(found)
            case "finished_at" | "error" | "leased_until":
                return self._required(role, found)
            case "started_at" | "updated_at" | "error_code":
                return self._optional(role, found)
            case _:
                return found[0] if found else None

    def _names(self, role: str) -> list[str]:
        """Plain names that say this part, best first. Beside processing_status, processing_error is meant, not error:
        if there are names with the stem of the state's, only they count."""
        names = list(known_names.NAMES.get(role, (role,)))
        if role == "finished_at":
            names += [f"{word}_at" for word in self.done_words if f"{word}_at" not in known_names.WEAK_NAMES[role]]
        stem = ""
        if self.state is not None and not self.look.own_names("state").count(self.state):
            stem = known_names.plain(self.state).removesuffix("status").removesuffix("state")
        stemmed = [f"{stem}{name}" for name in names if stem and f"{stem}{name}" in self.by_plain]
        return stemmed if any(self._fitting(role, [name], sure=True) for name in stemmed) else names

    def _fitting(self, role: str, names: Iterable[str], *, sure: bool) -> list[RoleCandidate]:
        found = []
        for name in dict.fromkeys(names):
            column = self.by_plain.get(name)
            if column is None or column.name in self.taken:
                continue
            fit = _fits(self.connection, self.look, role, column)
            if fit is not None and self._may_be_null(role, column):
                found.append(RoleCandidate(column, sure, *fit))
        return found

    def _may_be_null(self, role: str, column: "Column[Any]") -> bool:
        if column.nullable or role not in NULLABLE or not self.sqlite:
            return True
        note = f"column {column.name} can't be used as {role}: it must allow NULL, and SQLite can't change that"
        if note not in self.roles.notes:
            self.roles.notes.append(note)
        return False

    def _with_rows(self, found: list[RoleCandidate]) -> list[RoleCandidate]:
        units = {one.column.name: one.unit for one in found if _is_time(one.kind) or one.unit}
        held = self.evidence.held([one.column for one in found], units)
        return [RoleCandidate(one.column, one.sure, one.kind, one.unit, held[one.column.name]) for one in found]

    def _required(self, role: str, found: list[RoleCandidate]) -> RoleCandidate | None:
        """A part whose column is overwritten. One whose rows speak against it is not taken without a word."""
        good = [one for one in found if not self._contradicted(role, one) and (one.sure or one.borne_out)]
        if len(good) > 1:
            good = [one for one in good if one.borne_out] or good
        if len(good) == 1:
            return good[0]
        return self._doubt(role, good or found)

    def _contradicted(self, role: str, one: RoleCandidate) -> bool:
        """Do the rows that are ready say that it is something else?"""
        if role == "leased_until":
            return one.held.ready.ahead > 0
        if role == "error":
            return self._fresh_with(one.column) > 0
        return one.held.ready.filled > 0

    def _fresh_with(self, column: "Column[Any]") -> int:
        """Ready rows with a text in this column that were never tried: that is no error. Where nothing counts the
        attempts, all of them together would have to be without one."""
        counted = self.roles.names.get("attempts")

        def fresh(rows: Any) -> "sa.ColumnElement[bool]":
            text = sa.cast(rows.c[column.name], sa.String)
            found = text.is_not(None) & (text != "")
            return found if counted is None else found & (sa.func.coalesce(rows.c[counted], 0) == 0)

        return self.evidence.how_many(fresh, StateKind.READY)

    def _optional(self, role: str, found: list[RoleCandidate]) -> RoleCandidate | None:
        """A part that a queue does without: what is not certain is left alone."""
        for one in found:
            ready = one.held.ready
            payload = role != "updated_at" and ready.rows > 0 and ready.filled == ready.rows
            if (one.sure and not payload) or (one.borne_out and role != "updated_at"):
                return one
            self.roles.notes.append(
                f"column {one.column.name} is left alone; if it is the queue's {role}, say "
                f"--column {role}={one.column.name}"
            )
        return None

    def _count(self, found: list[RoleCandidate]) -> RoleCandidate | None:
        if len(found) == 1:
            return found[0]
        if found:
            return self._doubt("attempts", found)
        names = [
            name
            for name in self.by_plain
            if not name.startswith("max_") and any(name.endswith(f"_{end}") for end in known_names.SUFFIXES["attempts"])
        ]
        others = self._with_rows(self._fitting("attempts", names, sure=False))
        about = set(known_names.plain(self.look.table.name).split("_")) | set(
            known_names.plain(self.state or "").split("_")
        )
        if len(others) == 1 and known_names.plain(others[0].column.name).split("_")[0] in about:
            return others[0]
        return self._doubt("attempts", others)

    def _start(self, found: list[RoleCandidate]) -> RoleCandidate | None:
        """From when on a row may run. A time that lies ahead on rows that are ready may be it, whatever its name."""
        known = {one.column.name for one in found}
        ahead = [one for one in self._times() if one.column.name not in known and one.held.ready.ahead > 0]
        for one in [one for one in ahead if known_names.ENDS & set(known_names.plain(one.column.name).split("_"))]:
            ahead.remove(one)
            self.roles.notes.append(
                f"{one.column.name} lies ahead on rows that are ready, and is taken for an end: if they may not run "
                f"before, say --column available_at={one.column.name}"
            )
        sure = [one for one in found if one.sure]
        weak = [one for one in found if not one.sure]
        rivals = [*(one for one in weak if one.held.ready.ahead > 0), *ahead]
        if len(sure) == 1 and not rivals:
            return sure[0]
        if (
            not sure
            and len(rivals) == 1
            and rivals[0] in weak
            and not rivals[0].held.of(StateKind.DONE, StateKind.DEAD).ahead
        ):
            return rivals[0]
        candidates = [*sure, *(rivals or weak)] if not sure else [*sure, *rivals]
        if not candidates:
            self._doubt_unfit()
            return None
        return self._doubt("available_at", candidates)

    def _times(self) -> list[RoleCandidate]:
        """Every column with times that plays no part yet."""
        found = []
        for column in self.look.table.columns:
            if column.name in self.taken or column.primary_key or column.foreign_keys:
                continue
            if isinstance(column.type, sa.Date):
                found.append(RoleCandidate(column, False, column.type))
                continue
            fit = kind_of_time(self.connection, self.look, column)
            if fit is not None and (fit[1] or _is_time(fit[0])):
                found.append(RoleCandidate(column, False, *fit))
        return self._with_rows(found)

    def _doubt_unfit(self) -> None:
        """Columns that are called like a start time, and are of a type that can't be one."""
        for name in known_names.NAMES["available_at"]:
            column = self.by_plain.get(name)
            if column is None or column.name in self.taken:
                continue
            held = self.evidence.held([column], {})[column.name]
            if held.ready.filled:
                self.roles.doubts.append(
                    f"{column.name} is set on {held.ready.filled:,} of {held.ready.rows:,} ready rows and may say from "
                    f"when on they may run, but its type is {column.type}, which is no time: they would run at once. "
                    f"Make it a timestamp, or say --new available_at and set available_at of those rows"
                )

    def _doubt(self, role: str, candidates: list[RoleCandidate]) -> RoleCandidate | None:
        """Ask a person. What is shown meanwhile is a guess."""
        if not candidates:
            return None
        listed = "; ".join(f"{one.column.name} ({self._told(one)})" for one in candidates)
        names = " or ".join(f"--column {role}={one.column.name}" for one in candidates)
        verb = "is it" if len(candidates) == 1 else "which one is it"
        self.roles.doubts.append(
            f"{role}, which {MEANS[role]}: {verb}? {listed}. Say {names}; or --new {role}, and a new column is added"
        )
        usable = [one for one in candidates if not isinstance(one.kind, sa.Date)]
        return usable[0] if usable else None

    def _told(self, one: RoleCandidate) -> str:
        """What the rows hold, in a few words; values only of times and numbers."""
        parts = []
        for name, facts in (
            ("ready", one.held.ready),
            ("running", one.held.of(StateKind.RUNNING)),
            ("done", one.held.of(StateKind.DONE)),
        ):  # fmt: skip
            if facts.rows:
                lies = f", {facts.ahead:,} of them ahead" if facts.ahead else ""
                parts.append(f"set on {facts.filled:,} of {facts.rows:,} {name} rows{lies}")
        kind = one.kind if isinstance(one.kind, (sa.DateTime, sa.Date)) else one.column.type
        examples = self.evidence.examples(one.column, kind, StateKind.READY, StateKind.WAITING)
        if examples:
            parts.append(f"such as {examples}")
        return "; ".join(parts) or "no rows to tell from"


def _is_time(kind: "sa.types.TypeEngine[Any]") -> bool:
    return isinstance(kind, (sa.DateTime, sa.Date))


def _is_short(kind: "sa.types.TypeEngine[Any]") -> bool:
    return isinstance(kind, sa.Integer) and not isinstance(kind, sa.BigInteger)


def _fits(
    connection: Connection, look: TableFacts, role: str, column: "Column[Any]"
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
        "max_attempts": isinstance(kind, sa.Integer),
        "priority": isinstance(kind, (sa.Integer, sa.Numeric)),
    }.get(role, isinstance(kind, sa.String) and not isinstance(kind, sa.Enum))
    return (kind, None) if fits else None
