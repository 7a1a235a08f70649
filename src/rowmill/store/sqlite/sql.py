"""The hot statements on SQLite. One function per statement, headed by the index that serves it.

Each runs inside BEGIN IMMEDIATE, so nobody else writes meanwhile: what a row lock is on PostgreSQL is the
whole file here. There are no dead index entries either, so no watermark.
"""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column

from rowmill.model.lifecycle import Move
from rowmill.model.states import Step
from rowmill.store.indexes import IN_ORDER, QueueIndex, queue_indexes, ready_index
from rowmill.store.order_per_key import Finder, Start, can_be_claimed
from rowmill.store.queue_sql import QueueSql, bare, set_clause
from rowmill.store.watermark import Stretch


class SqliteQueueSql(QueueSql):
    """A queue in SQLite's words. A table's schema is left out: a file has none."""

    @property
    def table(self) -> str:
        return self.preparer.format_table(self.queue.table, use_schema=False)

    def parameter(self, place: int) -> str:
        return f"?{place}"

    def moment(self, column: "Column[Any]", wait: str | None = None) -> str:
        kind = bare(column, self.dialect)
        if isinstance(kind, sa.DateTime):
            # Six digits, as SQLAlchemy writes them: with three it would read milliseconds as microseconds.
            shift = "" if wait is None else f", ({wait}) || ' seconds'"
            return f"strftime('%Y-%m-%d %H:%M:%f000', 'now'{shift})"
        unit = 1000 if self.queue.epoch == "ms" else 1
        seconds = "(julianday('now') - 2440587.5) * 86400.0" + ("" if wait is None else f" + ({wait})")
        number = f"({seconds}) * {unit}"
        return f"CAST({number} AS INTEGER)" if isinstance(kind, sa.Integer) else f"({number})"

    def shifted(self, column: "Column[Any]", seconds: float) -> str:
        if isinstance(bare(column, self.dialect), sa.DateTime):
            return f"strftime('%Y-%m-%d %H:%M:%f000', {self.name(column)}, '{float(seconds)!r} seconds')"
        return f"{self.name(column)} + {float(seconds) * (1000 if self.queue.epoch == 'ms' else 1)!r}"

    def attempts_plus(self, n: int) -> str:
        count = f"coalesce({self.attempts}, 0)"
        return f"{count} + {n}" if n > 0 else f"max({count} - {-n}, 0)"

    def own_limit(self, own: str, most: int) -> str:
        # A column of SQLite's takes anything: what is no number is no limit.
        return f"CASE WHEN typeof({own}) = 'integer' THEN max({own}, 1) ELSE {most} END"

    def bytes_of(self, column: "Column[Any]", alias: str = "") -> str:
        """Of bytes, from the header of the row; of text, SQLite has to read it to tell."""
        value = f"{alias}{self.name(column)}"
        if not isinstance(bare(column, self.dialect), sa.LargeBinary):
            value = f"CAST({value} AS BLOB)"
        return f"coalesce(length({value}), 0)"

    @property
    def same_key(self) -> str:
        return " AND ".join(f"{key} = :k{n}" for n, key in enumerate(self.keys))


# served by: the stage's ready index, (priority, available_at, order columns, key) WHERE state IN (claimable)
def claim(terms: QueueSql, step: Step, stretch: Stretch, left_out: int = 0) -> str:
    """Take up to ?2 rows of one stretch. ?1 token, ?3 seconds of lease; then the keys that are left out; then the
    priority if there is one."""
    return claim_of(terms, step, ready(terms, step, stretch, left_out))


def ready(terms: QueueSql, step: Step, stretch: Stretch, left_out: int, wanted: str = "") -> str:
    """The keys of the rows that the claim takes, or what else is wanted of them."""
    conditions, position = terms.stretch(step, stretch, 4 + left_out * len(terms.keys))
    # The priority is the same all along a stretch. To name it here would cost a sort of the whole stretch: SQLite
    # does not see that an expression is constant.
    order = ", ".join(position) or terms.order
    # A key may be NULL here, and such a row can't be named: it must not take a place. The plus keeps the key's
    # own index out of the plan.
    conditions += [f"+{key} IS NOT NULL" for key in terms.keys]
    conditions += terms.but_for(left_out, 4, "+")
    wanted = wanted or ", ".join(terms.keys)
    return f"SELECT {wanted} FROM {terms.table} WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT ?2"


def free(terms: QueueSql, step: Step, find: Finder, left_out: int, *, behind: bool = False) -> str:
    """The keys of the rows that a claim in order takes. Rows that are left out hold back those behind them: they must
    be found too. The last parameter is the key behind which to begin."""
    start = Start(behind=terms.parameter(4 + left_out * len(terms.keys)) if behind else "")
    if not left_out:
        return find(terms, step, "?2", start)
    found = find(terms, step, f"?2 + {left_out}", start)
    others = " AND ".join(terms.but_for(left_out, 4))
    return f"SELECT {', '.join(terms.keys)} FROM ({found}) AS found WHERE {others} LIMIT ?2"


def pick_of(picks: str) -> str:
    """Every parameter of the claim is named, so that both take the same ones."""
    return f"SELECT pick.*, ?1, ?3 FROM ({picks}) AS pick"


