"""Claims on PostgreSQL: the statements, and what is done with their results.

A claim goes on from where the last one stopped (its watermark). In a queue with order per key, it starts with the
oldest row that is ready. Rows that the table refuses to let be claimed are stepped over. The entry point is
`claim_rows`.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import asyncpg
from sqlalchemy import Column

from rowmill.model.dead_rows import ATTEMPTS_USED_UP, DeadRow, used_up
from rowmill.model.lease import CLAIM_BITS, NO_TOKEN, Lease, Tokens
from rowmill.model.lifecycle import DIE, RELEASE
from rowmill.model.states import Step
from rowmill.store import order_per_key
from rowmill.store.keys import Key
from rowmill.store.order_per_key import Finder, Start, can_be_claimed, ready
from rowmill.store.order_per_key import run_together as run_together_of
from rowmill.store.own.schema import SCHEMA
from rowmill.store.port import OnBuried
from rowmill.store.postgres.connection import ConnectionPool, refused_values
from rowmill.store.postgres.sql import NOW, PostgresQueueSql, fenced, given, key_fields, one_of, same_key
from rowmill.store.postgres.statements import PLACE, QueueStatements
from rowmill.store.postgres.values import as_text, numbers, sent_as_own_type
from rowmill.store.queue_sql import set_clause
from rowmill.store.refused_rows import RowRefused, TakeRows, is_of_a_row
from rowmill.store.row_sizes import LIGHT, ByteLimit
from rowmill.store.watermark import Shape, Stretch

BURIED = "rowmill_buried"
"""The column of a claim's result that holds the key, as text, of a row that was buried."""
BURIED_PLACE = -3
"""The place of BURIED in a record."""
Carried = tuple[str, str]
"""What a pick selects of each row besides its key: the names, and the expressions that they stand for."""
NOTHING_CARRIED: Carried = ("", "")


# served by: the stage's ready index, (priority, available_at, order columns, key) WHERE state IN (claimable)
def claim_statement(
    sql: PostgresQueueSql, step: Step, shape: Shape, left_out: int = 0, *, weighed: bool = False
) -> str:
    """Claim up to $2 rows. $1 token, $3 seconds of lease; if `weighed`, $4 bytes that the rows may have together and $5
    whether one is taken however large; then the keys that are left out; then for each lane its priority and its
    watermark.

    The sub-query is an array, which is made once: a joined one may be run again and claim more than its limit.
    """
    carried = _carried(sql, step, weighed=weighed)
    picks = _lanes(sql, step, shape, left_out, f"{picked(sql)} AS g_key", carried, weighed=weighed)
    return _claim_of(sql, step, picks, weighed=weighed)


# served by: as the claim
def pick_statement(sql: PostgresQueueSql, step: Step, shape: Shape, left_out: int) -> str:
    """Select the keys of the rows that the claim would take, with its parameters."""
    return _pick_of(_lanes(sql, step, shape, left_out, ", ".join(sql.keys)))


def _lanes(
    sql: PostgresQueueSql, step: Step, shape: Shape, left_out: int, wanted: str, carried: Carried = NOTHING_CARRIED, *,
    weighed: bool = False,
) -> str:  # fmt: skip
    """Return a query for the rows to claim, lane by lane. A lane is a stretch of the index: the rows of one priority
    that are available at once (NULL) or from a time on. Each starts at its watermark, so that it does not read the dead
    entries that earlier claims left behind."""
    first = _first(weighed)
    place = first + left_out * len(sql.keys)
    names, values = carried
    branches = []
    for stretch, marked in shape:
        conditions, position = sql.stretch(step, stretch, place)
        conditions += sql.leaving_out(left_out, first)
        if sql.priority is not None and stretch is not Stretch.WHOLE:
            place += 1
        if marked:
            marks = ", ".join(f"${place + n}" for n in range(len(position)))
            conditions.append(f"({', '.join(position)}) > ({marks})")
            place += len(position)
        branches.append(
            f"SELECT {wanted}{names} FROM (SELECT {', '.join(sql.keys)}{values} FROM {sql.table} "
            f"WHERE {' AND '.join(conditions)} ORDER BY {sql.order} LIMIT $2 {sql.lock} SKIP LOCKED) AS lane"
        )
    return " UNION ALL ".join(branches)


def _first(weighed: bool) -> int:
    """Return the place of the first parameter after those that every claim has."""
    return 6 if weighed else 4


