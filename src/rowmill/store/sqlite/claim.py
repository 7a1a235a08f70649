"""Claims on SQLite: which rows are taken, and in what order. They run in a write transaction, on its thread."""

import sqlite3
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from rowmill.model.lease import NO_TOKEN, Tokens, worker_of
from rowmill.model.states import Step
from rowmill.store import order_per_key
from rowmill.store.indexes import IN_ORDER, QueueIndex, queue_indexes, ready_index
from rowmill.store.keys import Key
from rowmill.store.order_per_key import Finder, Start, can_be_claimed
from rowmill.store.port import Disconnected
from rowmill.store.queue_sql import set_clause
from rowmill.store.refused_rows import Pick, RowRefused, TakeRows
from rowmill.store.row_sizes import ByteLimit
from rowmill.store.sqlite.sql import HISTORY, SqliteQueueSql
from rowmill.store.sqlite.writer import Writer, refused_values
from rowmill.store.watermark import MAX_LEVELS, STRETCHES, Stretch

if TYPE_CHECKING:
    from rowmill.store.sqlite.statements import SqliteQueueStatements

BURIED_PLACE = -1
"""The place in a record of what says that the claim buried the row."""


# served by: the stage's ready index, (priority, available_at, order columns, key) WHERE state IN (claimable)
def claim_statement(terms: SqliteQueueSql, step: Step, stretch: Stretch, left_out: int = 0) -> str:
    """Take up to ?2 rows of one stretch. ?1 token, ?3 seconds of lease; then the keys that are left out; then the
    priority if there is one."""
    return claim_of(terms, step, ready_rows(terms, step, stretch, left_out))


def ready_rows(terms: SqliteQueueSql, step: Step, stretch: Stretch, left_out: int, wanted: str = "") -> str:
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


def free_rows(terms: SqliteQueueSql, step: Step, find: Finder, left_out: int, *, behind: bool = False) -> str:
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
def weigh_ready(terms: SqliteQueueSql, step: Step, stretch: Stretch, left_out: int) -> str:
    """The weights of the rows that the claim would take, in its order and with its parameters."""
    return ready_rows(terms, step, stretch, left_out, f"{terms.weight()}, ?1, ?3")


# served by: as the claim, then the primary key
def weigh_of(terms: SqliteQueueSql, picks: str) -> str:
    """The weights of the rows that were picked, in their order and with their parameters."""
    same = " AND ".join(f"held.{key} = pick.{key}" for key in terms.keys)
    # CROSS: the rows are looked up one by one, in the order of the picks.
    return f"SELECT {terms.weight('held.')}, ?1, ?3 FROM ({picks}) AS pick CROSS JOIN {terms.table} AS held ON {same}"


# served by: the primary key
def claim_this(terms: SqliteQueueSql, step: Step) -> str:
    """Take this row if a claim would take it. ?1 token, ?2 is 1, ?3 seconds of lease; then the parts of the key."""
    same = " AND ".join(f"rowmill_candidate.{key} = ?{4 + n}" for n, key in enumerate(terms.keys))
    keys = ", ".join(f"rowmill_candidate.{key}" for key in terms.keys)
    condition = f"{same} AND {can_be_claimed(terms, step)}"
    return claim_of(terms, step, f"SELECT {keys} FROM {terms.table} AS rowmill_candidate WHERE {condition} LIMIT ?2")


def by_index(
    terms: SqliteQueueSql, step: Step, statement: str, usable: Callable[[QueueIndex], bool] = lambda _: True
) -> str:
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


def claim_of(terms: SqliteQueueSql, step: Step, picks: str) -> str:
    """Take the picked rows. Those whose attempts are used up are buried, and answered as dead: by their state, since
    RETURNING may say of a lease that was NULL, and still is, that it is not (SQLite 3.40)."""
    pairs = terms.claim_assignments(step, wait="?3", token="?1")
    keys = ", ".join(terms.keys)
    key = f"({keys})" if len(terms.keys) > 1 else keys
    dead = terms.is_in(terms.queue.vocabulary.dead)
    returned = f"{terms.claimed()}, {dead}"
    return f"UPDATE {terms.table} SET {set_clause(pairs)} WHERE {key} IN ({picks}) RETURNING {returned}"


def claim_rows(
    connection: sqlite3.Connection, known: "SqliteQueueStatements", step: Step, token: int, limit: int, *,
    pick: bool = False, within: ByteLimit | None = None,
) -> list[Any]:  # fmt: skip
    """Take up to `limit` rows under this token; with `pick`, only answer the keys of the rows that this would take."""
    if within is not None:
        within.taken, within.reached = 0, False  # it may be tried again
    if known.terms.queue.per is not None:
        return _claim_in_order(connection, known, step, token, limit, pick, within)
    records: list[Any] = []
    refused, in_sequence = known.refused(step), known.in_sequence
    for stretch, level in _lanes(connection, known, step):
        statement = known.claim_statement(connection, step, stretch, len(refused), pick=pick)
        given: list[Any] = [token, limit - len(records), step.lease, *refused.parts]
        if known.terms.priority is not None and stretch is not Stretch.WHOLE:
            given.append(level)
        if within is not None:
            weigh = known.weigh_statement(connection, step, stretch, len(refused))
            given[1] = _fitting(connection, weigh, given, within)
        taken = connection.execute(statement, given).fetchall() if given[1] else []
        records += taken if pick else in_sequence(_noted(connection, known, step, token, taken))
        if len(records) >= limit or (within is not None and within.reached):
            break
    return records


