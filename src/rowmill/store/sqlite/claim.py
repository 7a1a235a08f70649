"""Claims on SQLite: the statements, and what is done with their results. They run in a write transaction, on its
thread."""

import sqlite3
from collections.abc import Sequence
from functools import partial
from time import monotonic
from typing import Any

from rowmill.model.dead_rows import DeadRow, used_up
from rowmill.model.lease import NO_TOKEN, Tokens, worker_of
from rowmill.model.states import Step
from rowmill.store import order_per_key
from rowmill.store.keys import Key
from rowmill.store.order_per_key import Finder, Start, can_be_claimed
from rowmill.store.port import Disconnected
from rowmill.store.queue_sql import set_clause
from rowmill.store.refused_rows import Pick, RowRefused, TakeRows
from rowmill.store.row_sizes import ByteLimit
from rowmill.store.sqlite.sql import HISTORY, SqliteQueueSql
from rowmill.store.sqlite.statements import SqliteQueueStatements
from rowmill.store.sqlite.writer import Writer, refused_values
from rowmill.store.watermark import MAX_LEVELS, STRETCHES, Stretch

BURIED_PLACE = -1
"""The place in a record of the flag that the claim buried the row."""


# served by: the stage's ready index, (priority, available_at, order columns, key) WHERE state IN (claimable)
def claim_statement(sql: SqliteQueueSql, step: Step, stretch: Stretch, left_out: int = 0, *, pick: bool = False) -> str:
    """Claim up to ?2 rows of one stretch. ?1 token, ?3 seconds of lease; then the keys that are left out; then the
    priority if there is one. With `pick`, only find them."""
    rows = ready_rows(sql, step, stretch, left_out)
    return pick_of(rows) if pick else claim_of(sql, step, rows)


# served by: see `order_per_key`, which finds the rows
def claim_in_order(
    sql: SqliteQueueSql, step: Step, find: Finder, left_out: int, *, pick: bool = False, behind: bool = False
) -> str:
    """Claim up to ?2 free rows of a queue with order per key. Parameters as for `claim_statement`, then the key behind
    which to start. With `pick`, only find them."""
    rows = free_rows(sql, step, find, left_out, behind=behind)
    return pick_of(rows) if pick else claim_of(sql, step, rows)


def ready_rows(sql: SqliteQueueSql, step: Step, stretch: Stretch, left_out: int, wanted: str = "") -> str:
    """Return a query for the keys of the rows that the claim takes, or for other expressions over them."""
    conditions, position = sql.stretch(step, stretch, 4 + left_out * len(sql.keys))
    # The priority is the same all along a stretch. To name it here would cost a sort of the whole stretch: SQLite
    # does not see that an expression is constant.
    order = ", ".join(position) or sql.order
    # A key may be NULL here, and such a row can't be named: it must not take a place. The plus keeps the key's
    # own index out of the plan.
    conditions += [f"+{key} IS NOT NULL" for key in sql.keys]
    conditions += sql.leaving_out(left_out, 4, "+")
    wanted = wanted or ", ".join(sql.keys)
    return f"SELECT {wanted} FROM {sql.table} WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT ?2"


def free_rows(sql: SqliteQueueSql, step: Step, find: Finder, left_out: int, *, behind: bool = False) -> str:
    """Return a query for the keys of the rows that a claim in order takes. Rows that are left out hold back those
    behind them, so they must be found too. The last parameter is the key behind which to start."""
    start = Start(behind=sql.parameter(4 + left_out * len(sql.keys)) if behind else "")
    if not left_out:
        return find(sql, step, "?2", start)
    found = find(sql, step, f"?2 + {left_out}", start)
    others = " AND ".join(sql.leaving_out(left_out, 4))
    return f"SELECT {', '.join(sql.keys)} FROM ({found}) AS found WHERE {others} LIMIT ?2"


def pick_of(picks: str) -> str:
    """Return the query of a pick. It names every parameter of the claim, so that both take the same arguments."""
    return f"SELECT pick.*, ?1, ?3 FROM ({picks}) AS pick"


# served by: as the claim
def weigh_ready(sql: SqliteQueueSql, step: Step, stretch: Stretch, left_out: int) -> str:
    """Select the sizes of the rows that the claim would take, in its order and with its parameters."""
    return ready_rows(sql, step, stretch, left_out, f"{sql.weight()}, ?1, ?3")


