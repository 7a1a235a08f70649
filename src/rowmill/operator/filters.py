"""One filter for rows, understood alike by every command."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection

from rowmill.model.errors import BadRequest
from rowmill.model.lifecycle import CLAIMABLE, FINAL, StateKind
from rowmill.model.queue import QueueSpec
from rowmill.model.states import Step
from rowmill.store.expressions import in_words, keys_in
from rowmill.store.keys import key_text_sql, parse_key, scalar
from rowmill.store.own.schema import own_tables
from rowmill.store.queue_sql import QueueSql, bare
from rowmill.store.state_words import StateWords

When = timedelta | datetime
"""A time: a duration before the database's now, or a datetime."""

CHANGES = ("updated_at", "finished_at", "started_at", "available_at", "created_at")
"""The columns that say when a row last changed. The first that it has decides."""

UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
LONGEST = 1000 * 365 * 86400


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects rows of a queue. An empty filter selects all of them."""

    states: tuple[str, ...] = ()
    """Words of the table or kinds."""
    stage: str | None = None
    error_code: str | None = None
    since: When | None = None
    until: When | None = None
    where: str | None = None
    """The operator's own SQL, which is trusted."""
    keys: tuple[str, ...] = ()
    condition: "sa.ColumnElement[bool] | None" = field(default=None, compare=False)
    """A condition in SQLAlchemy, for callers from code."""

    @property
    def empty(self) -> bool:
        return self == Filter() and self.condition is None

    def conditions(self, sql: QueueSql) -> list["sa.ColumnElement[bool]"]:
        """Return the conditions that a row has to fulfil. Raises BadRequest for a state, stage or key that the queue
        does not know."""
        found = []
        if self.states:
            state_words = StateWords(sql)
            found.append(sa.or_(*(state_words.condition(text) for text in self.states)))
        if self.stage is not None:
            found.append(at_stage(sql, self.stage))
        if self.error_code is not None:
            found.append(failed_with(sql, self.error_code))
        if self.since is not None:
            found.append(changed(sql, self.since, after=True))
        if self.until is not None:
            found.append(changed(sql, self.until, after=False))
        if self.where is not None:
            found.append(trusted(sql, self.where))
        if self.condition is not None:
            found.append(self.condition)
        if self.keys:
            found.append(keys_in(sql, [parse_key(sql.queue, text) for text in self.keys]))
        return found


