"""Evidence from the rows: is a column set on ready rows, on done rows, and does it hold times in the future?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection

from rowmill.adopt.table_facts import SAMPLE, TableFacts
from rowmill.model.declare import NUMBERS
from rowmill.model.errors import one_line
from rowmill.model.lifecycle import StateKind
from rowmill.model.queue import EpochUnit

SHOWN = 3
"""Values of a column that the report shows."""
ZONES = (20 * 60, 14 * 3600)
"""Seconds by which a local time may differ from UTC. A smaller difference may be two clocks that disagree."""
FIRST_COLUMN: Any = sa.literal_column("1")
FIRST = (StateKind.DONE, StateKind.DEAD, StateKind.CANCELLED, StateKind.RUNNING, StateKind.WAITING, StateKind.READY)
"""Precedence of states. If two states match a row, the first one in this order counts, so that work is not done
twice."""


@dataclass(frozen=True, slots=True)
class StateCondition:
    """How rows in a state are recognized: by words of a column, or by an SQL condition."""

    column: str | None = None
    words: tuple[str, ...] = ()
    sql: str = ""

    def on(self, rows: Any) -> "sa.ColumnElement[bool]":
        if self.column is None:
            return sa.literal_column(f"({self.sql})", sa.Boolean)
        return sa.cast(rows.c[self.column], sa.String).in_(self.words)


@dataclass(frozen=True, slots=True)
class ValueFacts:
    """Counts for the rows in one state: all, those with a value in the column, and those with a value in the future."""

    rows: int = 0
    filled: int = 0
    ahead: int = 0

    def __add__(self, other: "ValueFacts") -> "ValueFacts":
        return ValueFacts(self.rows + other.rows, self.filled + other.filled, self.ahead + other.ahead)


@dataclass(frozen=True, slots=True)
class HeldByState:
    """What a column holds, by state."""

    by_kind: Mapping[StateKind | None, ValueFacts] = field(default_factory=dict)

    def of(self, *kinds: StateKind) -> ValueFacts:
        return sum((self.by_kind.get(kind, ValueFacts()) for kind in kinds), ValueFacts())

    @property
    def ready(self) -> ValueFacts:
        return self.of(StateKind.READY, StateKind.WAITING)

    @property
    def every(self) -> ValueFacts:
        return sum(self.by_kind.values(), ValueFacts())


class RowEvidence:
    """Reads a bounded number of rows: all of a small table, both ends of a big one."""

    def __init__(
        self, connection: Connection, facts: TableFacts, conditions: Mapping[StateKind, StateCondition]
    ) -> None:
        self.connection = connection
        self.facts = facts
        self.conditions = {kind: conditions[kind] for kind in FIRST if kind in conditions}
        self.postgres = connection.dialect.name == "postgresql"

    def counts(self) -> dict[StateKind | None, int]:
        """Count rows by state; None counts rows in no state."""
        found: dict[StateKind | None, int] = {}
        for rows in self._sources():
            kind = self._kind(rows)
            for row in self.connection.execute(
                sa.select(kind, sa.func.count()).select_from(rows).group_by(FIRST_COLUMN)
            ):
                name = None if row[0] is None else StateKind(row[0])
                found[name] = found.get(name, 0) + row[1]
        return found

    def held(self, columns: "Sequence[Column[Any]]", units: "Mapping[str, EpochUnit | None]") -> dict[str, HeldByState]:
        """Count values by column and state. `units` gives the unit of columns that hold times as numbers."""
        found: dict[str, dict[StateKind | None, ValueFacts]] = {column.name: {} for column in columns}
        if not columns:
            return {}
        for rows in self._sources():
            kind = self._kind(rows)
            parts: list[Any] = []
            for column in columns:
                value = rows.c[column.key]
                filled = value.is_not(None)
                if isinstance(column.type, sa.String) and not isinstance(column.type, sa.Enum):
                    filled &= sa.cast(value, sa.String) != ""
                elif column.name in units and isinstance(column.type, NUMBERS):
                    filled &= sa.type_coerce(value, sa.Numeric) != sa.literal_column("0")  # stands for no time
                parts.append(_how_many(filled))
                parts.append(
                    _how_many(self._ahead(column, value, units[column.name])) if column.name in units else sa.literal(0)
                )
            for row in self.connection.execute(
                sa.select(kind, sa.func.count(), *parts).select_from(rows).group_by(FIRST_COLUMN)
            ):
                name = None if row[0] is None else StateKind(row[0])
                for n, column in enumerate(columns):
                    facts = ValueFacts(row[1], row[2 + 2 * n] or 0, row[3 + 2 * n] or 0)
                    found[column.name][name] = found[column.name].get(name, ValueFacts()) + facts
        return {name: HeldByState(by_kind) for name, by_kind in found.items()}

    def how_many(self, wanted: "Callable[[Any], sa.ColumnElement[bool]]", *kinds: StateKind) -> int:
        """Count rows in these states that match a condition."""
        found = 0
        for rows in self._sources():
            some = sa.select(self._kind(rows), wanted(rows).label("wanted")).select_from(rows).subquery()
            number = sa.select(sa.func.count()).select_from(some).where(some.c.kind.in_(kinds), some.c.wanted)
            found += self.connection.scalar(number) or 0
        return found

    def hours_before(self, name: str, other: str) -> int:
        """Count rows in which one time lies before another by as much as a time zone may differ."""
        found = 0
        for rows in self._sources():
            first, second = (sa.type_coerce(rows.c[one], sa.types.NullType()) for one in (name, other))
            if self.postgres:
                seconds: Any = sa.extract("epoch", second) - sa.extract("epoch", first)
            else:
                whole = [sa.cast(sa.func.strftime("%s", one), sa.Integer) for one in (second, first)]
                seconds = whole[0] - whole[1]
            number = sa.select(sa.func.count()).select_from(rows).where(seconds.between(*ZONES))
            found += self.connection.scalar(number) or 0
        return found

    def examples(self, column: "Column[Any]", shown_as: "sa.types.TypeEngine[Any]", *kinds: StateKind) -> str:
        """Return a few example values for the report: times and numbers, never texts."""
        if not isinstance(shown_as, (sa.DateTime, sa.Date, *NUMBERS, sa.Boolean)):
            return ""
        values: dict[str, None] = {}
        for rows in self._sources():
            raw = sa.type_coerce(rows.c[column.key], sa.types.NullType())
            wanted = [self.conditions[kind].on(rows) for kind in kinds if kind in self.conditions]
            some = sa.select(raw).select_from(rows).where(rows.c[column.key].is_not(None))
            if wanted:
                some = some.where(sa.or_(*wanted))
            for value in self.connection.scalars(some.order_by(raw.desc()).limit(20)):
                values[one_line(str(value))[:26]] = None
        return ", ".join(list(values)[:SHOWN])

    def _sources(self) -> list[Any]:
        """Return the rows to read as selectables, under the table's own name."""
        table = self.facts.table
        if self.facts.exact:
            return [table]
        keys = list(table.primary_key.columns)
        ends = [sa.select(table).limit(SAMPLE)]
        if keys:
            ends.append(sa.select(table).order_by(*(key.desc() for key in keys)).limit(SAMPLE))
        return [end.subquery(table.name) for end in ends]

    def _kind(self, rows: Any) -> Any:
        whens: list[Any] = [
            (condition.on(rows), sa.literal_column(f"'{kind}'")) for kind, condition in self.conditions.items()
        ]
        return sa.case(*whens, else_=sa.null()).label("kind") if whens else sa.null().label("kind")

    def _ahead(self, column: "Column[Any]", value: Any, unit: EpochUnit | None) -> "sa.ColumnElement[bool]":
        """Return the condition that a time lies after the database's clock."""
        if unit is not None:
            now: sa.ColumnElement[Any] = (
                sa.literal_column("extract(epoch FROM now())")
                if self.postgres
                else sa.literal_column("CAST(strftime('%s', 'now') AS INTEGER)")
            )
            return sa.type_coerce(value, sa.Numeric) > now * sa.literal_column("1000" if unit == "ms" else "1")
        if isinstance(column.type, NUMBERS):
            return sa.false()  # numbers of which none is a time
        if not self.postgres:
            text = sa.func.strftime("%s", sa.type_coerce(value, sa.types.NullType()))
            return sa.cast(text, sa.Integer) > sa.literal_column("CAST(strftime('%s', 'now') AS INTEGER)")
        if isinstance(column.type, sa.DateTime) and column.type.timezone:
            return sa.type_coerce(value, sa.types.NullType()) > sa.literal_column("now()")
        return sa.type_coerce(value, sa.types.NullType()) > sa.literal_column("(now() AT TIME ZONE 'UTC')")


def _how_many(condition: "sa.ColumnElement[bool]") -> Any:
    return sa.func.sum(sa.case((condition, sa.literal_column("1")), else_=sa.literal_column("0")))
