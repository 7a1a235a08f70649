"""How rows are claimed on PostgreSQL. One function per statement, headed by the index that serves it."""

from dataclasses import replace
from typing import Any

from sqlalchemy import Column

from rowmill.model.death import ATTEMPTS_USED_UP
from rowmill.model.lease import CLAIM_BITS
from rowmill.model.lifecycle import DIE, RELEASE
from rowmill.model.words import Step
from rowmill.store.order_sql import Finder, Start, can_be_claimed, ready
from rowmill.store.order_sql import run_together as run_together_of
from rowmill.store.postgres_sql import fenced, given, key_fields, one_of, same_key
from rowmill.store.postgres_terms import NOW, PostgresTerms
from rowmill.store.schema import SCHEMA
from rowmill.store.terms import set_clause
from rowmill.store.watermark import Shape, Stretch
from rowmill.store.weighing import LIGHT

BURIED = "rowmill_buried"
"""What a claim answers beside the columns of a row: its key as text, if it was buried."""


# served by: the stage's ready index, (priority, available_at, order columns, key) WHERE state IN (claimable)
def claim(terms: PostgresTerms, step: Step, shape: Shape, left_out: int = 0, *, weighed: bool = False) -> str:
    """Take up to $2 rows. $1 token, $3 seconds of lease; if they are `weighed`, $4 bytes that they may weigh together
    and $5 whether one is taken whatever it weighs; then the keys that are left out; then per lane its priority and its
    watermark.

    The sub-query is an array, which is made once: a joined one may be run again and claim more than its limit.
    """
    return _claim_of(terms, step, _lanes(terms, step, shape, left_out, picked(terms), weighed=weighed), weighed=weighed)


# served by: as the claim
def pick(terms: PostgresTerms, step: Step, shape: Shape, left_out: int) -> str:
    """The keys of the rows that the claim would take, with its parameters."""
    return _pick_of(_lanes(terms, step, shape, left_out, ", ".join(terms.keys)))


def _lanes(terms: PostgresTerms, step: Step, shape: Shape, left_out: int, wanted: str, *, weighed: bool = False) -> str:
    """A lane is one stretch of the index: the rows of one priority that are available at once (NULL) or from a
    time. Each starts at its watermark, so that it does not walk over the dead entries that earlier claims
    left behind."""
    first = _first(weighed)
    place = first + left_out * len(terms.keys)
    wanted, weight = _with_weight(terms, wanted) if weighed else (wanted, "")
    branches = []
    for stretch, marked in shape:
        conditions, position = terms.stretch(step, stretch, place)
        conditions += terms.but_for(left_out, first)
        if terms.priority is not None and stretch is not Stretch.WHOLE:
            place += 1
        if marked:
            marks = ", ".join(f"${place + n}" for n in range(len(position)))
            conditions.append(f"({', '.join(position)}) > ({marks})")
            place += len(position)
        branches.append(
            f"SELECT {wanted} FROM (SELECT {', '.join(terms.keys)}{weight} FROM {terms.table} "
            f"WHERE {' AND '.join(conditions)} ORDER BY {terms.order} LIMIT $2 {terms.lock} SKIP LOCKED) AS lane"
        )
    return " UNION ALL ".join(branches)


def _first(weighed: bool) -> int:
    """The place of the first parameter behind those that every claim has."""
    return 6 if weighed else 4


def _with_weight(terms: PostgresTerms, wanted: str, alias: str = "") -> tuple[str, str]:
    """What is wanted of each row of a lane together with its weight, and what brings the weight into the lane."""
    return f"{wanted} AS g_key, rowmill_weight AS g_weight", f", {terms.weight(alias)} AS rowmill_weight"


# served by: see `order_sql`, which finds the rows
def claim_in_order(
    terms: PostgresTerms, step: Step, find: Finder, shape: Shape = (), left_out: int = 0, *, behind: bool = False,
    weighed: bool = False,
) -> str:  # fmt: skip
    """Take up to $2 rows out of the free ones of a queue that keeps order per key; parameters as of `claim`, then the
    key behind which to begin."""
    free = _free(terms, step, find, shape, left_out, picked(terms), behind, weighed=weighed)
    return _claim_of(terms, step, free, weighed=weighed)


# served by: as the claim
def pick_in_order(terms: PostgresTerms, step: Step, find: Finder, shape: Shape, left_out: int, *, behind: bool) -> str:
    """The keys of the rows that the claim would take, with its parameters."""
    return _pick_of(_free(terms, step, find, shape, left_out, ", ".join(terms.keys), behind))


