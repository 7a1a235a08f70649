"""Claims on SQLite: which rows are taken, and in what order. They run in a write transaction, on its thread."""

import sqlite3
from collections.abc import Sequence
from time import monotonic
from typing import Any

from rowmill.model.lease import NO_TOKEN, Tokens, worker_of
from rowmill.model.states import Step
from rowmill.store import order_per_key
from rowmill.store.keys import Key
from rowmill.store.port import Disconnected
from rowmill.store.refused_rows import Pick, RowRefused, TakeRows
from rowmill.store.row_sizes import ByteLimit
from rowmill.store.sqlite import sql
from rowmill.store.sqlite.statements import BURIED_PLACE, SqliteQueueStatements
from rowmill.store.sqlite.writer import Writer, refused_values
from rowmill.store.watermark import MAX_LEVELS, STRETCHES, Stretch


def claim_rows(
    connection: sqlite3.Connection, known: SqliteQueueStatements, step: Step, token: int, limit: int, *,
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
    connection: sqlite3.Connection, known: SqliteQueueStatements, step: Step, token: int, records: list[Any]
) -> list[Any]:
    """The records of a claim. Those that it buried have their entry in the history, in the same transaction."""
    buried = known.buried(step, records) if any(record[BURIED_PLACE] for record in records) else []
    queue = known.terms.queue
    about = {"queue": queue.name, "stage": step.name, "worker": worker_of(token), "started_at": None}
    for death in buried:
        entry = {"key": queue.key_text(death.key), "attempt": death.attempt, "code": death.code}
        connection.execute(sql.HISTORY, about | entry | {"message": death.message, "traceback": None})
    return records


def _claim_in_order(
    connection: sqlite3.Connection, known: SqliteQueueStatements, step: Step, token: int, limit: int, pick: bool,
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
    known: SqliteQueueStatements,
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


def _picker(writer: Writer, known: SqliteQueueStatements, step: Step) -> Pick:
    async def pick(limit: int) -> list[Key]:
        found = await writer.write(lambda connection: claim_rows(connection, known, step, NO_TOKEN, limit, pick=True))
        return [record[: len(known.terms.keys)] for record in found]

    return pick


def _taker(writer: Writer, known: SqliteQueueStatements, step: Step, tokens: Tokens) -> TakeRows:
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


def _lanes(connection: sqlite3.Connection, known: SqliteQueueStatements, step: Step) -> list[tuple[Stretch, Any]]:
    levels: list[Any] = [None]
    if known.terms.priority is not None:
        levels = [row[0] for row in connection.execute(known.priorities_statement(connection, step))]
    if len(levels) > MAX_LEVELS:
        return [(Stretch.WHOLE, None)]
    return [(stretch, level) for level in levels for stretch in STRETCHES]
