"""Guess which column plays which role.

A name decides only if the rows do not contradict it and no other column competes. Everything else becomes a doubt that
a person decides.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection

from rowmill.adopt import known_names
from rowmill.adopt.evidence import HeldByState, RowEvidence
from rowmill.adopt.guess import AdoptOptions
from rowmill.adopt.table_facts import TableFacts, named_in
from rowmill.adopt.times import kind_of_time, looks_like_a_time, values_of
from rowmill.model.declare import NULLABLE, NUMBERS
from rowmill.model.lifecycle import StateKind
from rowmill.model.queue import Columns, EpochUnit, FinishedOn

TIME_ROLES = ("available_at", "leased_until", "finished_at", "started_at", "created_at", "updated_at")
ORDER = ("lease", *(role for role in known_names.NAMES if role != "available_at"), "available_at")
"""Order in which roles are assigned. The start time comes last: a column with another role can't be it."""
MEANS = {
    "attempts": "counts the attempts",
    "available_at": "says from when on a row may run",
    "leased_until": "says until when a row is somebody's",
    "error": "holds the last error",
    "finished_at": "says when a row was finished",
}


@dataclass(slots=True)
class Roles:
    """Columns of the table by role."""

    names: dict[str, str] = field(default_factory=dict)
    types: dict[str, "sa.types.TypeEngine[Any]"] = field(default_factory=dict)
    """Type by column, where the database's own type says too little (SQLite)."""
    epoch: EpochUnit = "s"
    finished_on: FinishedOn = "final"
    doubts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RoleCandidate:
    """A column that may play a role."""

    column: "Column[Any]"
    sure: bool
    """Whether its name means this role and nothing else."""
    kind: "sa.types.TypeEngine[Any]"
    unit: EpochUnit | None = None
    held: HeldByState = field(default_factory=HeldByState)

    @property
    def borne_out(self) -> bool:
        """Whether it is empty on ready rows and set on done rows."""
        done = self.held.of(StateKind.DONE)
        ready = self.held.ready
        return ready.rows > 0 and ready.filled == 0 and done.filled > 0 and done.filled * 2 > done.rows


def guess_roles(
    connection: Connection,
    facts: TableFacts,
    state: str | None,
    done_words: list[str],
    choices: AdoptOptions,
    evidence: RowEvidence,
) -> Roles:
    """Assign columns to roles by name, type and values. Choices of the caller are taken as they are. A column plays one
    role only."""
    return _RoleGuess(connection, facts, state, done_words, choices, evidence).all()