# served by: the stage's ready index and the running index; for dead rows, the history's index on (queue, key)
def at_stage(sql: QueueSql, name: str) -> "sa.ColumnElement[bool]":
    """Return the condition for rows at a stage. A dead row does not hold its stage: the last entry of its history
    does."""
    queue, own = sql.queue, own_tables(sql.dialect.name)
    step = known_stage(queue, name)
    failed_at = (
        sa.select(own.attempt.c.stage)
        .where(own.attempt.c.queue == queue.name, own.attempt.c.key == key_text_sql(sql))
        .order_by(own.attempt.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    here = in_words(sql, step.claimable + step.running)
    return sa.or_(here, sa.and_(in_words(sql, queue.vocabulary.of(StateKind.DEAD)), failed_at == step.name))


def known_stage(queue: QueueSpec[Any], name: str) -> Step:
    """Return the stage of that name. Raises BadRequest that lists the stages."""
    try:
        return queue.step(name)
    except KeyError as error:
        raise BadRequest(str(error.args[0])) from None


def trusted(sql: QueueSql, where: str) -> "sa.ColumnElement[bool]":
    """Return the operator's own SQL as a condition. A placeholder in it is refused: it would take one of our values and
    select rows that nobody meant."""
    outside_quotes = re.sub(r"'[^']*'|\"[^\"]*\"", "", where)
    if re.search(r"\$\d" if sql.dialect.name == "postgresql" else r"[?$@:]", outside_quotes):
        raise BadRequest("a condition in SQL takes no parameters: write the values themselves")
    # The bracket is on a line of its own, or a comment at the end would swallow it.
    return sa.literal_column(f"({where}\n)")


def failed_with(sql: QueueSql, code: str) -> "sa.ColumnElement[bool]":
    """Return the condition for rows whose last failure has this code, in its own column or at the front of the
    error."""
    column = sql.queue.columns.get("error_code")
    if column is not None:
        return column == code
    error, start = sql.queue.columns["error"], f"{code}: "
    # Not LIKE: it would read % and _ in a code, and on SQLite it does not tell cases apart.
    return sa.or_(error == code, sa.func.substr(error, 1, len(start)) == start)


def changed(sql: QueueSql, when: When, *, after: bool, by: Sequence[str] = CHANGES) -> "sa.ColumnElement[bool]":
    """Return the condition for rows that last changed after, or before, a time. The first column in `by` that is not
    NULL decides."""
    columns = [sql.queue.columns[role] for role in by if role in sql.queue.columns]
    parts = []
    for place, column in enumerate(columns):
        at: sa.ColumnElement[Any] = sa.literal_column(instant(sql, column, when))
        missing = [earlier.is_(None) for earlier in columns[:place]]
        parts.append(sa.and_(*missing, column >= at if after else column <= at))
    return sa.or_(sa.false(), *parts)


def instant(sql: QueueSql, column: "Column[Any]", when: When) -> str:
    """Return a time as SQL, in the type of a column."""
    if isinstance(when, timedelta):
        return sql.moment(column, repr(-when.total_seconds()))
    at = when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    kind = bare(column, sql.dialect)
    if not isinstance(kind, sa.DateTime):
        number = at.timestamp() * (1000 if sql.queue.epoch == "ms" else 1)
        return repr(int(number)) if isinstance(kind, sa.Integer) else repr(number)
    text = at.strftime("%Y-%m-%d %H:%M:%S.%f")
    if sql.dialect.name == "sqlite":
        return f"'{text}'"
    return f"timestamptz '{text}+00'" if kind.timezone else f"timestamp '{text}'"


def parse_when(text: str) -> When:
    """Return a time that somebody typed: 90s, 15m, 6h, 7d, or ISO 8601, in UTC unless it says otherwise."""
    if found := re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.strip().lower()):
        number, unit = found.groups()
        if unit in UNITS and float(number) * UNITS[unit] <= LONGEST:
            return timedelta(seconds=float(number) * UNITS[unit])
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadRequest(
            f"{text!r} is not a time. Write how long ago (90s, 15m, 6h, 7d) or when (2026-01-31T12:00)"
        ) from None


Condition = sa.ColumnElement[bool]


@dataclass(frozen=True, slots=True)
class Preview:
    """What a command would change."""

    rows: int
    capped: bool
    """Whether there are more rows than were counted."""
    keys: list[str]
    """The keys of a few of them."""


# served by: the primary key, walked once
def requeueable(sql: QueueSql, wanted: Filter) -> Condition:
    """Return the condition for rows that can be requeued: finished ones, those that wait for their next try, and ready
    ones without attempts left."""
    final = in_words(sql, sql.queue.vocabulary.all_of(FINAL))
    used_up = [sa.and_(in_words(sql, step.claimable), sa.literal_column(sql.used_up(step))) for step in sql.queue.steps]
    return sa.and_(sa.or_(final, StateWords(sql).waiting(), *used_up), *wanted.conditions(sql))


# served by: the ready indexes, or the primary key, walked once
def cancellable(sql: QueueSql, wanted: Filter) -> Condition:
    """Return the condition for rows that nobody has taken yet."""
    if not sql.queue.can_cancel:
        raise BadRequest(
            f"queue {sql.queue.name} has no word for cancelled rows. "
            'Declare one: States(cancelled="cancelled"), if the column takes it'
        )
    waiting = in_words(sql, sql.queue.vocabulary.all_of(CLAIMABLE))
    return sa.and_(waiting, *wanted.conditions(sql))


# served by: an index on finished_at where there is one (`indexes.prune_index`), else the primary key, walked once
def prunable(sql: QueueSql, wanted: Filter, older_than: timedelta) -> list[Condition]:
    """Return the conditions for rows that finished long enough ago; of those without a `finished_at`, by their last
    change."""
    if older_than < timedelta(0):
        raise BadRequest("an age can't be negative")
    final = in_words(sql, sql.queue.vocabulary.all_of(FINAL))
    finished = sql.queue.columns["finished_at"]
    aged = changed(sql, older_than, after=False, by=["finished_at"])
    aged_otherwise = changed(sql, older_than, after=False, by=["updated_at", "created_at"])
    rest = wanted.conditions(sql)
    return [sa.and_(final, aged, *rest), sa.and_(final, finished.is_(None), aged_otherwise, *rest)]


# served by: the partial index on running rows, (leased_until)
def expired(sql: QueueSql) -> Condition:
    """Return the condition for running rows whose lease has expired."""
    until = sql.queue.columns["leased_until"]
    running = in_words(sql, sql.queue.vocabulary.of(StateKind.RUNNING))
    return sa.and_(running, until < sa.literal_column(sql.now("leased_until")))


# served by: as the condition
def keys_of(connection: Connection, sql: QueueSql, condition: Condition) -> set[str]:
    """Return the keys of the rows that match a condition which names its rows by key."""
    queue = sql.queue
    found = connection.execute(sa.select(*queue.key).where(condition))
    return {queue.key_text(scalar(tuple(key))) for key in found}


# served by: as the condition
def preview(connection: Connection, sql: QueueSql, condition: Condition, *, cap: int = 1_000_000) -> Preview:
    """Count the rows that match a condition, up to a cap, and return the keys of a few."""
    queue = sql.queue
    some = connection.execute(sa.select(*queue.key).where(condition).limit(5)).all()
    if len(some) < 5:
        rows = len(some)
    else:
        found = sa.select(sa.literal(1).label("one")).select_from(queue.table).where(condition).limit(cap + 1)
        rows = connection.scalar(sa.select(sa.func.count()).select_from(found.subquery())) or 0
    return Preview(min(rows, cap), rows > cap, [queue.key_text(scalar(tuple(key))) for key in some])