def _carried(sql: PostgresQueueSql, step: Step, alias: str = "", *, weighed: bool) -> Carried:
    """Return what a claim wants to know of each row that it picks: its weight, and whether its attempts are used up."""
    columns = [(sql.weight(alias), "g_weight")] if weighed else []
    if not sql.queue.unlimited(step):
        columns.append((sql.used_up(step, alias), "g_used_up"))
    return "".join(f", {name}" for _, name in columns), "".join(f", {value} AS {name}" for value, name in columns)


# served by: see `order_sql`, which finds the rows
def claim_in_order(
    sql: PostgresQueueSql, step: Step, find: Finder, shape: Shape = (), left_out: int = 0, *, behind: bool = False,
    weighed: bool = False,
) -> str:  # fmt: skip
    """Claim up to $2 free rows of a queue with order per key. Parameters as for `claim_statement`, then the key behind
    which to start."""
    carried = _carried(sql, step, "held.", weighed=weighed)
    free = _free(sql, step, find, shape, left_out, f"{picked(sql)} AS g_key", behind, carried, weighed=weighed)
    return _claim_of(sql, step, free, weighed=weighed)


# served by: as the claim
def pick_in_order_statement(
    sql: PostgresQueueSql, step: Step, find: Finder, shape: Shape, left_out: int, *, behind: bool
) -> str:
    """Select the keys of the rows that the claim would take, with its parameters."""
    return _pick_of(_free(sql, step, find, shape, left_out, ", ".join(sql.keys), behind))


# served by: the stage's ready index
def oldest(sql: PostgresQueueSql, step: Step, shape: Shape) -> str:
    """Select the position of the oldest ready row of each lane: the lane's number, `available_at`, then the other
    columns of the order. The parameters are the watermarks."""
    wanted = ", ".join([sql.available_at, *sql.sequence])
    firsts = enumerate(ready(sql, step, wanted, "LIMIT 1", _beside(sql, shape, 1, ">=", "")))
    return " UNION ALL ".join(f"SELECT {place}, first.* FROM ({row}) AS first" for place, row in firsts)


# served by: the stage's ready index
def passed_over(sql: PostgresQueueSql, step: Step, shape: Shape) -> str:
    """Select whether a row is ready that lies before the watermark of its lane. The parameters are the watermarks.
    Without EXISTS: inside it the planner drops the ORDER BY, and with it the index."""
    rows = enumerate(ready(sql, step, "1", "LIMIT 1", _beside(sql, shape, 1, "<", " AND false")))
    found = " UNION ALL ".join(f"SELECT 1 FROM ({row}) AS lane_{place}" for place, row in rows)
    return f"SELECT count(*) > 0 FROM ({found}) AS found"


def _beside(sql: PostgresQueueSql, shape: Shape, first: int, side: str, unmarked: str) -> Start:
    """Return the conditions for rows on one side of each lane's watermark, whose parts are parameters from the place
    `first` on, and `unmarked` for lanes without one."""
    lanes = {Stretch.AT_ONCE: unmarked, Stretch.TIMED: unmarked}
    for stretch, marked in shape:
        if marked:
            position = sql.position(stretch)
            marks = ", ".join(sql.parameter(first + n) for n in range(len(position)))
            lanes[stretch] = f" AND ({', '.join(position)}) {side} ({marks})"
            first += len(position)
    return Start(lanes[Stretch.AT_ONCE], lanes[Stretch.TIMED])


def _free(
    sql: PostgresQueueSql, step: Step, find: Finder, shape: Shape, left_out: int, wanted: str, behind: bool,
    carried: Carried = NOTHING_CARRIED, *, weighed: bool = False,
) -> str:  # fmt: skip
    """Return a query that locks free rows. It checks again on the locked row that it can be claimed: it may have failed
    and been sent to wait since it was found. Rows that are left out hold back those behind them, so they must be found
    too."""
    first = _first(weighed)
    place = first + left_out * len(sql.keys)
    names, values = carried
    start = _beside(sql, shape, place, ">=", "")
    if behind:
        place += sum(len(sql.position(stretch)) for stretch, marked in shape if marked)
        start = replace(start, behind=sql.parameter(place))
    most = f"$2::bigint + {left_out}" if left_out else "$2::bigint"
    free = find(sql, step, most, start)
    available = f"(held.{sql.available_at} IS NULL OR held.{sql.due})"
    # In a form from which the planner proves nothing: it might walk a whole partial index instead of the key's.
    claimable = f"coalesce({sql.is_in(step.claimable, 'held.')} AND {available}{sql.may_claim('held.')}, false)"
    conditions = " AND ".join([claimable, *sql.leaving_out(left_out, first, "held.")])
    same = " AND ".join(f"held.{key} = {one_of(f'free.{key}')}" for key in sql.keys)
    keys = ", ".join(f"held.{key}" for key in sql.keys)
    return (
        f"SELECT {wanted}{names} FROM (SELECT {keys}{values} FROM ({free}) AS free JOIN {sql.table} AS held ON {same} "
        f"WHERE {conditions} LIMIT $2 {sql.lock} OF held SKIP LOCKED) AS lane"
    )


