"""A queue: a table, the columns that hold the progress of a row, the words for its states, and the policies."""

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import sqlalchemy as sa
from sqlalchemy import Column, Table

from rowmill.model.dead_rows import DeadRowListener
from rowmill.model.duration import DurationField
from rowmill.model.lifecycle import CLAIM, FINAL, AttemptsChange, Move, StateKind
from rowmill.model.option_names import checks_options, listed
from rowmill.model.states import Step, Vocabulary, Word

if TYPE_CHECKING:
    from sqlalchemy.orm import Mapper

    from rowmill.model.permits import PermitGate

R = TypeVar("R")


@checks_options
@dataclass(frozen=True, slots=True)
class Columns:
    """Which column holds what, by the name of the column or of the ORM attribute. The columns from `error_code` on are
    optional.

    `max_attempts` is a limit of the row's own, which your code writes: it takes the place of `Retry.attempts`. NULL
    means that the row has none; a number below 1 means one attempt.
    """

    state: str = "state"
    attempts: str = "attempts"
    available_at: str = "available_at"
    lease: str = "lease"
    leased_until: str = "leased_until"
    error: str = "error"
    finished_at: str = "finished_at"
    error_code: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    started_at: str | None = None
    max_attempts: str | None = None

    def items(self) -> list[tuple[str, str]]:
        """Return (role, name) of every column that is mapped."""
        pairs = ((field.name, getattr(self, field.name)) for field in fields(self))
        return [(role, name) for role, name in pairs if name is not None]


REQUIRED = ("state", "attempts", "available_at", "lease", "leased_until", "error", "finished_at")

READ_ONLY = ("created_at", "max_attempts")
"""Roles of columns that the engine reads and never writes."""


@checks_options
@dataclass(frozen=True, slots=True)
class Order:
    """The order of claims: by priority if there is one, then by the time a row became available, then by columns of
    yours (smallest first), then by the key."""

    priority: str | None = None
    lower_first: bool = False
    by: tuple[str, ...] = ()


@checks_options
@dataclass(frozen=True, slots=True)
class OrderPerKey:
    """Run rows with the same `per` one at a time, in the order of `by` (then the key). No row is claimed while another
    of its key runs or an earlier one is unfinished.

    `on_dead` says what a dead row does to those behind it: hold them back, or let them pass.
    """

    per: str
    by: tuple[str, ...] = ()
    on_dead: Literal["block", "skip"] = "block"


@checks_options
@dataclass(frozen=True, slots=True)
class CrashCodes:
    """The codes written to the error column when a worker died while it held the row."""

    requeued: str = "lease_expired"
    buried: str = "lease_expired_max_attempts"


@checks_options
@dataclass(frozen=True)
class Retention:
    """How long finished rows stay after they finished, as seconds or a `timedelta`; None: for ever. One worker deletes
    older rows for the fleet: all the time, or by a schedule, if `cron` says when. A row whose end sets no `finished_at`
    (`finished_on="done"`) ages by `updated_at`, or else by `created_at`."""

    done: DurationField[float | None] = DurationField(None)
    dead: DurationField[float | None] = DurationField(None)
    cancelled: DurationField[float | None] = DurationField(None)
    cron: str | None = None
    tz: str = "UTC"

    def ages(self) -> dict[StateKind, float]:
        """Return the seconds that rows are kept, for each final state whose rows are deleted."""
        found = {StateKind.DONE: self.done, StateKind.DEAD: self.dead, StateKind.CANCELLED: self.cancelled}
        return {kind: age for kind, age in found.items() if age is not None}


EpochUnit = Literal["s", "ms"]
Counts = Literal["attempts", "failures"]
"""What the attempts column holds at rest: all tries of the row's stage, or only those that failed."""
FinishedOn = Literal["final", "done"]
"""Which ends of a row set its `finished_at`: every final state, or success alone."""


@dataclass(frozen=True, slots=True)
class Only:
    """The part of a shared table that a queue claims and rescues: rows with one of these values."""

    column: "Column[Any]"
    values: tuple[str, ...]