# served by: the stage's ready index
def oldest(terms: PostgresTerms, step: Step, shape: Shape) -> str:
    """Where the oldest ready row of each lane stands: the lane's place, `available_at`, then the other columns of their
    order. The parameters are the watermarks."""
    wanted = ", ".join([terms.available_at, *terms.sequence])
    firsts = enumerate(ready(terms, step, wanted, "LIMIT 1", _beside(terms, shape, 1, ">=", "")))
    return " UNION ALL ".join(f"SELECT {place}, first.* FROM ({row}) AS first" for place, row in firsts)


# served by: the stage's ready index
def passed_over(terms: PostgresTerms, step: Step, shape: Shape) -> str:
    """Is a row ready that stands before the watermark of its lane? The parameters are the watermarks. Not with EXISTS,
    of which the planner drops the order, and with it the index."""
    rows = enumerate(ready(terms, step, "1", "LIMIT 1", _beside(terms, shape, 1, "<", " AND false")))
    found = " UNION ALL ".join(f"SELECT 1 FROM ({row}) AS lane_{place}" for place, row in rows)
    return f"SELECT count(*) > 0 FROM ({found}) AS found"


def _beside(terms: PostgresTerms, shape: Shape, first: int, side: str, unmarked: str) -> Start:
    """On one side of the watermark of each lane, whose parts are parameters from the place `first` on; and what is
    asked of lanes without one."""
    lanes = {Stretch.AT_ONCE: unmarked, Stretch.TIMED: unmarked}
    for stretch, marked in shape:
        if marked:
            position = terms.position(stretch)
            marks = ", ".join(terms.parameter(first + n) for n in range(len(position)))
            lanes[stretch] = f" AND ({', '.join(position)}) {side} ({marks})"
            first += len(position)
    return Start(lanes[Stretch.AT_ONCE], lanes[Stretch.TIMED])


def _free(
    terms: PostgresTerms, step: Step, find: Finder, shape: Shape, left_out: int, wanted: str, behind: bool, *,
    weighed: bool = False,
) -> str:  # fmt: skip
    """Free rows, locked. That they can be claimed is asked again of the locked row: it may have failed, and been sent
    to wait, since it was found. Rows that are left out hold back those behind them: they must be found too."""
    first = _first(weighed)
    place = first + left_out * len(terms.keys)
    wanted, weight = _with_weight(terms, wanted, "held.") if weighed else (wanted, "")
    start = _beside(terms, shape, place, ">=", "")
    if behind:
        place += sum(len(terms.position(stretch)) for stretch, marked in shape if marked)
        start = replace(start, behind=terms.parameter(place))
    most = f"$2::bigint + {left_out}" if left_out else "$2::bigint"
    free = find(terms, step, most, start)
    available = f"(held.{terms.available_at} IS NULL OR held.{terms.due})"
    # In a form from which the planner proves nothing: it might walk a whole partial index instead of the key's.
    claimable = f"coalesce({terms.is_in(step.claimable, 'held.')} AND {available}{terms.may_claim('held.')}, false)"
    conditions = " AND ".join([claimable, *terms.but_for(left_out, first, "held.")])
    same = " AND ".join(f"held.{key} = {one_of(f'free.{key}')}" for key in terms.keys)
    keys = ", ".join(f"held.{key}" for key in terms.keys)
    return (
        f"SELECT {wanted} FROM (SELECT {keys}{weight} FROM ({free}) AS free JOIN {terms.table} AS held ON {same} "
        f"WHERE {conditions} LIMIT $2 {terms.lock} OF held SKIP LOCKED) AS lane"
    )


# served by: the primary key
def claim_these(terms: PostgresTerms, step: Step) -> str:
    """Take those of the given rows that a claim would take. $1 token, $2 how many they are, $3 seconds of lease; then
    the parts of the key."""
    columns = list(enumerate(terms.queue.key))
    these = given(key_fields(terms), first=4)
    same = " AND ".join(
        f"rowmill_candidate.{terms.name(column)} = {one_of(f'g_k{n}::{terms.key_type(column)}')}"
        for n, column in columns
    )
    keys = ", ".join(f"rowmill_candidate.{key}" for key in terms.keys)
    return _claim_of(
        terms,
        step,
        f"SELECT {picked(terms)} FROM (SELECT {keys} FROM {these} JOIN {terms.table} AS rowmill_candidate ON {same} "
        f"WHERE {can_be_claimed(terms, step)} ORDER BY g_place {terms.lock} OF rowmill_candidate SKIP LOCKED) AS lane",
    )