# served by: the primary key
def claim_these(sql: PostgresQueueSql, step: Step) -> str:
    """Claim those of the given rows that a claim would take. $1 token, $2 number of keys, $3 seconds of lease; then the
    parts of the keys."""
    columns = list(enumerate(sql.queue.key))
    these = given(key_fields(sql), first=4)
    same = " AND ".join(
        f"rowmill_candidate.{sql.name(column)} = {one_of(f'g_k{n}::{sql.key_type(column)}')}" for n, column in columns
    )
    keys = ", ".join(f"rowmill_candidate.{key}" for key in sql.keys)
    names, values = _carried(sql, step, "rowmill_candidate.", weighed=False)
    return _claim_of(
        sql,
        step,
        f"SELECT {picked(sql)} AS g_key{names} FROM (SELECT {keys}{values} FROM {these} "
        f"JOIN {sql.table} AS rowmill_candidate ON {same} "
        f"WHERE {can_be_claimed(sql, step)} ORDER BY g_place {sql.lock} OF rowmill_candidate SKIP LOCKED) AS lane",
    )


# served by: the in-order index
def run_together(sql: PostgresQueueSql, per: "Column[Any]") -> str:
    """Select the places of the keys $1 of which two or more rows run."""
    arrays = given([("g_raw", sql.type_of(per))], first=1)
    return run_together_of(sql, f"(SELECT g_raw::{sql.key_type(per)} AS g_per, g_place FROM {arrays}) AS keys")


# served by: the primary key
def give_back(sql: PostgresQueueSql, step: Step) -> str:
    """Release claimed rows, each only where its lease still holds. $1 tokens, then the parts of the keys."""
    pairs = sql.assignments(RELEASE, step)
    return (
        f"UPDATE {sql.table} AS t SET {set_clause(pairs)} FROM {given(fenced(sql), first=1)} "
        f"WHERE {same_key(sql)} AND t.{sql.lease} = g_lease"
    )


def _pick_of(picks: str) -> str:
    """Return the query of a pick. It names every parameter of the claim, so that both take the same arguments."""
    return f"SELECT pick.*, $1::bigint, $3::float8 FROM ({picks}) AS pick LIMIT $2"


def picked(sql: PostgresQueueSql) -> str:
    """Return the key as one value: itself, or a record of its parts."""
    if len(sql.keys) == 1:
        return sql.keys[0]
    return f"ROW({', '.join(f'CAST({key} AS {kind})' for key, kind in key_types(sql))})"


def key_types(sql: PostgresQueueSql) -> list[tuple[str, str]]:
    return [(sql.name(column), sql.key_type(column)) for column in sql.queue.key]


def _claim_of(sql: PostgresQueueSql, step: Step, picks: str, *, weighed: bool = False) -> str:
    """Return the UPDATE that claims the picked rows. Rows whose attempts are used up are buried, with an entry in the
    history, and returned without a lease."""
    limited = not sql.queue.unlimited(step)
    pairs = sql.claim_assignments(step, wait="$3::float8", token="$1")
    # The time and the weight are the same for all of them, and expensive to compute: only the first row has them.
    weight = "CASE WHEN g_place = 1 THEN (SELECT g_total FROM rowmill_picked) END AS g_total, " if weighed else ""
    # A row that a trigger left as it was has no lease either.
    buried = f"t.{sql.lease} IS NULL AND {sql.is_in(sql.queue.vocabulary.dead, 't.')}"
    # The keys are a sub-query, not joined: each row that is updated would carry a copy of the whole array.
    taken = (
        f"UPDATE {sql.table} AS t SET {set_clause(pairs)} FROM {_each_key(sql, '(SELECT g_keys FROM rowmill_picked)')} "
        f"WHERE {_at_key(sql)} RETURNING {sql.claimed('t.')}, "
        f"{weight}CASE WHEN {buried} THEN {key_text(sql)} END AS {BURIED}, "
        f"g_place, CASE WHEN g_place = 1 THEN {NOW} END AS claimed_at"
    )
    used_up = ", bool_or(g_used_up) AS g_used_up" if limited else ""
    picked = _within_bytes(picks, used_up) if weighed else _all_of(picks, used_up)
    steps = [f"rowmill_picked AS MATERIALIZED ({picked})"]
    if limited:
        steps.append(f"rowmill_history AS ({_history_of_buried(sql, step)})")
    return f"WITH {', '.join(steps)} {taken}"