class QueueSpec(Generic[R]):
    """A checked declaration of a queue. Made by `Mill.queue`."""

    def __init__(
        self,
        *,
        name: str,
        table: Table,
        mapper: "Mapper[Any] | None",
        columns: Mapping[str, "Column[Any]"],
        names: Mapping[str, "Column[Any]"],
        vocabulary: Vocabulary,
        priority: "Column[Any] | None" = None,
        lower_first: bool = False,
        order_by: tuple["Column[Any]", ...] = (),
        per: "Column[Any] | None" = None,
        per_by: tuple["Column[Any]", ...] = (),
        dead_blocks: bool = True,
        crash_codes: CrashCodes | None = None,
        epoch: EpochUnit = "s",
        counts: Counts = "attempts",
        finished_on: FinishedOn = "final",
        only: "Only | None" = None,
        where: "sa.ColumnElement[bool] | None" = None,
        retention: Retention | None = None,
        loaded: tuple["Column[Any]", ...] | None = None,
    ) -> None:
        self.name = name
        self.table = table
        self.mapper = mapper
        self.columns = dict(columns)
        self.names = dict(names)
        self.vocabulary = vocabulary
        self.priority = priority
        self.lower_first = lower_first
        self.order_by = order_by
        self.per = per
        self.per_by = per_by
        self.dead_blocks = dead_blocks
        self.crash_codes = crash_codes or CrashCodes()
        self.epoch = epoch
        self.counting = counts
        self.finished_on = finished_on
        self.only = only
        self.where = where
        """The rows that this application may claim, as a condition over the table's columns; None: all of them."""
        self.retention = retention or Retention()
        self.loaded = loaded
        """The columns named by `load=`; None if they were not named."""
        self.key: tuple[Column[Any], ...] = tuple(table.primary_key.columns)
        self.by_name: dict[str, Column[Any]] = {column.name: column for column in table.columns}
        """The columns by their names in the database, which may differ from the keys of `table.columns`."""
        self.handlers: dict[str, Handler] = {}
        self.parts: tuple[QueueSpec[R], ...] = ()
        """Parts of the queue's rows, each claimed by itself and run in slots of its own; empty if there is one part."""
        self.dead_row_listener: DeadRowListener | None = None

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.vocabulary.steps

    def part(self, values: tuple[str, ...], handlers: "dict[str, Handler]") -> "QueueSpec[R]":
        """Return this queue restricted to the rows with these values, out of those that `only` names."""
        if self.only is None:
            raise ValueError(f"queue {self.name} has all rows of its table: it has no parts")
        part = copy(self)
        part.only, part.handlers, part.parts = Only(self.only.column, values), handlers, ()
        return part

    @property
    def label(self) -> tuple[str, ...]:
        """A tuple that tells this queue from others, and from other parts of itself."""
        return (self.name, *(() if self.only is None else self.only.values))

    def step(self, name: str | None = None) -> Step:
        """Return the stage of that name; the first one if no name is given."""
        if name is None:
            return self.steps[0]
        found = next((step for step in self.steps if step.name == name), None)
        if found is None:
            known = listed([step.name for step in self.steps], name)
            raise KeyError(f"queue {self.name} has no stage {name}; it has: {known}")
        return found

    def target(self, move: Move, step: Step) -> Word:
        """Return the state word that a move writes at a stage."""
        match move.target:
            case StateKind.READY:
                return step.following if move.name == "advance" and step.following is not None else step.ready[0]
            case StateKind.WAITING:
                return (step.waiting or step.ready)[0]
            case StateKind.RUNNING:
                return step.running[0]
            case kind:
                return self.vocabulary.of(kind)[0]

    def counted(self, move: Move) -> AttemptsChange:
        """Return what a move does to the attempts column."""
        return move.attempts if move.failures is None or self.counting == "attempts" else move.failures

    def sets_finished_at(self, kind: StateKind) -> bool:
        """Return whether a row that reaches this state gets a `finished_at`."""
        return kind is StateKind.DONE or (kind in FINAL and self.finished_on == "final")

    def aged_by(self, kind: StateKind) -> str:
        """Return the role of the column that says since when a row is in this final state."""
        if self.sets_finished_at(kind):
            return "finished_at"
        return "updated_at" if "updated_at" in self.columns else "created_at"

    def sources(self, move: Move, step: Step) -> tuple[Word, ...]:
        """Return the state words that a move starts from, at a stage."""
        if move is CLAIM:
            return step.claimable
        if move.source == {StateKind.RUNNING}:
            return step.running
        return self.vocabulary.all_of(move.source)

    def unlimited(self, step: Step) -> bool:
        """Return whether rows have no limit of attempts at this stage."""
        return step.retry.unlimited and "max_attempts" not in self.columns

    @property
    def can_cancel(self) -> bool:
        return bool(self.vocabulary.cancelled)

    @cached_property
    def reserved(self) -> frozenset[str]:
        """The columns that belong to the engine. A handler may not set them."""
        own = {column.name for role, column in self.columns.items() if role not in READ_ONLY}
        return frozenset(own | {column.name for column in self.key})

    @cached_property
    def writable(self) -> dict[str, str]:
        """The columns that a handler may set, under every name that they go by."""
        return {name: column.name for name, column in self.names.items() if column.name not in self.reserved}

    @cached_property
    def claimed(self) -> tuple["Column[Any]", ...]:
        """The columns that a claim reads, in the table's order: those named by `load`, or all but those that the ORM
        class defers, and always what the engine needs. Call it only after every ORM class is defined."""
        wanted = set(self.table.columns) - self._deferred() if self.loaded is None else set(self.loaded)
        wanted |= {*self.key, *self.columns.values(), *self.order_by, *self.per_by}
        wanted |= {column for column in (self.priority, self.per) if column is not None}
        if self.mapper is not None and isinstance(self.mapper.polymorphic_on, Column):
            wanted.add(self.mapper.polymorphic_on)
        return tuple(column for column in self.table.columns if column in wanted)

    @cached_property
    def left_out(self) -> frozenset["Column[Any]"]:
        """The columns that a claim does not read. `Lease.fetch` reads them."""
        return frozenset(set(self.table.columns) - set(self.claimed))

    def _deferred(self) -> set["Column[Any]"]:
        """Return the columns that every mapped class of the table defers."""
        if self.mapper is None:
            return set()
        found: dict[bool, set[Any]] = {True: set(), False: set()}
        for mapper in self.mapper.self_and_descendants:
            for attribute in mapper.column_attrs:
                found[attribute.deferred].update(attribute.columns)
        return found[True] - found[False]

    def key_text(self, key: Any) -> str:
        """Return the key as one text, for logs, history and the command line."""
        return "|".join(str(part) for part in key) if isinstance(key, tuple) else str(key)

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"


@dataclass(frozen=True, slots=True)
class Handler:
    """The function for one stage, and how it is run."""

    call: Callable[..., Any]
    concurrency: int
    batch: int | None
    """How many rows the handler gets at once; None for one row at a time."""
    timeout: float | None
    threaded: bool
    timeout_of: Callable[[Any], float | None] | None = None
    """Returns the time-out of a call, where it differs from row to row; only for threaded handlers."""
    gate: "PermitGate | None" = None
    """Grants the permits that rows need before they run; None if they need none."""

    def limit(self, argument: Any) -> float | None:
        return self.timeout if self.timeout_of is None else self.timeout_of(argument)


def name_of(call: Callable[..., Any]) -> str:
    """Return the qualified name of a function, or of the class of a callable object."""
    named = call if hasattr(call, "__qualname__") else type(call)
    return f"{named.__module__}.{named.__qualname__}"


def blocks(call: Callable[..., Any]) -> bool:
    """Return whether this is a plain function, which has to run in a thread."""
    return not inspect.iscoroutinefunction(call) and not inspect.iscoroutinefunction(
        getattr(call, "__call__", None)  # noqa: B004
    )