# served by: the in-order index
def run_together(terms: PostgresTerms, per: "Column[Any]") -> str:
    """The places of those of the keys $1 of which two rows or more run."""
    arrays = given([("g_raw", terms.type_of(per))], first=1)
    return run_together_of(terms, f"(SELECT g_raw::{terms.key_type(per)} AS g_per, g_place FROM {arrays}) AS keys")


# served by: the primary key
def give_back(terms: PostgresTerms, step: Step) -> str:
    """Release claimed rows, each only where its lease still holds. $1 tokens, then the parts of the key."""
    pairs = terms.assignments(RELEASE, step)
    return (
        f"UPDATE {terms.table} AS t SET {set_clause(pairs)} FROM {given(fenced(terms), first=1)} "
        f"WHERE {same_key(terms)} AND t.{terms.lease} = g_lease"
    )


def _pick_of(picks: str) -> str:
    """Every parameter of the claim is named, so that both take the same ones."""
    return f"SELECT pick.*, $1::bigint, $3::float8 FROM ({picks}) AS pick LIMIT $2"


def picked(terms: PostgresTerms) -> str:
    """The key as one value: itself, or a record of its parts."""
    if len(terms.keys) == 1:
        return terms.keys[0]
    return f"ROW({', '.join(f'CAST({key} AS {kind})' for key, kind in key_types(terms))})"


def key_types(terms: PostgresTerms) -> list[tuple[str, str]]:
    return [(terms.name(column), terms.key_type(column)) for column in terms.queue.key]


def _claim_of(terms: PostgresTerms, step: Step, picks: str, *, weighed: bool = False) -> str:
    """Take the picked rows. Those whose attempts are used up are buried, with an entry in the history, and answered
    without a lease."""
    pairs = terms.claim_assignments(step, wait="$3::float8", token="$1")
    # Not joined: each row that is updated would carry a copy of the whole array.
    keys = "(SELECT g_keys FROM rowmill_picked)" if weighed else f"ARRAY(SELECT * FROM ({picks}) AS pick LIMIT $2)"
    if len(terms.keys) == 1:
        given = f"unnest({keys}) WITH ORDINALITY AS given(g_k0, g_place)"
    else:
        parts = ", ".join(f"g_k{n} {kind}" for n, (_, kind) in enumerate(key_types(terms)))
        names = ", ".join(f"g_k{n}" for n in range(len(terms.keys)))
        given = f"ROWS FROM (unnest({keys}) AS ({parts})) WITH ORDINALITY AS given({names}, g_place)"
    same = " AND ".join(f"t.{key} = {one_of(f'g_k{n}')}" for n, key in enumerate(terms.keys))
    # A row that a trigger left as it was has no lease either.
    buried = f"t.{terms.lease} IS NULL AND {terms.is_in(terms.queue.vocabulary.dead, 't.')}"
    # The time and the weight are the same for all of them, and expensive to compute: only the first row has them.
    weight = "CASE WHEN g_place = 1 THEN (SELECT g_total FROM rowmill_picked) END AS g_total, " if weighed else ""
    taken = (
        f"UPDATE {terms.table} AS t SET {set_clause(pairs)} FROM {given} WHERE {same} RETURNING {terms.claimed('t.')}, "
        f"{weight}CASE WHEN {buried} THEN {key_text(terms)} END AS {BURIED}, "
        f"g_place, CASE WHEN g_place = 1 THEN {NOW} END AS claimed_at"
    )
    picked = [f"rowmill_picked AS MATERIALIZED ({_within_bytes(picks)})"] if weighed else []
    if terms.queue.unlimited(step):
        return f"WITH {picked[0]} {taken}" if picked else taken
    queue, stage, code = (terms.text(text) for text in (terms.queue.name, step.name, ATTEMPTS_USED_UP))
    history = (
        f"INSERT INTO {SCHEMA}.attempt (queue, key, stage, attempt, worker, ended_at, code, message) "
        f"SELECT {queue}, {BURIED}, {stage}, {terms.attempts}, $1::bigint >> {CLAIM_BITS}, {NOW}, {code}, "
        f"{terms.used_up_message(step)} FROM rowmill_taken WHERE {BURIED} IS NOT NULL"
    )
    steps = [*picked, f"rowmill_taken AS ({taken})", f"rowmill_history AS ({history})"]
    return f"WITH {', '.join(steps)} SELECT * FROM rowmill_taken"