# served by: the primary key; reads no row unless one is buried
def _history_of_buried(sql: PostgresQueueSql, step: Step) -> str:
    """Insert the history of the rows that a claim buries.

    It goes by what was picked, not by what the UPDATE returns: that would have to be kept in full for two readers, for
    every claim. So a row that a trigger keeps from being buried has an entry all the same.
    """
    queue, stage, code = (sql.text(text) for text in (sql.queue.name, step.name, ATTEMPTS_USED_UP))
    keys = "(SELECT CASE WHEN g_used_up THEN g_keys END FROM rowmill_picked)"
    return (
        f"INSERT INTO {SCHEMA}.attempt (queue, key, stage, attempt, worker, ended_at, code, message) "
        f"SELECT {queue}, {key_text(sql)}, {stage}, t.{sql.attempts}, $1::bigint >> {CLAIM_BITS}, {NOW}, {code}, "
        f"{sql.used_up_message(step)} FROM {_each_key(sql, keys)} JOIN {sql.table} AS t ON {_at_key(sql)} "
        f"WHERE {sql.used_up(step, 't.')}"
    )


def _each_key(sql: PostgresQueueSql, keys: str) -> str:
    """Return a table of the keys of an array, with their places."""
    if len(sql.keys) == 1:
        return f"unnest({keys}) WITH ORDINALITY AS given(g_k0, g_place)"
    parts = ", ".join(f"g_k{n} {kind}" for n, (_, kind) in enumerate(key_types(sql)))
    names = ", ".join(f"g_k{n}" for n in range(len(sql.keys)))
    return f"ROWS FROM (unnest({keys}) AS ({parts})) WITH ORDINALITY AS given({names}, g_place)"


def _at_key(sql: PostgresQueueSql) -> str:
    """Return the condition that a row of table t has a key of `_each_key`."""
    return " AND ".join(f"t.{key} = {one_of(f'g_k{n}')}" for n, key in enumerate(sql.keys))


def _all_of(picks: str, used_up: str) -> str:
    """Return a query for the keys of the picked rows, as an array."""
    return f"SELECT array_agg(g_key) AS g_keys{used_up} FROM (SELECT * FROM ({picks}) AS pick LIMIT $2) AS pick"


def _within_bytes(picks: str, used_up: str) -> str:
    """Return a query for the first of the picked rows that fit into $4 bytes together, and their total: infinite if one
    of them is large, -1 if some did not fit. Those that did not fit are locked until the end of the statement, and
    otherwise unchanged.

    Usually all rows fit. Only if they do not, running sums are computed.
    """
    picked = (
        "SELECT array_agg(g_key) AS g_all, array_agg(g_weight) AS g_weights, sum(g_weight) AS g_total, "
        f"max(g_weight) AS g_heaviest{used_up} "
        f"FROM (SELECT * FROM ({picks}) AS pick LIMIT $2) AS pick"
    )
    sums = "SELECT sum(g_weight) OVER (ROWS UNBOUNDED PRECEDING) AS g_sum FROM unnest(g_weights) AS g_weight"
    fit = f"SELECT greatest(count(*), $5::boolean::int)::int FROM ({sums}) AS sums WHERE g_sum <= $4::float8"
    return (
        "SELECT CASE WHEN g_fit IS NULL THEN g_all ELSE g_all[1:g_fit] END AS g_keys, "
        f"CASE WHEN g_fit < cardinality(g_all) THEN -1 WHEN g_heaviest > {LIGHT} THEN 'infinity'::float8 "
        f"ELSE g_total END AS g_total{', g_used_up' if used_up else ''} "
        f"FROM (SELECT *, CASE WHEN g_total > $4::float8 THEN ({fit}) END AS g_fit FROM ({picked}) AS p) AS fitting"
    )


