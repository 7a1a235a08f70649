"""Claims on PostgreSQL: which rows are taken, and in what order.

A claim goes on from where the last one left off; in a queue that keeps order per key, it begins with the oldest.
"""

import time
from operator import itemgetter
from typing import Any

from rowmill.model.words import Step
from rowmill.store import order_sql
from rowmill.store import postgres_sql as sql
from rowmill.store.known import Known
from rowmill.store.line import Line
from rowmill.store.port import Condemned

PLACE = itemgetter(-2)
"""Where a record of `postgres_sql.claim` stood in the claim."""
UNREADABLE = (ValueError, ArithmeticError)
"""What the driver raises for a value that has no place in Python."""


async def claim(line: Line, known: Known, step: Step, token: int, limit: int) -> list[Any]:
    """Take up to `limit` rows under this token."""
    if known.terms.queue.per is None:
        return await _claim_onward(line, known, step, token, limit)
    return await _claim_in_order(line, known, step, token, limit)


async def _claim_onward(line: Line, known: Known, step: Step, token: int, limit: int) -> list[Any]:
    """From where the last claim left off. What comes back short of that is looked for from the start, so that
    "nothing is ready" is true whenever it is said."""
    resumed = known.mark(step).resumes
    records = await _claim_lanes(line, known, step, token, limit)
    if len(records) < limit and resumed:
        records += await _claim_lanes(line, known, step, token, limit - len(records))
    return records


async def _claim_lanes(line: Line, known: Known, step: Step, token: int, limit: int) -> list[Any]:
    mark, now = known.mark(step), time.monotonic()
    from_the_start = mark.expired(now)
    if from_the_start:
        levels: list[Any] = [None]
        if mark.by_level:
            levels = [record[0] for record in await line.fetch(order_sql.priorities(known.terms, step))]
        mark.start(levels, now)
    if not mark.lanes:
        return []
    statement = known.claim_statement(step, mark.shape)
    records = await line.fetch(statement, token, limit, step.lease, *mark.arguments())
    if from_the_start:
        mark.looked(time.monotonic() - now)
    records.sort(key=PLACE)
    if len(records) < limit:
        mark.drop()
    else:
        mark.passed(records, known.position)
    return records


async def _claim_in_order(line: Line, known: Known, step: Step, token: int, limit: int) -> list[Any]:
    """The oldest first; where the oldest are all held back by others of their key, every key's head."""
    records: list[Any] = []
    for find in order_sql.finders(known.terms):
        if len(records) < limit:
            statement = known.in_order_statement(step, find)
            records += await line.fetch(statement, token, limit - len(records), step.lease)
    return records


async def read_one_by_one(
    line: Line, known: Known, step: Step, token: int, worker: int, on_condemned: Condemned
) -> list[Any]:
    """A row that was claimed holds a value that the driver can't read, and so fails the whole answer: a time
    beyond Python's last year, say. It is buried; the others are read by themselves."""
    records: list[Any] = []
    while True:
        try:
            found = await line.fetch(sql.held_row(known.terms, step), token, len(records))
        except UNREADABLE as error:
            reason = f"a value of this row can't be read: {type(error).__name__}"
            about = (token, len(records), worker, "unreadable", reason)
            for key, attempt in await line.fetch(sql.condemn(known.terms, step), *about):
                on_condemned(known.terms.queue.name, step.name, key, attempt, "unreadable")
            continue
        if not found:
            return records
        records += found