# served by: as the claim
def weigh_ready(terms: QueueSql, step: Step, stretch: Stretch, left_out: int) -> str:
    """The weights of the rows that the claim would take, in its order and with its parameters."""
    return ready(terms, step, stretch, left_out, f"{terms.weight()}, ?1, ?3")


# served by: as the claim, then the primary key
def weigh_of(terms: QueueSql, picks: str) -> str:
    """The weights of the rows that were picked, in their order and with their parameters."""
    same = " AND ".join(f"held.{key} = pick.{key}" for key in terms.keys)
    # CROSS: the rows are looked up one by one, in the order of the picks.
    return f"SELECT {terms.weight('held.')}, ?1, ?3 FROM ({picks}) AS pick CROSS JOIN {terms.table} AS held ON {same}"


# served by: the primary key
def claim_this(terms: QueueSql, step: Step) -> str:
    """Take this row if a claim would take it. ?1 token, ?2 is 1, ?3 seconds of lease; then the parts of the key."""
    same = " AND ".join(f"rowmill_candidate.{key} = ?{4 + n}" for n, key in enumerate(terms.keys))
    keys = ", ".join(f"rowmill_candidate.{key}" for key in terms.keys)
    condition = f"{same} AND {can_be_claimed(terms, step)}"
    return claim_of(terms, step, f"SELECT {keys} FROM {terms.table} AS rowmill_candidate WHERE {condition} LIMIT ?2")


def by_index(terms: QueueSql, step: Step, statement: str, usable: Callable[[QueueIndex], bool] = lambda _: True) -> str:
    """A statement that finds rows to claim, with the queue's own indexes named in it, as far as they are usable. Left
    to itself, SQLite takes an index of the table's own that begins with the state, as most tables have, and sorts."""
    named = [(step.claimable, ready_index(terms, step))]
    named += [(terms.holding, index) for index in queue_indexes(terms) if index.serves == IN_ORDER]
    for words, index in named:
        rows = terms.is_in(words)
        if usable(index):
            source = f"FROM {terms.table} INDEXED BY {index.name} WHERE {rows}"
            statement = statement.replace(f"FROM {terms.table} WHERE {rows}", source)
    return statement


def claim_of(terms: QueueSql, step: Step, picks: str) -> str:
    """Take the picked rows. Those whose attempts are used up are buried, and answered as dead: by their state, since
    RETURNING may say of a lease that was NULL, and still is, that it is not (SQLite 3.40)."""
    pairs = terms.claim_assignments(step, wait="?3", token="?1")
    keys = ", ".join(terms.keys)
    key = f"({keys})" if len(terms.keys) > 1 else keys
    dead = terms.is_in(terms.queue.vocabulary.dead)
    returned = f"{terms.claimed()}, {dead}"
    return f"UPDATE {terms.table} SET {set_clause(pairs)} WHERE {key} IN ({picks}) RETURNING {returned}"


# served by: the primary key
def settle(terms: SqliteQueueSql, step: Step, move: Move, columns: tuple[str, ...]) -> str:
    """Write one verdict, only where its lease still holds. Parameters by name: lease, wait, error, code, k0…, v0…"""
    pairs = terms.assignments(move, step, wait=":wait", error=":error", code=":code")
    pairs += [(terms.quote(name), f":v{n}") for n, name in enumerate(columns)]
    return f"UPDATE {terms.table} SET {set_clause(pairs)} WHERE {terms.same_key} AND {terms.lease} = :lease"


# served by: the primary key
def settle_alike(terms: SqliteQueueSql, step: Step, move: Move) -> str:
    """Write verdicts that differ only in their keys, of one claim. Parameters by name: lease, keys as a JSON array."""
    [key] = terms.keys
    return (
        f"UPDATE {terms.table} SET {set_clause(terms.assignments(move, step))} "
        f"WHERE {key} IN (SELECT value FROM json_each(:keys)) AND {terms.lease} = :lease"
    )


# served by: the primary key
def renew(terms: SqliteQueueSql) -> str:
    """Push one lease on, only where it still holds. Parameters by name: seconds, lease, k0…"""
    return (
        f"UPDATE {terms.table} SET {terms.leased_until} = {terms.later('leased_until', ':seconds')} "
        f"WHERE {terms.same_key} AND {terms.lease} = :lease"
    )


# served by: the primary key
def holds(terms: SqliteQueueSql) -> str:
    """Find one row, only where its lease still holds. Parameters by name: lease, k0…"""
    return f"SELECT 1 FROM {terms.table} WHERE {terms.same_key} AND {terms.lease} = :lease"


# served by: the primary key
def value(terms: SqliteQueueSql, column: "Column[Any]") -> str:
    """Read a column of a row, only where its lease still holds. Parameters by name: lease, k0…"""
    return f"SELECT {terms.name(column)} FROM {terms.table} WHERE {terms.same_key} AND {terms.lease} = :lease"


NOW = "strftime('%Y-%m-%d %H:%M:%f000', 'now')"

RECEIPT = (
    "INSERT INTO rowmill_receipt (worker, flush, queue, stage, move, rows, seconds, at) "
    f"VALUES (:worker, :flush, :queue, :stage, :move, :rows, :seconds, {NOW})"
)
HISTORY = (
    "INSERT INTO rowmill_attempt (queue, key, stage, attempt, worker, started_at, ended_at, code, message, traceback) "
    f"VALUES (:queue, :key, :stage, :attempt, :worker, :started_at, {NOW}, :code, :message, :traceback)"
)