def _within_bytes(picks: str) -> str:
    """The first of the picked rows that weigh no more than $4 bytes together, and the bytes of them all; infinite if
    one of them is not light, and -1 if some were left. Those are locked until the end of the statement, and stay as
    they are.

    Mostly all of them fit: only where they do not, their weights are summed up one by one.
    """
    picked = (
        "SELECT array_agg(g_key) AS g_all, array_agg(g_weight) AS g_weights, sum(g_weight) AS g_total, "
        "max(g_weight) AS g_heaviest "
        f"FROM (SELECT * FROM ({picks}) AS pick LIMIT $2) AS pick"
    )
    sums = "SELECT sum(g_weight) OVER (ROWS UNBOUNDED PRECEDING) AS g_sum FROM unnest(g_weights) AS g_weight"
    fit = f"SELECT greatest(count(*), $5::boolean::int)::int FROM ({sums}) AS sums WHERE g_sum <= $4::float8"
    return (
        "SELECT CASE WHEN g_fit IS NULL THEN g_all ELSE g_all[1:g_fit] END AS g_keys, "
        f"CASE WHEN g_fit < cardinality(g_all) THEN -1 WHEN g_heaviest > {LIGHT} THEN 'infinity'::float8 "
        "ELSE g_total END AS g_total "
        f"FROM (SELECT *, CASE WHEN g_total > $4::float8 THEN ({fit}) END AS g_fit FROM ({picked}) AS p) AS fitting"
    )


def key_text(terms: PostgresTerms) -> str:
    """The key of a row of table t as `Queue.key_text` writes it."""
    return f"concat_ws('|', {', '.join(f't.{key}::text' for key in terms.keys)})"


# served by: the partial index on running rows, which is small
def disclaim(terms: PostgresTerms, step: Step) -> str:
    """Give back what a claim took whose answer was lost. $1 its token."""
    pairs = terms.assignments(RELEASE, step)
    own = ", ".join(f"t.{key}" for key in terms.keys)
    same = " AND ".join(f"t.{key} = {one_of(f'found.{key}')}" for key in terms.keys)
    # The order is for the planner: other indexes hold running rows too, but only one of them in this order.
    found = (
        f"SELECT {own} FROM {terms.table} AS t WHERE {held(terms, step)} ORDER BY t.{terms.leased_until} {terms.lock}"
    )
    return (
        f"UPDATE {terms.table} AS t SET {set_clause(pairs)} FROM ({found}) AS found "
        f"WHERE {same} AND t.{terms.lease} = $1 RETURNING 1"
    )


def held(terms: PostgresTerms, step: Step) -> str:
    """The rows of table t that the claim with token $1 took."""
    return (
        f"{terms.is_in(step.running, 't.')} AND t.{terms.leased_until} > {terms.now('leased_until')} "
        f"AND t.{terms.lease} = $1"
    )


# served by: the partial index on running rows, which is small
def held_row(terms: PostgresTerms, step: Step) -> str:
    """One of the rows that a claim took, $2 from 0, as the claim would have answered it. $1 its token."""
    return (
        f"SELECT {terms.claimed('t.')}, NULL AS {BURIED}, 1 AS g_place, {NOW} AS claimed_at FROM {terms.table} AS t "
        f"WHERE {held(terms, step)} ORDER BY {terms.order} LIMIT 1 OFFSET $2"
    )


# served by: the partial index on running rows, which is small
def condemn(terms: PostgresTerms, step: Step) -> str:
    """Bury the row that `held_row` finds. $1 token, $2 its place, $3 worker, $4 code, $5 message."""
    keys = ", ".join(terms.keys)
    own = ", ".join(f"t.{key}" for key in terms.keys)
    pairs = terms.assignments(DIE, step, error="$4::text || ': ' || $5::text", code="$4::text")
    found = f"SELECT {own} FROM {terms.table} AS t WHERE {held(terms, step)} ORDER BY {terms.order} LIMIT 1 OFFSET $2"
    return (
        f"WITH condemned AS (UPDATE {terms.table} AS t SET {set_clause(pairs)} WHERE ({keys}) IN ({found}) "
        f"AND {held(terms, step)} RETURNING {key_text(terms)} AS g_row, t.{terms.attempts} AS g_attempt) "
        f"INSERT INTO {SCHEMA}.attempt (queue, key, stage, attempt, worker, ended_at, code, message) "
        f"SELECT {terms.text(terms.queue.name)}, g_row, {terms.text(step.name)}, g_attempt, $3::bigint, {NOW}, $4, $5 "
        "FROM condemned RETURNING key, attempt"
    )