def key_text(sql: PostgresQueueSql) -> str:
    """Return an expression for the key of a row of table t, as `Queue.key_text` writes it."""
    return f"concat_ws('|', {', '.join(f't.{key}::text' for key in sql.keys)})"


# served by: the partial index on running rows, which is small
def release_claim_statement(sql: PostgresQueueSql, step: Step) -> str:
    """Give back the rows of a claim whose answer was lost. $1 its token."""
    pairs = sql.assignments(RELEASE, step)
    own = ", ".join(f"t.{key}" for key in sql.keys)
    same = " AND ".join(f"t.{key} = {one_of(f'found.{key}')}" for key in sql.keys)
    # The order is for the planner: other indexes hold running rows too, but only one of them in this order.
    found = f"SELECT {own} FROM {sql.table} AS t WHERE {held(sql, step)} ORDER BY t.{sql.leased_until} {sql.lock}"
    return (
        f"UPDATE {sql.table} AS t SET {set_clause(pairs)} FROM ({found}) AS found "
        f"WHERE {same} AND t.{sql.lease} = $1 RETURNING 1"
    )


def held(sql: PostgresQueueSql, step: Step) -> str:
    """Return the condition for the rows of table t that the claim with token $1 took."""
    return (
        f"{sql.is_in(step.running, 't.')} AND t.{sql.leased_until} > {sql.now('leased_until')} AND t.{sql.lease} = $1"
    )


# served by: the partial index on running rows, which is small
def held_row(sql: PostgresQueueSql, step: Step) -> str:
    """Select one of the rows that a claim took, number $2 from 0, as the claim would have returned it. $1 its token."""
    return (
        f"SELECT {sql.claimed('t.')}, NULL AS {BURIED}, 1 AS g_place, {NOW} AS claimed_at FROM {sql.table} AS t "
        f"WHERE {held(sql, step)} ORDER BY {sql.order} LIMIT 1 OFFSET $2"
    )


# served by: the partial index on running rows, which is small
def bury_held_row(sql: PostgresQueueSql, step: Step) -> str:
    """Bury the row that `held_row` selects. $1 token, $2 its number, $3 worker, $4 code, $5 message."""
    keys = ", ".join(sql.keys)
    own = ", ".join(f"t.{key}" for key in sql.keys)
    pairs = sql.assignments(DIE, step, error="$4::text || ': ' || $5::text", code="$4::text")
    found = f"SELECT {own} FROM {sql.table} AS t WHERE {held(sql, step)} ORDER BY {sql.order} LIMIT 1 OFFSET $2"
    return (
        f"WITH condemned AS (UPDATE {sql.table} AS t SET {set_clause(pairs)} WHERE ({keys}) IN ({found}) "
        f"AND {held(sql, step)} RETURNING {key_text(sql)} AS g_row, t.{sql.attempts} AS g_attempt) "
        f"INSERT INTO {SCHEMA}.attempt (queue, key, stage, attempt, worker, ended_at, code, message) "
        f"SELECT {sql.text(sql.queue.name)}, g_row, {sql.text(step.name)}, g_attempt, $3::bigint, {NOW}, $4, $5 "
        "FROM condemned RETURNING key, attempt"
    )


UNREADABLE = (ValueError, ArithmeticError)
"""What the driver raises for a value that Python can't represent."""


UNWEIGHED = 20
"""Rows that a claim takes at a time without weighing them, while it steps over a refused row."""
STEPS_BACK = 3
"""How often a claim starts again after it met another claim at the same key. Both may have stepped back."""


async def claim_rows(
    pool: ConnectionPool,
    statements: QueueStatements,
    step: Step,
    tokens: Tokens,
    limit: int,
    within: ByteLimit | None = None,
) -> list[Any]:
    """Claim up to `limit` rows; in a queue with order per key, none while another of its key runs."""
    if statements.sql.queue.per is None:
        return await _claim(pool, statements, step, tokens, limit, within)
    records: list[Any] = []
    for _ in range(STEPS_BACK):
        found = await _claim(pool, statements, step, tokens, limit - len(records), within)
        alone = await step_back(pool, statements, step, found)
        records += alone
        if len(alone) == len(found):
            break
    return records