def _noted(
    connection: sqlite3.Connection, known: "SqliteQueueStatements", step: Step, token: int, records: list[Any]
) -> list[Any]:
    """The records of a claim. Those that it buried have their entry in the history, in the same transaction."""
    buried = known.buried(step, records) if any(record[BURIED_PLACE] for record in records) else []
    queue = known.terms.queue
    about = {"queue": queue.name, "stage": step.name, "worker": worker_of(token), "started_at": None}
    for death in buried:
        entry = {"key": queue.key_text(death.key), "attempt": death.attempt, "code": death.code}
        connection.execute(HISTORY, about | entry | {"message": death.message, "traceback": None})
    return records


def _claim_in_order(
    connection: sqlite3.Connection, known: "SqliteQueueStatements", step: Step, token: int, limit: int, pick: bool,
    within: ByteLimit | None,
) -> list[Any]:  # fmt: skip
    """The oldest first; where the oldest are all held back by others of their key, every key's head."""
    records: list[Any] = []
    refused = known.refused(step)
    for ask in known.search(step).asks(order_per_key.finders(known.terms), limit):
        behind = bool(ask.behind)
        statement = known.in_order_statement(connection, step, ask.find, len(refused), pick=pick, behind=behind)
        given = [token, ask.most, step.lease, *refused.parts, *ask.behind]
        if within is not None:
            weigh = known.weigh_in_order_statement(connection, step, ask.find, len(refused), behind=behind)
            given[1] = _fitting(connection, weigh, given, within)
        ask.found = found = connection.execute(statement, given).fetchall() if given[1] else []
        records += found if pick else known.in_sequence(_noted(connection, known, step, token, found))
        ask.last = within is not None and within.reached
        if pick and records:
            break  # nothing was taken: the next time would find the same rows again
    return records


def _fitting(connection: sqlite3.Connection, weigh: str, given: Sequence[Any], within: ByteLimit) -> int:
    """Return how many of the rows that a claim would take fit into what is left of its bytes. No row is weighed beyond
    the first that does not: SQLite reads a text to tell its length."""
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
    known: "SqliteQueueStatements",
    step: Step,
    tokens: Tokens,
    limit: int,
    within: ByteLimit | None = None,
) -> list[Any]:
    """Take rows, and step over those that the table refuses to let go. Each try is a transaction of its own: a
    trigger may undo the one that it is in."""
    refused, take, records = known.refused(step), _taker(writer, known, step, tokens), list[Any]()
    if refused.due(now := monotonic()):
        records = await refused.try_again(limit, take, now)
        if records:
            return records
    try:
        return await writer.write(
            lambda connection: claim_rows(connection, known, step, tokens.fresh(), limit, within=within)
        )
    except sqlite3.IntegrityError:
        if refused.full():
            raise
        try:
            await refused.step_over(limit, _picker(writer, known, step), take, now, records)
        except Disconnected:
            if not records:
                raise
        if refused.full() and not records:
            raise
    return records


def _picker(writer: Writer, known: "SqliteQueueStatements", step: Step) -> Pick:
    async def pick(limit: int) -> list[Key]:
        found = await writer.write(lambda connection: claim_rows(connection, known, step, NO_TOKEN, limit, pick=True))
        return [record[: len(known.terms.keys)] for record in found]

    return pick


def _taker(writer: Writer, known: "SqliteQueueStatements", step: Step, tokens: Tokens) -> TakeRows:
    async def take(keys: Sequence[Key]) -> list[Any]:
        def work(connection: sqlite3.Connection) -> list[Any]:
            statement, token = known.claim_this_statement(connection, step), tokens.fresh()
            given = ((token, 1, step.lease, *key) for key in keys)
            taken = [record for one in given for record in connection.execute(statement, one)]
            return _noted(connection, known, step, token, taken)

        try:
            return await writer.write(work)
        except sqlite3.IntegrityError as error:
            raise RowRefused(refused_values(error)) from error

    return take


def _lanes(connection: sqlite3.Connection, known: "SqliteQueueStatements", step: Step) -> list[tuple[Stretch, Any]]:
    levels: list[Any] = [None]
    if known.terms.priority is not None:
        levels = [row[0] for row in connection.execute(known.priorities_statement(connection, step))]
    if len(levels) > MAX_LEVELS:
        return [(Stretch.WHOLE, None)]
    return [(stretch, level) for level in levels for stretch in STRETCHES]
