"""The names, words and times of one queue, as text of one SQL dialect.

Names are quoted by SQLAlchemy, so that any name works. State words are literals in every statement and
index, never parameters: the planner proves that a partial index serves a statement only from literals.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.util import ClauseAdapter

from rowmill.model import lifecycle
from rowmill.model.dead_rows import ATTEMPTS_USED_UP, USED_UP
from rowmill.model.lifecycle import AttemptsChange, Move
from rowmill.model.queue import QueueSpec
from rowmill.model.states import Step, Word, as_value
from rowmill.store.watermark import Stretch

ROW = 1000
"""Bytes of a claimed row without its long values: its lease, its record, its numbers and times."""
LARGEST_INTEGER = 2**63 - 1
FIXED = (sa.Integer, sa.Numeric, sa.Float, sa.Boolean, sa.DateTime, sa.Date, sa.Time, sa.Interval, sa.Uuid, sa.Enum)
"""Types whose values are small, whatever they hold."""


class QueueSql(ABC):
    """The SQL of one queue. Each dialect has a subclass."""

    def __init__(self, queue: QueueSpec[Any], dialect: Dialect) -> None:
        self.queue = queue
        self.dialect = dialect
        self.preparer = dialect.identifier_preparer
        self.state = self.role("state")
        self.attempts = self.role("attempts")
        self.available_at = self.role("available_at")
        self.lease = self.role("lease")
        self.leased_until = self.role("leased_until")
        self.keys = [self.name(column) for column in queue.key]

    @property
    @abstractmethod
    def table(self) -> str:
        """The quoted name of the table."""

    @abstractmethod
    def parameter(self, place: int) -> str:
        """Return the placeholder at this place, counted from 1."""

    @abstractmethod
    def moment(self, column: "Column[Any]", wait: str | None = None) -> str:
        """Return an expression for the database's time, or `wait` seconds from it, in the type of this column."""

    @abstractmethod
    def shifted(self, column: "Column[Any]", seconds: float) -> str:
        """Return an expression for the time in this column, moved by a number of seconds."""

    @abstractmethod
    def bytes_of(self, column: "Column[Any]", alias: str = "") -> str:
        """Return an expression for the bytes of a column's value, as far as they are known without reading it."""

    def name(self, column: "Column[Any]") -> str:
        return self.preparer.format_column(column)

    def claimed(self, alias: str = "") -> str:
        """Return the columns that a claim reads, for RETURNING."""
        return ", ".join(f"{alias}{self.name(column)}" for column in self.queue.claimed)

    @cached_property
    def long(self) -> list["Column[Any]"]:
        """The columns that a claim reads and whose values may be long. The queue's own columns are not: the state is a
        word, and a claim clears the error."""
        own = {*self.queue.columns.values(), *self.queue.key}
        return [
            column
            for column in self.queue.claimed
            if column not in own and not isinstance(bare(column, self.dialect), FIXED)
        ]

    def weight(self, alias: str = "") -> str:
        """Return an expression for the bytes of a row that a claim would read."""
        return " + ".join([str(ROW), *(self.bytes_of(column, alias) for column in self.long)])

    def quote(self, name: str) -> str:
        return self.preparer.quote(name)

    def role(self, role: str) -> str:
        return self.name(self.queue.columns[role])

    def now(self, role: str) -> str:
        return self.moment(self.queue.columns[role])

    def later(self, role: str, wait: str) -> str:
        return self.moment(self.queue.columns[role], wait)

    def word(self, word: Word) -> str:
        """Return a state word as a literal."""
        return literal_word(self.queue.columns["state"], word, self.dialect)

    def literal(self, kind: "sa.types.TypeEngine[Any]", value: Any) -> str:
        return literal(kind, value, self.dialect)

    def text(self, value: str) -> str:
        return self.literal(sa.String(), value)

    def words(self, words: Iterable[Word]) -> str:
        return ", ".join(self.word(word) for word in words)

    def is_in(self, words: Iterable[Word], alias: str = "") -> str:
        """Return `state IN (…)`, spelled as in the index, so that the planner recognises it."""
        return f"{alias}{self.state} IN ({self.words(words)})"

    @property
    def part(self) -> str:
        """The condition, with its AND, of a queue that has only some of the table's rows."""
        only = self.queue.only
        if only is None:
            return ""
        return f" AND {self.name(only.column)} IN ({', '.join(map(self.text, only.values))})"

    @cached_property
    def condition(self) -> str:
        """The condition of `where=`, as text; empty if the queue claims all rows."""
        return "" if self.queue.where is None else condition_text(self.queue.where, self.dialect)

    def may_claim(self, alias: str = "") -> str:
        """Return the condition of `where=`, with its AND. `alias` ends with a dot."""
        if self.queue.where is None:
            return ""
        if not alias:
            return f" AND ({self.condition})"
        other = ClauseAdapter(self.queue.table.alias(alias.removesuffix("."))).traverse(self.queue.where)
        return f" AND ({condition_text(other, self.dialect, tables=True)})"

    @property
    def priority(self) -> str | None:
        """The priority as an expression. NULL counts as 0."""
        column = self.queue.priority
        if column is None:
            return None
        return f"coalesce({self.name(column)}, 0)" if column.nullable else self.name(column)

    @property
    def priority_direction(self) -> str:
        return "ASC" if self.queue.lower_first else "DESC"

    @property
    def sequence(self) -> list[str]:
        """The columns that order rows of one priority, after `available_at`. The key makes the order total."""
        own = [self.name(column) for column in self.queue.order_by]
        return own + [key for key in self.keys if key not in own]

    @property
    def order(self) -> str:
        """The ORDER BY of a claim, which is the order of the ready index."""
        first = [f"{self.priority} {self.priority_direction}"] if self.priority else []
        return ", ".join([*first, self.available_at + self.nulls_first, *self.sequence])

    @property
    def nulls_first(self) -> str:
        """The words that sort NULL first, where that is not the default: such rows are available at once."""
        return ""

    @property
    def due(self) -> str:
        return f"{self.available_at} <= {self.now('available_at')}"

    def stretch(self, step: Step, stretch: Stretch, level: int) -> tuple[list[str], list[str]]:
        """Return the conditions of one stretch of the ready index, and the columns that order it. `level` is the place
        of the parameter with its priority, if the queue has priorities."""
        conditions = [self.is_in(step.claimable) + self.part + self.may_claim()]
        if self.priority is not None and stretch is not Stretch.WHOLE:
            conditions.append(f"{self.priority} = {self.parameter(level)}")
        match stretch:
            case Stretch.AT_ONCE:
                conditions.append(f"{self.available_at} IS NULL")
            case Stretch.TIMED:
                conditions.append(self.due)
            case Stretch.WHOLE:
                conditions.append(f"({self.available_at} IS NULL OR {self.due})")
        return conditions, self.position(stretch)

    def position(self, stretch: Stretch) -> list[str]:
        """Return the columns that order the rows of one stretch of the ready index."""
        match stretch:
            case Stretch.AT_ONCE:
                return self.sequence
            case Stretch.TIMED:
                return [self.available_at, *self.sequence]
            case Stretch.WHOLE:
                return []

    def leaving_out(self, left_out: int, first: int, alias: str = "") -> list[str]:
        """Return conditions that leave out a number of keys, whose parts are parameters from the place `first` on."""
        places = iter(range(first, first + left_out * len(self.keys)))
        same = [[f"{alias}{key} = {self.parameter(next(places))}" for key in self.keys] for _ in range(left_out)]
        return [f"NOT ({' AND '.join(parts)})" for parts in same]

    @property
    def per_sequence(self) -> list[str]:
        """The columns that order rows of one key, in a queue with order per key."""
        own = [self.name(column) for column in self.queue.per_by]
        return own + [key for key in self.keys if key not in own]

    @property
    def running_first(self) -> str:
        """An ORDER BY term that puts running rows of a key before waiting ones, whatever the order of the key says."""
        return f"({self.is_in(self.queue.vocabulary.of(lifecycle.StateKind.RUNNING))}) DESC"

    @property
    def holding(self) -> tuple[Word, ...]:
        """The states in which an earlier row holds back the later ones of its key."""
        kinds = set(lifecycle.UNFINISHED)
        if self.queue.dead_blocks:
            kinds.add(lifecycle.StateKind.DEAD)
        return self.queue.vocabulary.all_of(frozenset(kinds))

    @cached_property
    def writes_a_key(self) -> bool:
        """Whether the engine writes a column of a unique key. Its updates then take a stronger lock: they wait for
        transactions that only refer to a row, so statements that pick rows have to skip those."""
        keys = [key for key in self.queue.table.constraints if isinstance(key, sa.UniqueConstraint)]
        unique = {column for key in keys for column in key.columns} | set(self.queue.key)
        unique |= {column for index in self.queue.table.indexes if index.unique for column in index.columns}
        return not unique.isdisjoint(self.queue.columns.values())

    def assignments(
        self,
        move: Move,
        step: Step,
        *,
        wait: str = "0",
        error: str = "NULL",
        code: str = "NULL",
        token: str = "NULL",
    ) -> list[tuple[str, str]]:
        """Return what a move writes, as (column, expression) pairs made from the lifecycle's data."""
        queue = self.queue
        pairs = [(self.state, self.word(queue.target(move, step)))]
        match queue.counted(move):
            case AttemptsChange.COUNT:
                pairs.append((self.attempts, self.attempts_plus(1)))
            case AttemptsChange.GIVE_BACK:
                pairs.append((self.attempts, self.attempts_plus(-1)))
            case AttemptsChange.RESET:
                pairs.append((self.attempts, "0"))
            case AttemptsChange.KEEP:
                pass
        pairs.append((self.lease, token))
        pairs.append((self.leased_until, self.later("leased_until", wait) if move.takes_lease else "NULL"))
        if move.target in lifecycle.CLAIMABLE:
            at = self.later("available_at", wait) if move.delayed else self.now("available_at")
            pairs.append((self.available_at, at))
        match move.error:
            case lifecycle.ErrorChange.CLEAR:
                pairs += self.error_columns("NULL", "NULL")
            case lifecycle.ErrorChange.SET:
                pairs += self.error_columns(error, code)
            case lifecycle.ErrorChange.KEEP:
                pass
        if queue.sets_finished_at(move.target):
            pairs.append((self.role("finished_at"), self.now("finished_at")))
        elif move.finishes or move.name in ("advance", "requeue"):
            pairs.append((self.role("finished_at"), "NULL"))
        if move.takes_lease and "started_at" in queue.columns:
            pairs.append((self.role("started_at"), self.now("started_at")))
        if "updated_at" in queue.columns:
            pairs.append((self.role("updated_at"), self.now("updated_at")))
        return pairs

    def values(self, move: Move, step: Step, error: str = "") -> dict[Any, Any]:
        """Return what a move writes, for `update().values(…)`. `error` is the text of a code without a message."""
        text = self.text(error)
        by_name = {self.name(column): column for column in self.queue.table.columns}
        pairs = self.assignments(move, step, error=text, code=text)
        return {by_name[name]: sa.literal_column(value) for name, value in pairs}

    def claim_assignments(self, step: Step, *, wait: str, token: str) -> list[tuple[str, str]]:
        """Return what a claim writes: it takes a row, or buries one whose attempts are used up.

        The column itself stands at the end of each CASE for its type: words and parameters have none of their own,
        and a column of an enum type takes no text.
        """
        taken = dict(self.assignments(lifecycle.CLAIM, step, wait=wait, token=token))
        if self.queue.unlimited(step):
            return list(taken.items())
        error, code = self.used_up_message(step, f"{ATTEMPTS_USED_UP}: "), self.text(ATTEMPTS_USED_UP)
        buried = dict(self.assignments(lifecycle.EXHAUST, step, error=error, code=code))
        pairs = []
        for column in dict.fromkeys((*taken, *buried)):
            then, otherwise = buried.get(column, column), taken.get(column, column)
            if then != otherwise:
                then = f"CASE WHEN {self.used_up(step)} THEN {then} WHEN true THEN {otherwise} ELSE {column} END"
            pairs.append((column, then))
        return pairs

    def used_up(self, step: Step, alias: str = "") -> str:
        """Return the condition that a row has had all of its attempts at this stage."""
        return f"coalesce({alias}{self.attempts}, 0) >= {self.limit(step, alias)}"

    def limit(self, step: Step, alias: str = "") -> str:
        """Return the number of attempts that a row may have at this stage: a number, or an expression where rows have
        limits of their own. The SQL counterpart of `Retry.with_limit`."""
        most = min(step.retry.attempts, LARGEST_INTEGER)
        own = self.queue.columns.get("max_attempts")
        return str(most) if own is None else self.own_limit(f"{alias}{self.name(own)}", most)

    @abstractmethod
    def own_limit(self, own: str, most: int) -> str:
        """Return the limit in the column `own`, at least 1; `most` for a row without one."""

    def used_up_message(self, step: Step, code: str = "") -> str:
        """Return an expression for the error of a row that is claimed with no attempts left."""
        before, after = USED_UP
        if "max_attempts" not in self.queue.columns:
            return self.text(f"{code}{before}{self.limit(step)}{after}")
        return f"({self.text(code + before)} || {self.limit(step)} || {self.text(after)})"

    def error_columns(self, error: str, code: str) -> list[tuple[str, str]]:
        pairs = [(self.role("error"), self.cut("error", error))]
        if "error_code" in self.queue.columns:
            pairs.append((self.role("error_code"), self.cut("error_code", code)))
        return pairs

    def cut(self, role: str, text: str) -> str:
        """Return text cut to the length of the column: a failure must not fail to be written."""
        length = getattr(bare(self.queue.columns[role], self.dialect), "length", None)
        return text if length is None or text == "NULL" else f"substr({text}, 1, {length})"

    @abstractmethod
    def attempts_plus(self, n: int) -> str:
        """Return the number of attempts changed by n, never below zero. NULL counts as 0."""

    def binder(self, column: "Column[Any]") -> Callable[[Any], Any] | None:
        """Return the function that converts a Python value to what the driver takes for this column; None if none is
        needed."""
        return column.type.dialect_impl(self.dialect).bind_processor(self.dialect)

    def reader(self, column: "Column[Any]") -> Callable[[Any], Any] | None:
        """Return the function that converts what the driver gives for this column to a Python value; None if none is
        needed."""
        return column.type.dialect_impl(self.dialect).result_processor(self.dialect, None)


def literal_word(state: "Column[Any]", word: Word, dialect: Dialect) -> str:
    """Return a state word as a literal for statements."""
    return literal(state.type, as_value(word, state.type), dialect)


def literal(kind: "sa.types.TypeEngine[Any]", value: Any, dialect: Dialect) -> str:
    process = kind.dialect_impl(dialect).literal_processor(dialect)
    if process is None:
        raise TypeError(f"{kind!r} has no literals, so it can't hold a state")
    return process(value)


def condition_text(condition: "sa.ColumnElement[bool]", dialect: Dialect, *, tables: bool = False) -> str:
    """Return a condition as text, with values as literals; its columns with their table's name if `tables`."""
    options = {"literal_binds": True, "include_table": tables}
    return str(condition.compile(dialect=dialect, compile_kwargs=options))


def set_clause(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{column} = {value}" for column, value in pairs)


def bare(column: "Column[Any]", dialect: Dialect) -> "sa.types.TypeEngine[Any]":
    """Return the type that a column has in this database: its variant, without TypeDecorators."""
    kind = column.type.dialect_impl(dialect)
    while isinstance(kind, sa.types.TypeDecorator):
        kind = kind.type_engine(dialect).dialect_impl(dialect)
    return kind