# served by: as the claim, then the primary key
def weigh_of(sql: SqliteQueueSql, picks: str) -> str:
    """Select the sizes of the picked rows, in their order and with their parameters."""
    same = " AND ".join(f"held.{key} = pick.{key}" for key in sql.keys)
    # CROSS: the rows are looked up one by one, in the order of the picks.
    return f"SELECT {sql.weight('held.')}, ?1, ?3 FROM ({picks}) AS pick CROSS JOIN {sql.table} AS held ON {same}"


# served by: as the claim, then the primary key
def weigh_in_order(sql: SqliteQueueSql, step: Step, find: Finder, left_out: int, *, behind: bool) -> str:
    """Select the sizes of the rows that a claim in order would take, in its order and with its parameters."""
    return weigh_of(sql, free_rows(sql, step, find, left_out, behind=behind))


# served by: the primary key
def claim_this(sql: SqliteQueueSql, step: Step) -> str:
    """Claim this row if a claim would take it. ?1 token, ?2 is 1, ?3 seconds of lease; then the parts of the key."""
    same = " AND ".join(f"rowmill_candidate.{key} = ?{4 + n}" for n, key in enumerate(sql.keys))
    keys = ", ".join(f"rowmill_candidate.{key}" for key in sql.keys)
    condition = f"{same} AND {can_be_claimed(sql, step)}"
    return claim_of(sql, step, f"SELECT {keys} FROM {sql.table} AS rowmill_candidate WHERE {condition} LIMIT ?2")


def claim_of(sql: SqliteQueueSql, step: Step, picks: str) -> str:
    """Return the UPDATE that claims the picked rows. Rows whose attempts are used up are buried, and marked by their
    state: RETURNING may report a lease that was and is NULL as not NULL (SQLite 3.40)."""
    pairs = sql.claim_assignments(step, wait="?3", token="?1")
    keys = ", ".join(sql.keys)
    key = f"({keys})" if len(sql.keys) > 1 else keys
    dead = sql.is_in(sql.queue.vocabulary.dead)
    returned = f"{sql.claimed()}, {dead}"
    return f"UPDATE {sql.table} SET {set_clause(pairs)} WHERE {key} IN ({picks}) RETURNING {returned}"


def claim_rows(
    connection: sqlite3.Connection, statements: SqliteQueueStatements, step: Step, token: int, limit: int, *,
    pick: bool = False, within: ByteLimit | None = None,
) -> list[Any]:  # fmt: skip
    """Claim up to `limit` rows under this token. With `pick`, only return the keys of the rows that it would claim."""
    if within is not None:
        within.taken, within.reached = 0, False  # it may be tried again
    if statements.sql.queue.per is not None:
        return _claim_in_order(connection, statements, step, token, limit, pick, within)
    records: list[Any] = []
    refused, in_sequence = statements.refused(step), statements.in_sequence
    for stretch, level in _lanes(connection, statements, step):
        statement = statements.once_by_index(connection, claim_statement, step, stretch, len(refused), pick=pick)
        given: list[Any] = [token, limit - len(records), step.lease, *refused.parts]
        if statements.sql.priority is not None and stretch is not Stretch.WHOLE:
            given.append(level)
        if within is not None:
            weigh = statements.once_by_index(connection, weigh_ready, step, stretch, len(refused))
            given[1] = _fitting(connection, weigh, given, within)
        taken = connection.execute(statement, given).fetchall() if given[1] else []
        records += taken if pick else in_sequence(_noted(connection, statements, step, token, taken))
        if len(records) >= limit or (within is not None and within.reached):
            break
    return records


def buried_rows(statements: SqliteQueueStatements, step: Step, records: Sequence[Any]) -> list[DeadRow]:
    """Return the rows that a claim buried, because their attempts were used up."""
    queue, load = statements.sql.queue, statements.load
    return [
        used_up(queue, load.retry(step, record), load.key(record), record[load.attempts_place], partial(load, record))
        for record in records
        if record[BURIED_PLACE]
    ]


def _noted(
    connection: sqlite3.Connection, statements: SqliteQueueStatements, step: Step, token: int, records: list[Any]
) -> list[Any]:
    """Return the records of a claim, after writing a history entry for each row that it buried, in the same
    transaction."""
    buried = buried_rows(statements, step, records) if any(record[BURIED_PLACE] for record in records) else []
    queue = statements.sql.queue
    about = {"queue": queue.name, "stage": step.name, "worker": worker_of(token), "started_at": None}
    for death in buried:
        entry = {"key": queue.key_text(death.key), "attempt": death.attempt, "code": death.code}
        connection.execute(HISTORY, about | entry | {"message": death.message, "traceback": None})
    return records