class _RoleGuess:
    """Assigns the roles of one table, one by one."""

    def __init__(
        self,
        connection: Connection,
        facts: TableFacts,
        state: str | None,
        done_words: list[str],
        choices: AdoptOptions,
        evidence: RowEvidence,
    ) -> None:
        self.connection = connection
        self.facts = facts
        self.state = state
        self.done_words = done_words
        self.choices = choices
        self.evidence = evidence
        self.roles = Roles()
        self.chosen = {role: name for role, name in choices.columns.items() if role != "state"}
        self.taken = {*self.chosen.values(), *(() if state is None else (state,))}
        self.units: dict[str, EpochUnit | None] = {}
        """Units of numeric times by role; None if no row shows it."""
        self.by_spelling = _by_spelling(facts.table)
        self.sqlite = connection.dialect.name == "sqlite"

    def all(self) -> Roles:
        for role in ORDER:
            found = self._of(role)
            if found is not None:
                self._take(role, found)
        roles = self.roles
        units = {unit for unit in self.units.values() if unit is not None}
        roles.epoch = self.choices.epoch or ("ms" if units == {"ms"} else "s")
        self._doubt_units(units)
        if "available_at" in self.chosen or "available_at" in self.choices.new:
            self._note_other_starts()
        if roles.epoch == "ms" and self.sqlite:
            for role in TIME_ROLES:
                name = roles.names.get(role, "")
                if name and _is_short(roles.types.get(name, self.facts.table.columns[name].type)):
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
        if role in TIME_ROLES and isinstance(found.kind, NUMBERS):
            self.units[role] = found.unit
        if role == "finished_at" and self._only_on_success(found):
            self.roles.finished_on = "done"
            self.roles.notes.append(
                f'{name} is taken for the time of success (finished_on="done"): rows that fail leave it empty'
            )
        if found.kind is not found.column.type:
            self.roles.types[name] = found.kind

    def _doubt_units(self, units: set[EpochUnit]) -> None:
        """Add a doubt if numeric times have several units, or if no row shows the unit."""
        listed = ", ".join(f"{self.roles.names[role]} ({unit or 'empty'})" for role, unit in self.units.items())
        if len(units) > 1:
            self.roles.doubts.append(
                f"some times are in seconds, others in milliseconds: {listed}. A queue keeps its times in one unit: "
                "say --new PART for those in the other, as in --new created_at"
            )
        elif not units and not self.choices.epoch and set(self.units) - {"created_at"}:
            self.roles.doubts.append(
                f"no row says in which unit the times are that are kept as numbers: {listed}. Say --epoch s or "
                "--epoch ms"
            )

    def _only_on_success(self, found: RoleCandidate) -> bool:
        """Return whether the column stays empty when a row fails. A constraint that ties it to the state shows it, or
        the rows; if no row failed, the name."""
        for _, check in self.facts.checks:
            if self.state is not None and named_in(check, self.state) and named_in(check, found.column.name):
                words = [known_names.plain(word) for word in re.findall(r"'([^']*)'", check)]
                kinds = {known_names.meaning(word, frozenset()) for word in words}
                if StateKind.DONE in kinds or not {*words}.isdisjoint(self.done_words):
                    return StateKind.DEAD not in kinds
        dead, done = found.held.of(StateKind.DEAD), found.held.of(StateKind.DONE)
        if dead.rows:
            return dead.filled == 0 and done.filled > 0
        words = [f"{word}_at" for word in self.done_words if word not in known_names.WORDS[StateKind.DONE]]
        return known_names.is_called(found.column.name, (*known_names.SUCCESSES, *words))

    def _of(self, role: str) -> RoleCandidate | None:
        if role in self.chosen:
            column = self.facts.table.columns[self.chosen[role]]
            if not self._may_be_null(role, column):
                return None
            kind, unit = _fits(self.connection, self.facts, role, column) or (column.type, None)
            return self._with_rows(role, [RoleCandidate(column, True, kind, unit)])[0]
        own = self._fitting(role, self.facts.own_names(role), sure=True)
        if own:
            return own[0]
        if role in self.choices.new:
            return None
        names = self._names(role)
        sure = self._fitting(role, names, sure=True)
        weak = self._fitting(role, known_names.WEAK_NAMES.get(role, ()), sure=False)
        names = [one.column.name for one in sure]
        found = self._with_rows(role, [*sure, *(one for one in weak if one.column.name not in names)])
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
        """Return the normalized names for this role, best first. With a state column processing_status,
        processing_error is preferred over error: if columns share the stem of the state's name, only they count."""
        names = list(known_names.NAMES.get(role, (role,)))
        if role == "finished_at":
            names += [f"{word}_at" for word in self.done_words if f"{word}_at" not in known_names.WEAK_NAMES[role]]
        stem = ""
        if self.state is not None and not self.facts.own_names("state").count(self.state):
            stem = known_names.plain(self.state).removesuffix("status").removesuffix("state")
        stemmed = [f"{stem}{name}" for name in names if stem and self._called(f"{stem}{name}") is not None]
        return stemmed if any(self._fitting(role, [name], sure=True) for name in stemmed) else names

    def _fitting(self, role: str, names: Iterable[str], *, sure: bool) -> list[RoleCandidate]:
        found = []
        for column in dict.fromkeys(map(self._called, names)):
            if column is None or column.name in self.taken:
                continue
            fit = _fits(self.connection, self.facts, role, column)
            if fit is not None and self._may_be_null(role, column):
                found.append(RoleCandidate(column, sure, *fit))
        return found

    def _called(self, name: str) -> "Column[Any] | None":
        """Return the column that matches one of the known names."""
        return self.by_spelling.get(name.replace("_", ""))

    def _may_be_null(self, role: str, column: "Column[Any]") -> bool:
        if column.nullable or role not in NULLABLE or not self.sqlite:
            return True
        note = f"column {column.name} can't be used as {role}: it must allow NULL, and SQLite can't change that"
        if note not in self.roles.notes:
            self.roles.notes.append(note)
        return False

    def _with_rows(self, role: str, found: list[RoleCandidate]) -> list[RoleCandidate]:
        units = {one.column.name: one.unit for one in found if role in TIME_ROLES}
        held = self.evidence.held([one.column for one in found], units)
        return [RoleCandidate(one.column, one.sure, one.kind, one.unit, held[one.column.name]) for one in found]

    def _required(self, role: str, found: list[RoleCandidate]) -> RoleCandidate | None:
        """Assign a role whose column is overwritten. A column whose rows contradict the role adds a doubt."""
        good = [one for one in found if not self._contradicted(role, one) and (one.sure or one.borne_out)]
        if len(good) > 1:
            good = [one for one in good if one.borne_out] or good
        if len(good) == 1:
            return good[0]
        return self._doubt(role, good or found)

    def _contradicted(self, role: str, one: RoleCandidate) -> bool:
        """Return whether ready rows show that the column is something else."""
        if role == "leased_until":
            return one.held.ready.ahead > 0
        if role == "error":
            return self._fresh_with(one.column) > 0
        return one.held.ready.filled > 0

    def _fresh_with(self, column: "Column[Any]") -> int:
        """Count ready rows that were never tried but have a text in this column: such a text is no error. If no column
        counts attempts, count all ready rows with a text."""
        counted = self.roles.names.get("attempts")

        def fresh(rows: Any) -> "sa.ColumnElement[bool]":
            text = sa.cast(rows.c[column.name], sa.String)
            found = text.is_not(None) & (text != "")
            return found if counted is None else found & (sa.func.coalesce(rows.c[counted], 0) == 0)

        return self.evidence.how_many(fresh, StateKind.READY)

    def _optional(self, role: str, found: list[RoleCandidate]) -> RoleCandidate | None:
        """Return the column for an optional role; None, with a note for the report, if no column is certain."""
        for one in found:
            ready = one.held.ready
            payload = role != "updated_at" and ready.rows > 0 and ready.filled == ready.rows
            payload |= role in NULLABLE and not one.column.nullable
            if (one.sure and not payload) or (one.borne_out and role != "updated_at"):
                return one
            self.roles.notes.append(
                f"column {one.column.name} is left alone; if it is the queue's {role}, say "
                f"--column {role}={one.column.name}"
            )
        return None

    def _count(self, found: list[RoleCandidate]) -> RoleCandidate | None:
        if len(found) == 1 and not self._counts_something_else(found[0]):
            return found[0]
        if found:
            return self._doubt("attempts", found)
        names = [
            name
            for name in (known_names.plain(column.name) for column in self.facts.table.columns)
            if not name.startswith("max_") and any(name.endswith(f"_{end}") for end in known_names.SUFFIXES["attempts"])
        ]
        others = self._with_rows("attempts", self._fitting("attempts", names, sure=False))
        parts = f"{known_names.plain(self.facts.table.name)}_{known_names.plain(self.state or '')}".split("_")
        about = {*parts, *(part.removesuffix("s") for part in parts)}
        if len(others) == 1 and known_names.plain(others[0].column.name).split("_")[0] in about:
            return others[0]
        return self._doubt("attempts", others)

    def _counts_something_else(self, one: RoleCandidate) -> bool:
        """Return whether the column may number the tries of something, with one row per try, or count failed parts of a
        row's work."""
        name = one.column.name
        default = re.fullmatch(r"\(*'?(\d+)'?(::\w+)?\)*", str(getattr(one.column.server_default, "arg", "")).strip())
        if default is not None and int(default[1]) > 0:
            return True
        if known_names.is_called(name, known_names.NUMBERED) and default is None:
            return not self.evidence.how_many(lambda rows: sa.func.coalesce(rows.c[name], 0) == 0, StateKind.READY)
        numbers = [other for other in self.facts.table.columns if isinstance(other.type, sa.Integer)]
        return known_names.is_called(name, known_names.TALLIES) and any(
            known_names.TALLIED & set(known_names.plain(other.name).split("_"))
            for other in numbers
            if other.name != name
        )

    def _start(self, found: list[RoleCandidate]) -> RoleCandidate | None:
        """Assign the start time. Candidates: a time in the future on ready rows, whatever its name; a name that says
        that something starts; a time by which ready rows are indexed."""
        known = {one.column.name for one in found}
        others = [one for one in self._times() if one.column.name not in known]
        ends = [one for one in others if known_names.ENDS & _words(one) or one.column.name.lower().endswith("until")]
        for one in ends:
            over = one.held.ready.filled - one.held.ready.ahead
            if over and known_names.EXPIRY & _words(one):
                self.roles.notes.append(
                    f"{over:,} rows are ready whose {one.column.name} is over, and are worked on all the same: if they "
                    "are not to be, put them into another state first"
                )
            if one.held.ready.ahead:
                self.roles.notes.append(
                    f"{one.column.name} lies ahead on rows that are ready, and is taken for an end: if they may not "
                    f"run before, say --column available_at={one.column.name}"
                )
        others = [one for one in others if one not in ends]
        sure = [one for one in found if one.sure]
        weak = [one for one in found if not one.sure]
        weak += [one for one in others if self._sounds_like_a_start(one)]
        rivals = [one for one in weak if one.held.ready.ahead > 0]
        rivals += [one for one in others if one not in weak and one.held.ready.ahead > 0]
        if sure:
            # Both may hold: not before the one, nor before the other.
            rivals += [one for one in weak if one not in rivals and (one.held.ready.filled or not one.held.ready.rows)]
        if len(sure) == 1 and not rivals:
            return sure[0]
        lone = rivals[0] if not sure and len(rivals) == 1 else None
        if lone is not None and lone.column.name in known and not lone.held.of(StateKind.DONE, StateKind.DEAD).ahead:
            return lone
        if not sure and not rivals:
            weak += [one for one in others if one not in weak and self._is_indexed_as_a_start(one)]
        candidates = [*sure, *(rivals or weak)] if not sure else [*sure, *rivals]
        if not candidates:
            self._doubt_unfit()
            return None
        return self._doubt("available_at", candidates)

    def _note_other_starts(self) -> None:
        """Note start times that the caller decided against: they may delay rows today."""
        names = (*known_names.NAMES["available_at"], *known_names.WEAK_NAMES["available_at"])
        for one in self._times():
            if one.held.ready.ahead and (
                self._sounds_like_a_start(one) or known_names.is_called(one.column.name, names)
            ):
                self.roles.notes.append(
                    f"{one.held.ready.ahead:,} rows are ready whose {one.column.name} lies ahead, and run all the "
                    "same: nothing reads it any longer. If they are to wait, put that time into the one that is read"
                )

    def _sounds_like_a_start(self, one: RoleCandidate) -> bool:
        words = _words(one)
        return bool(known_names.STARTS & words) and not known_names.PAST & words and not isinstance(one.kind, sa.Date)

    def _is_indexed_as_a_start(self, one: RoleCandidate) -> bool:
        """Return whether ready rows are indexed by this time. A time that the database sets by default is the insert
        time and does not count."""
        if self.state is None or one.column.server_default is not None or known_names.PAST & _words(one):
            return False
        return self.facts.is_indexed_beside(one.column.name, self.state)

    def _times(self) -> list[RoleCandidate]:
        """Return all time columns without a role."""
        found = []
        for column in self.facts.table.columns:
            if column.name in self.taken or column.primary_key or column.foreign_keys:
                continue
            if isinstance(column.type, sa.Date):
                found.append(RoleCandidate(column, False, column.type))
                continue
            fit = kind_of_time(self.connection, self.facts, column)
            if fit is not None and (fit[1] or _is_time(fit[0])):
                found.append(RoleCandidate(column, False, *fit))
        return self._with_rows("available_at", found)

    def _doubt_unfit(self) -> None:
        """Add doubts for columns with the name of a start time but an unsuitable type."""
        weak = [
            name for name in known_names.WEAK_NAMES["available_at"] if self._is_written_as_a_date(self._called(name))
        ]
        for column in dict.fromkeys(map(self._called, (*known_names.NAMES["available_at"], *weak))):
            if column is None or column.name in self.taken or isinstance(column.type, sa.Boolean):
                continue
            held = self.evidence.held([column], {})[column.name]
            if held.ready.filled:
                self.roles.doubts.append(
                    f"{column.name} is set on {held.ready.filled:,} of {held.ready.rows:,} ready rows and may say from "
                    f"when on they may run, but its type is {column.type}, which is no time: they would run at once. "
                    f"Make it a timestamp, or say --new available_at and set available_at of those rows"
                )

    def _is_written_as_a_date(self, column: "Column[Any] | None") -> bool:
        if column is None or isinstance(column.type, sa.Date):
            return column is not None
        values = values_of(self.connection, self.facts, column) if isinstance(column.type, sa.String) else []
        return bool(values) and all(looks_like_a_time(str(value)) for value in values)

    def _doubt(self, role: str, candidates: list[RoleCandidate]) -> RoleCandidate | None:
        """Add a doubt: a person must choose. Until then the report shows a guess."""
        if not candidates:
            return None
        listed = "; ".join(f"{one.column.name} ({self._describe(one)})" for one in candidates)
        usable = [one for one in candidates if not isinstance(one.kind, sa.Date)]
        says = [f"--column {role}={one.column.name}" for one in usable]
        dates = ", ".join(one.column.name for one in candidates if one not in usable)
        first = f" ({dates} would have to be a timestamp first: a date is no time)" if dates else ""
        verb = "is it" if len(candidates) == 1 else "which one is it"
        say = f"{' or '.join(says)}; or " if says else ""
        self.roles.doubts.append(
            f"{role}, which {MEANS[role]}: {verb}? {listed}. Say {say}--new {role}, and a new column is added{first}"
        )
        return usable[0] if usable else None

    def _describe(self, one: RoleCandidate) -> str:
        """Describe what the rows hold in a few words. Shows values of times and numbers only."""
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


