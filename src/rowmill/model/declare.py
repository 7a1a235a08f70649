"""Checks a declaration. Every problem is reported at once, each with its fix."""

import math
import re
import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, get_args

import sqlalchemy as sa
from sqlalchemy import Column, Table

from rowmill.model.errors import DeclarationError
from rowmill.model.lifecycle import StateKind
from rowmill.model.queue import READ_ONLY, REQUIRED, Columns, Counts, FinishedOn, Order, OrderPerKey, Retention
from rowmill.model.states import Vocabulary, Word, as_value

if TYPE_CHECKING:
    from sqlalchemy.orm import Mapper

TYPES = {
    "state": "text",
    "attempts": "integer",
    "available_at": "timestamp with time zone",
    "lease": "bigint",
    "leased_until": "timestamp with time zone",
    "error": "text",
    "finished_at": "timestamp with time zone",
}
"""The type to suggest for a column that a table lacks."""

TAKEN_FOR_PARAMETERS = re.compile(r"%\([^)]*\)s|__\[POSTCOMPILE_")
"""Text that SQLAlchemy replaces by a value wherever it stands in a statement, even within quotes."""

NUMBERS = (sa.Integer, sa.Numeric, sa.Float)
NULLABLE = ("lease", "leased_until", "error", "error_code", "finished_at", "started_at")
"""Roles of columns that are empty most of the time."""
TIMES = ("available_at", "leased_until", "finished_at", "created_at", "updated_at", "started_at")


def inspect_source(source: Any) -> tuple[Table, "Mapper[Any] | None"]:
    """Return the table behind an ORM class or a Table, and its mapper if it has one."""
    if isinstance(source, Table):
        return source, None
    from sqlalchemy.orm import Mapper  # here, since a worker on a Table does without the ORM

    mapper = sa.inspect(source, raiseerr=False)
    if not isinstance(mapper, Mapper):
        name = getattr(source, "__name__", repr(source))
        raise DeclarationError(str(name), ["it is neither an ORM class nor a Table: pass one of these"])
    table = mapper.local_table
    if not isinstance(table, Table):
        raise DeclarationError(
            mapper.class_.__name__, ["it is mapped to a query, not to a table: declare the table itself"]
        )
    if mapper.inherits is not None and not mapper.concrete:
        name, top = mapper.class_.__name__, mapper.base_mapper.class_.__name__
        problem = (
            f"{name} shares table {table.name} with other classes, whose rows would be claimed too"
            if mapper.single
            else f"{name} is spread over several tables, and a claim is one statement on one"
        )
        raise DeclarationError(name, [f"{problem}: declare {top}, and each row comes as what it is"])
    return table, mapper


def columns_by_name(table: Table, mapper: "Mapper[Any] | None") -> dict[str, "Column[Any]"]:
    """Return every column under each name that a user may call it by. The attribute name of an ORM class wins over a
    column of the same name."""
    names: dict[str, Column[Any]] = {column.name: column for column in table.columns}
    names |= {str(key): column for key, column in table.columns.items()}
    if mapper is not None:
        # Not `column_attrs`: that would configure every mapper, and classes it refers to may not be defined yet.
        for name, column in mapper.columns.items():
            if getattr(column, "table", None) is table:  # not an expression
                names[str(name)] = column
    return names


def undecorated(column: "Column[Any]") -> "sa.types.TypeEngine[Any]":
    """Return the type of a column without the TypeDecorators around it."""
    kind = column.type
    while isinstance(kind, sa.types.TypeDecorator):
        kind = kind.impl_instance
    return kind