def _claim_in_order(
    connection: sqlite3.Connection, statements: SqliteQueueStatements, step: Step, token: int, limit: int, pick: bool,
    within: ByteLimit | None,
) -> list[Any]:  # fmt: skip
    """Claim the oldest free rows; if the oldest are all held back by others of their key, look at the head of every
    key."""
    records: list[Any] = []
    refused = statements.refused(step)
    for ask in statements.search(step).asks(order_per_key.finders(statements.sql), limit):
        behind = bool(ask.behind)
        statement = statements.once_by_index(
            connection, claim_in_order, step, ask.find, len(refused), pick=pick, behind=behind
        )
        given = [token, ask.most, step.lease, *refused.parts, *ask.behind]
        if within is not None:
            weigh = statements.once_by_index(connection, weigh_in_order, step, ask.find, len(refused), behind=behind)
            given[1] = _fitting(connection, weigh, given, within)
        ask.found = found = connection.execute(statement, given).fetchall() if given[1] else []
        records += found if pick else statements.in_sequence(_noted(connection, statements, step, token, found))
        ask.last = within is not None and within.reached
        if pick and records:
            break  # nothing was taken: the next time would find the same rows again
    return records


def _fitting(connection: sqlite3.Connection, weigh: str, given: Sequence[Any], within: ByteLimit) -> int:
    """Return how many of the rows that a claim would take fit into what is left of its bytes. Stops at the first row
    that does not: SQLite has to read a text to know its length."""
    rows, most = 0, within.left
    cursor = connection.execute(weigh, given)
    for record in cursor:
        if record[0] > most and not (within.takes_one and not rows):
            within.reached = True
            break
        most -= record[0]
        rows += 1
    cursor.close()
    within.taken += within.left - most
    return rows


async def claim_around(
    writer: Writer,
    statements: SqliteQueueStatements,
    step: Step,
    tokens: Tokens,
    limit: int,
    within: ByteLimit | None = None,
) -> list[Any]:
    """Claim rows, stepping over those that the table refuses to let be claimed. Each try is a transaction of its own: a
    trigger may roll back the one that it is in."""
    refused, take, records = statements.refused(step), _taker(writer, statements, step, tokens), list[Any]()
    if refused.due(now := monotonic()):
        records = await refused.try_again(limit, take, now)
        if records:
            return records
    try:
        return await writer.write(
            lambda connection: claim_rows(connection, statements, step, tokens.fresh(), limit, within=within)
        )
    except sqlite3.IntegrityError:
        if refused.full():
            raise
        try:
            await refused.step_over(limit, _picker(writer, statements, step), take, now, records)
        except Disconnected:
            if not records:
                raise
        if refused.full() and not records:
            raise
    return records


def _picker(writer: Writer, statements: SqliteQueueStatements, step: Step) -> Pick:
    async def pick(limit: int) -> list[Key]:
        found = await writer.write(
            lambda connection: claim_rows(connection, statements, step, NO_TOKEN, limit, pick=True)
        )
        return [record[: len(statements.sql.keys)] for record in found]

    return pick


def _taker(writer: Writer, statements: SqliteQueueStatements, step: Step, tokens: Tokens) -> TakeRows:
    async def take(keys: Sequence[Key]) -> list[Any]:
        def work(connection: sqlite3.Connection) -> list[Any]:
            statement, token = statements.once_by_index(connection, claim_this, step), tokens.fresh()
            given = ((token, 1, step.lease, *key) for key in keys)
            taken = [record for one in given for record in connection.execute(statement, one)]
            return _noted(connection, statements, step, token, taken)

        try:
            return await writer.write(work)
        except sqlite3.IntegrityError as error:
            raise RowRefused(refused_values(error)) from error

    return take


def _lanes(connection: sqlite3.Connection, statements: SqliteQueueStatements, step: Step) -> list[tuple[Stretch, Any]]:
    levels: list[Any] = [None]
    if statements.sql.priority is not None:
        levels = [
            row[0] for row in connection.execute(statements.once_by_index(connection, order_per_key.priorities, step))
        ]
    if len(levels) > MAX_LEVELS:
        return [(Stretch.WHOLE, None)]
    return [(stretch, level) for level in levels for stretch in STRETCHES]