async def step_back(pool: ConnectionPool, statements: QueueStatements, step: Step, records: Sequence[Any]) -> list[Any]:
    """Give back claimed rows of whose key another row runs too; return the others.

    Two claims at the same time do not see each other's rows. If they do not see the same rows of a key, since one was
    just committed or requeued, each may take a different row of it. This check runs after the commit of the claim: of
    two such claims, the one that checks last sees the other.
    """
    queue, load = statements.sql.queue, statements.load
    assert queue.per is not None
    held = [record for record in records if record[load.lease_place] is not None and load.per(record) is not None]
    if not held:
        return list(records)
    as_itself = sent_as_own_type(statements.sql, queue.per)
    keys = [load.per(record) if as_itself else as_text(load.per(record)) for record in held]
    together = [held[row[0] - 1] for row in await pool.fetch(statements.once(run_together, queue.per), keys)]
    if not together:
        return list(records)
    tokens = numbers([record[load.lease_place] for record in together])
    parts = [load.raw_key(record) for record in together]
    with suppress(asyncpg.PostgresError):  # if the table refuses to have them back, they come back by their leases
        await pool.fetch(statements.once(give_back, step), tokens, *statements.raw_key_arrays(parts))
    gone = set(map(id, together))
    return [record for record in records if id(record) not in gone]


async def _claim(
    pool: ConnectionPool,
    statements: QueueStatements,
    step: Step,
    tokens: Tokens,
    limit: int,
    within: ByteLimit | None,
) -> list[Any]:
    refused = statements.refused(step)
    if refused and refused.due(now := time.monotonic()):
        mended = await refused.try_again(limit, _taker(pool, statements, step, tokens), now)
        if mended:
            if within is not None:
                within.count(None)
            return mended
    if statements.sql.queue.per is None:
        return await _claim_onward(pool, statements, step, tokens, limit, within)
    return await _claim_in_order(pool, statements, step, tokens, limit, within)


async def _claim_onward(
    pool: ConnectionPool,
    statements: QueueStatements,
    step: Step,
    tokens: Tokens,
    limit: int,
    within: ByteLimit | None,
) -> list[Any]:
    """Claim from the watermark on. If that finds no row, start again from the head of the index, unless that has become
    expensive. If it finds fewer rows than wanted, return them at once and leave the look from the head to the next
    claim: handlers should not wait for it."""
    mark = statements.mark(step)
    resumed = mark.resumes
    records = await _claim_lanes(pool, statements, step, tokens, limit, within)
    if _short(records, limit, within) and resumed and mark.may_look_back(time.monotonic()):
        mark.drop()
        if not records:
            records = await _claim_lanes(pool, statements, step, tokens, limit, within)
    return records


def _short(records: Sequence[Any], limit: int, within: ByteLimit | None) -> bool:
    """Return whether a claim found fewer rows than it could have taken."""
    return len(records) < limit and not (within is not None and within.reached)


async def _claim_lanes(
    pool: ConnectionPool,
    statements: QueueStatements,
    step: Step,
    tokens: Tokens,
    limit: int,
    within: ByteLimit | None,
) -> list[Any]:
    mark, refused, now = statements.mark(step), statements.refused(step), time.monotonic()
    from_the_start = mark.expired(now)
    if from_the_start:
        levels: list[Any] = [None]
        if mark.by_level:
            levels = [record[0] for record in await pool.fetch(order_per_key.priorities(statements.sql, step))]
        mark.start(levels, now)
    if not mark.lanes:
        return []
    shape, marks = mark.shape, mark.arguments()
    statement = statements.once(claim_statement, step, shape, len(refused), weighed=within is not None)
    pick = partial(pick_statement, shape=shape)
    try:
        records = await pool.fetch(
            statement, tokens.fresh(), limit, step.lease, *_bytes(within), *refused.parts, *marks
        )
    except asyncpg.PostgresError as error:
        mark.drop()
        return await _step_over(error, pool, statements, step, tokens, limit, within, pick, marks)
    await _note_left(pool, statements, step, records, within, pick, marks)
    if from_the_start:
        mark.looked(now, time.monotonic() - now, len(records))
    records.sort(key=PLACE)
    mark.passed(records, statements.position)
    if _short(records, limit, within):
        mark.go_on()
    return records


def _bytes(within: ByteLimit | None) -> tuple[Any, ...]:
    """Return the parameters of a weighed claim."""
    return () if within is None else (within.left, within.takes_one)