class DeclarationChecker:
    """Collects the problems of one declaration."""

    def __init__(self, name: str, table: Table, names: dict[str, "Column[Any]"]) -> None:
        self.name = name
        self.table = table
        self.names = names
        self.problems: list[str] = []

    def problem(self, text: str) -> None:
        self.problems.append(text)

    def check(self) -> None:
        if self.problems:
            raise DeclarationError(self.name, self.problems)

    def column(self, name: str, used_as: str) -> "Column[Any] | None":
        found = self.names.get(name)
        if found is None:
            known = ", ".join(column.name for column in self.table.columns)
            self.problem(f"{used_as} names column {name}, which table {self.table.name} does not have. It has: {known}")
        return found

    def columns(self, columns: Columns) -> dict[str, "Column[Any]"]:
        """Return the mapped columns by role."""
        if not self.table.primary_key.columns:
            self.problem(f"table {self.table.name} has no primary key: a row could not be told from another. Add one")
        mapped: dict[str, Column[Any]] = {}
        for role, name in columns.items():
            found = self.names.get(name)
            if found is not None:
                mapped[role] = found
            elif role in REQUIRED:
                self.problem(
                    f"table {self.table.name} lacks column {name} ({TYPES[role]}). "
                    f"Add it with: rowmill adopt {shlex.quote(self.table.name)}; or map another: Columns({role}=...)"
                )
            else:
                self.column(name, f"Columns({role}=...)")
        self.types(mapped)
        return mapped

    def types(self, mapped: dict[str, "Column[Any]"]) -> None:
        for role in ("lease", "attempts", "max_attempts"):
            column = mapped.get(role)
            if column is not None and not isinstance(column.type, sa.Integer):
                self.problem(f"column {column.name} ({role}) must be an integer, not {column.type!r}")
        lease = mapped.get("lease")
        if lease is not None and isinstance(lease.type, sa.Integer) and not isinstance(lease.type, sa.BigInteger):
            self.problem(f"column {lease.name} (lease) must be a BigInteger: tokens do not fit {lease.type!r}")
        for role in TIMES:
            column = mapped.get(role)
            if column is not None and not isinstance(undecorated(column), (sa.DateTime, *NUMBERS)):
                self.problem(
                    f"column {column.name} ({role}) must be a DateTime or an epoch number, not {column.type!r}"
                )
        for role in ("error", "error_code"):
            column = mapped.get(role)
            if column is not None and not isinstance(undecorated(column), sa.String):
                self.problem(f"column {column.name} ({role}) must be text, not {column.type!r}")
        for role, column in mapped.items():
            if column.computed is not None and role not in READ_ONLY:
                self.problem(f"column {column.name} ({role}) is computed by the database: map one that can be written")
        by_name: dict[str, str] = {}
        for role, column in mapped.items():
            other = by_name.setdefault(column.name, role)
            if other != role:
                self.problem(f"column {column.name} is mapped twice, as {other} and as {role}")
        for role in NULLABLE:
            column = mapped.get(role)
            if column is not None and not column.nullable:
                self.problem(
                    f"column {column.name} ({role}) must allow NULL: it is empty most of the time. Make it nullable"
                )

    def spellings(self, texts: Iterable[str | None], schemas: bool) -> None:
        """Check that SQLAlchemy renders names and texts in statements unchanged. Without `schemas` it renders a table's
        schema with brackets of its own, which can't be told from a parameter."""
        columns = [column.name for column in self.table.columns]
        for text in (self.table.schema, self.table.name, *columns, *texts):
            if text is not None and TAKEN_FOR_PARAMETERS.search(text):
                self.problem(f"SQLAlchemy takes a part of {text!r} for a parameter of its own: use another name")
        if not schemas and not {"[", "]"}.isdisjoint(self.table.schema or ""):
            self.problem(f"on SQLite, SQLAlchemy can't do without schema {self.table.schema!r}: leave out its brackets")

    def order(self, order: Order) -> tuple["Column[Any] | None", tuple["Column[Any]", ...]]:
        priority = None if order.priority is None else self.column(order.priority, "Order(priority=...)")
        if priority is not None and not isinstance(undecorated(priority), NUMBERS):
            self.problem(f"column {priority.name} (priority) must be a number, not {priority.type!r}")
        return priority, self.listed(order.by, "Order(by=...)")

    def order_per_key(
        self, order_per_key: OrderPerKey | None
    ) -> tuple["Column[Any] | None", tuple["Column[Any]", ...]]:
        if order_per_key is None:
            return None, ()
        if order_per_key.on_dead not in ("block", "skip"):
            self.problem(f'OrderPerKey(on_dead=...) is "block" or "skip", not {order_per_key.on_dead!r}')
        by = self.listed(order_per_key.by, "OrderPerKey(by=...)")
        for column in by:
            if column.nullable:
                self.problem(
                    f"column {column.name} (OrderPerKey(by=...)) may be NULL, which has no place in an order: "
                    "make it NOT NULL, or leave it out, and the key decides"
                )
        return self.column(order_per_key.per, "OrderPerKey(per=...)"), by

    def epoch(self, unit: str, mapped: dict[str, "Column[Any]"]) -> None:
        if unit not in ("s", "ms"):
            self.problem(f'epoch=... is "s" or "ms", not {unit!r}')
        for role in TIMES:
            column = mapped.get(role)
            kind = None if column is None else undecorated(column)
            if unit == "ms" and isinstance(kind, sa.Integer) and not isinstance(kind, sa.BigInteger):
                name = mapped[role].name
                self.problem(f"column {name} ({role}) must be a BigInteger: milliseconds do not fit {kind!r}")

    def meanings(
        self, counts: Counts, finished_on: FinishedOn, retention: Retention, mapped: dict[str, "Column[Any]"]
    ) -> None:
        """Check `counts` and `finished_on` against the columns that are mapped."""
        for option, given, known in (
            ("counts", counts, get_args(Counts)),
            ("finished_on", finished_on, get_args(FinishedOn)),
        ):
            if given not in known:
                self.problem(f"{option}=... is {' or '.join(map(repr, known))}, not {given!r}")
        if finished_on == "done" and not {"updated_at", "created_at"} & mapped.keys():
            for kind in (kind for kind in retention.ages() if kind is not StateKind.DONE):
                self.problem(
                    f'Retention({kind}=...) needs to know how old a {kind} row is, and finished_on="done" leaves its '
                    "finished_at empty. Map a time that it has: Columns(updated_at=...) or Columns(created_at=...)"
                )

    def listed(self, names: Iterable[str], used_as: str) -> tuple["Column[Any]", ...]:
        if isinstance(names, str):
            self.problem(f'{used_as} takes a tuple of names, as in ("{names}",)')
            return ()
        found = [self.column(name, used_as) for name in names]
        return tuple(column for column in found if column is not None)

    def words(self, vocabulary: Vocabulary, state: "Column[Any] | None") -> None:
        names = [step.name for step in vocabulary.steps]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.problem(f"two stages are called {name}: give each its own name")
        for step in vocabulary.steps:
            if not step.ready or not step.running:
                self.problem(f"stage {step.name} needs a word for ready and one for running")
        if not vocabulary.done or not vocabulary.dead:
            self.problem("States needs a word for done and one for dead")
        meaning: dict[Word, str] = {}
        for word, means in (*vocabulary.meanings(), *((word, "one of others") for word in vocabulary.others)):
            other = meaning.setdefault(word, means)
            if other != means:
                self.problem(f"the word {word!r} means both {other} and {means}: every state needs a word of its own")
            if state is not None:
                self.word(word, state)

    def word(self, word: Word, state: "Column[Any]") -> None:
        kind = state.type
        if isinstance(kind, sa.Enum):
            if kind.enum_class is not None and isinstance(word, kind.enum_class):
                return
            if word not in kind.enums:
                self.problem(f"column {state.name} does not take the word {word!r}. It takes: {', '.join(kind.enums)}")
            return
        word = as_value(word, kind)
        if isinstance(kind, sa.Integer) and not isinstance(word, int):
            self.problem(
                f"column {state.name} holds numbers, and the word {word!r} is none: use the codes of the table"
            )
        elif isinstance(kind, sa.String):
            if not isinstance(word, str):
                self.problem(f"column {state.name} holds text, and the word {word!r} is none")
            elif not word:
                self.problem("a state can't be an empty word")
            elif kind.length is not None and len(word) > kind.length:
                self.problem(
                    f"the word {word!r} does not fit column {state.name}, which takes {kind.length} characters"
                )

    def spelling(self, vocabulary: Vocabulary, state: "Column[Any]", spell: Callable[[Word], str]) -> None:
        """Check that every state word can be written as a literal, and that no two words with different meanings are
        written alike."""
        seen: dict[str, tuple[Word, str]] = {}
        for word, means in (*vocabulary.meanings(), *((word, "one of others") for word in vocabulary.others)):
            try:
                spelled = spell(word)
            except Exception as error:
                self.problem(f"column {state.name} does not take the word {word!r}: {type(error).__name__}: {error}")
                continue
            other, meant = seen.setdefault(spelled, (word, means))
            if meant != means and other != word:
                self.problem(
                    f"the words {other!r} and {word!r} are both stored as {spelled}, and mean {meant} and {means}: "
                    "every state needs a word of its own"
                )

    def retention(self, retention: Retention, vocabulary: Vocabulary) -> None:
        for kind, age in retention.ages().items():
            if not 0 <= age < math.inf:
                self.problem(f"Retention({kind}=...) must be a time of 0 seconds or more, not {age}. Write days(7)")
            if kind is StateKind.CANCELLED and not vocabulary.cancelled:
                self.problem("Retention(cancelled=...) is for rows that this queue has no word for: leave it out")

    def policies(self, vocabulary: Vocabulary) -> None:
        for step in vocabulary.steps:
            if step.retry.attempts < 1:
                self.problem(f"stage {step.name}: Retry(attempts=...) must be 1 or more, not {step.retry.attempts}")
            if step.retry.jitter < 0:
                self.problem(f"stage {step.name}: Retry(jitter=...) can't be negative")
            if step.lease < 1:
                self.problem(
                    f"stage {step.name}: a lease of {step.lease} s is too short to be renewed; use 1 s or more"
                )
            if step.timeout is not None and step.timeout <= 0:
                self.problem(f"stage {step.name}: a timeout must be positive, not {step.timeout}")