def _words(one: RoleCandidate) -> set[str]:
    return set(known_names.plain(one.column.name).split("_"))


def _by_spelling(table: sa.Table) -> dict[str, "Column[Any]"]:
    """Index the columns by all names that they may match; exact names come first."""
    found: dict[str, Column[Any]] = {}
    for nth in range(3):
        for column in table.columns:
            spelled = known_names.spellings(column.name)
            if nth < len(spelled):
                found.setdefault(spelled[nth], column)
    return found


def _is_time(kind: "sa.types.TypeEngine[Any]") -> bool:
    return isinstance(kind, (sa.DateTime, sa.Date))


def _is_short(kind: "sa.types.TypeEngine[Any]") -> bool:
    return isinstance(kind, sa.Integer) and not isinstance(kind, sa.BigInteger)


def _fits(
    connection: Connection, facts: TableFacts, role: str, column: "Column[Any]"
) -> "tuple[sa.types.TypeEngine[Any], EpochUnit | None] | None":
    """Return the type as which this column can play the role, and the unit of an epoch; None if it can't."""
    if column.primary_key or (column.foreign_keys and role != "created_at"):
        return None
    kind = column.type
    if role in TIME_ROLES:
        return kind_of_time(connection, facts, column)
    fits = {
        "lease": isinstance(kind, sa.BigInteger),
        "attempts": isinstance(kind, sa.Integer),
        "max_attempts": isinstance(kind, sa.Integer),
        "priority": isinstance(kind, NUMBERS),
    }.get(role, isinstance(kind, sa.String) and not isinstance(kind, sa.Enum))
    return (kind, None) if fits else None