async def _note_left(
    pool: ConnectionPool, statements: QueueStatements, step: Step, records: Sequence[Any], within: ByteLimit | None,
    statement: Callable[..., str], marks: Sequence[Any],
) -> None:  # fmt: skip
    """Note the bytes of a claim's rows, and whether it left rows because of them. If the first row is missing, as where
    nothing was taken, the statement does not say so: then look whether there is a row."""
    if within is None:
        return
    total = next((record["g_total"] for record in records if PLACE(record) == 1), None)
    within.count(None if total is None or not 0 <= total < math.inf else total)
    if total is not None:
        within.reached = total < 0
    elif not within.takes_one:
        refused = statements.refused(step)
        text = statement(statements.sql, step, left_out=len(refused))
        within.reached = bool(await pool.fetch(text, NO_TOKEN, 1, step.lease, *refused.parts, *marks))


async def _claim_in_order(
    pool: ConnectionPool,
    statements: QueueStatements,
    step: Step,
    tokens: Tokens,
    limit: int,
    within: ByteLimit | None,
) -> list[Any]:
    """Claim the oldest free rows; if the oldest are all held back by others of their key, look at the head of every
    key. If nothing is found, check for rows before the watermark, as a plain claim does."""
    mark = statements.mark(step)
    await _look_for_oldest(pool, statements, step)
    resumed, shape, marks = mark.resumes, mark.shape, mark.arguments()
    records = await _claim_free(pool, statements, step, tokens, limit, within, shape, marks)
    if not records and _short(records, limit, within) and resumed and mark.may_look_back(now := time.monotonic()):
        [[found]] = await pool.fetch(statements.once(passed_over, step, shape), *marks)
        mark.looked(now, time.monotonic() - now)
        if found:
            records = await _claim_free(pool, statements, step, tokens, limit, within)
    return records


async def _look_for_oldest(pool: ConnectionPool, statements: QueueStatements, step: Step) -> None:
    """Move the watermark to the oldest ready row, so that claims start there. Not with priorities, where the oldest row
    says nothing about the others, and not where a column of the order may be NULL."""
    mark, now = statements.mark(step), time.monotonic()
    placeless = any(column.nullable for column in statements.sql.queue.order_by)
    if mark.by_level or placeless or not mark.wants_oldest(now):
        return
    from_the_start = mark.expired(now)
    if from_the_start:
        mark.start([None], now)
    rows = await pool.fetch(statements.once(oldest, step, mark.shape), *mark.arguments())
    if from_the_start:
        mark.looked(now, time.monotonic() - now)
    mark.begins(((row[0], tuple(row[2 if row[1] is None else 1 :])) for row in rows), now)


async def _claim_free(
    pool: ConnectionPool, statements: QueueStatements, step: Step, tokens: Tokens, limit: int,
    within: ByteLimit | None, shape: Shape = (), marks: Sequence[Any] = (),
) -> list[Any]:  # fmt: skip
    refused, records = statements.refused(step), list[Any]()
    for ask in statements.search(step).asks(order_per_key.finders(statements.sql), limit):
        behind, places = bool(ask.behind), (*marks, *ask.behind)
        statement = statements.once(
            claim_in_order, step, ask.find, shape, len(refused), behind=behind, weighed=within is not None
        )
        pick = partial(pick_in_order_statement, find=ask.find, shape=shape, behind=behind)
        try:
            ask.found = await pool.fetch(
                statement, tokens.fresh(), ask.most, step.lease, *_bytes(within), *refused.parts, *places
            )
        except asyncpg.PostgresError as error:
            ask.found = await _step_over(error, pool, statements, step, tokens, ask.most, within, pick, places)
        else:
            await _note_left(pool, statements, step, ask.found, within, pick, places)
        records += ask.found
        if within is not None:
            within.taken += statements.weigher.total(ask.found)
            ask.last = within.reached
    return records


async def _step_over(
    error: asyncpg.PostgresError, pool: ConnectionPool, statements: QueueStatements, step: Step, tokens: Tokens,
    limit: int, within: ByteLimit | None, statement: Callable[..., str], marks: Sequence[Any] = (),
) -> list[Any]:  # fmt: skip
    """Claim without the row that made a claim fail, if it failed for a row that the table refuses. `statement` finds
    the rows. They are not weighed, so only a few are taken at a time."""
    refused, most = statements.refused(step), limit if within is None else min(limit, UNWEIGHED)
    if refused.full() or not is_of_a_row(error.sqlstate):
        raise error
    records: list[Any] = []

    async def pick(most: int) -> list[Key]:
        text = statement(statements.sql, step, left_out=len(refused))
        found = await pool.fetch(text, NO_TOKEN, most, step.lease, *refused.parts, *marks)
        return [tuple(record)[: len(statements.sql.keys)] for record in found]

    await refused.step_over(most, pick, _taker(pool, statements, step, tokens), time.monotonic(), records)
    if refused.full() and not records:
        raise error
    if within is not None:
        within.count(None)
        within.reached = len(records) == most < limit
    return records


def _taker(pool: ConnectionPool, statements: QueueStatements, step: Step, tokens: Tokens) -> TakeRows:
    statement = statements.once(claim_these, step)

    async def take(keys: Sequence[Key]) -> list[Any]:
        try:
            records = await pool.fetch(
                statement, tokens.fresh(), len(keys), step.lease, *statements.raw_key_arrays(keys)
            )
        except asyncpg.PostgresError as error:
            if not is_of_a_row(error.sqlstate):
                raise
            raise RowRefused(refused_values(error)) from error
        return sorted(records, key=PLACE)

    return take


def leases_of(
    statements: QueueStatements, step: Step, records: Sequence[Any], within: ByteLimit | None
) -> list[Lease[Any]]:
    """Return the leases of the records that a claim returned. The time of the claim is in one of them. A record without
    a token was left as it was by a trigger, and is nobody's."""
    now = next((record[-1] for record in records if record[-1] is not None), None) or datetime.now(UTC)
    queue, load, key = statements.sql.queue, statements.load, statements.load.key
    token, attempts = load.lease_place, load.attempts_place
    weights = statements.weigher.weights(records, within)
    leases = [
        Lease(queue, step, key(record), record[token], record[attempts], now, record, load, weight=weight)
        for record, weight in zip(records, weights, strict=True)
        if record[token] is not None
    ]
    return load.with_own_limits(leases)


def buried_rows(statements: QueueStatements, step: Step, records: Sequence[Any]) -> list[DeadRow]:
    """Return the rows that a claim buried, because their attempts were used up."""
    queue, load = statements.sql.queue, statements.load
    return [
        used_up(queue, load.retry(step, record), load.key(record), record[load.attempts_place], partial(load, record))
        for record in records
        if record[BURIED_PLACE] is not None
    ]


def hold_our_tokens(statements: QueueStatements, records: Sequence[Any], tokens: Tokens) -> bool:
    """Return whether every row has the lease that its claim wrote, or none. A trigger may have written another."""
    place = statements.load.lease_place
    return {record[place] for record in records} <= {None, *tokens.given}


async def release_claim(pool: ConnectionPool, sql: PostgresQueueSql, step: Step, token: int) -> bool:
    """Give back the rows of a claim whose answer was lost. Return whether nothing more is to be done. If the table
    refuses to have a row back, its lease will expire."""
    try:
        return bool(await pool.fetch(release_claim_statement(sql, step), token))
    except asyncpg.PostgresError:
        return True


async def read_one_by_one(
    pool: ConnectionPool,
    statements: QueueStatements,
    step: Step,
    tokens: Sequence[int],
    worker: int,
    on_buried: OnBuried,
) -> list[Any]:
    """Read claimed rows one by one, because the driver can't read one of them (a time beyond Python's last year, say)
    and the whole answer failed. That row is buried."""
    return [
        record
        for token in tokens
        for record in await _read_one_by_one(pool, statements, step, token, worker, on_buried)
    ]


async def _read_one_by_one(
    pool: ConnectionPool, statements: QueueStatements, step: Step, token: int, worker: int, on_buried: OnBuried
) -> list[Any]:
    records: list[Any] = []
    while True:
        try:
            found = await pool.fetch(held_row(statements.sql, step), token, len(records))
        except UNREADABLE as error:
            reason = f"a value of this row can't be read: {type(error).__name__}"
            about = (token, len(records), worker, "unreadable", reason)
            for key, attempt in await pool.fetch(bury_held_row(statements.sql, step), *about):
                on_buried(statements.sql.queue, step, DeadRow(key, attempt, "unreadable"))
            continue
        if not found:
            return records
        records += found
