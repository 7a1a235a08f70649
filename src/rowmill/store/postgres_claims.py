"""Claims on PostgreSQL: which rows are taken, and in what order.

A claim goes on from where the last one left off; in a queue that keeps order per key, it begins with the oldest row
that is ready.
Rows that the table refuses to let go are stepped over.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import asyncpg

from rowmill.model.death import Death
from rowmill.model.lease import NO_TOKEN, Tokens
from rowmill.model.words import Step
from rowmill.store import order_sql
from rowmill.store import postgres_claim_sql as sql
from rowmill.store.keys import Key
from rowmill.store.known import PLACE, Known, as_text, numbers, travels_as_itself
from rowmill.store.line import ConnectionPool, refused_values
from rowmill.store.port import Condemned
from rowmill.store.postgres_terms import PostgresTerms
from rowmill.store.refusals import Refusal, Take, is_of_a_row
from rowmill.store.watermark import Shape
from rowmill.store.weighing import ByteLimit

UNREADABLE = (ValueError, ArithmeticError)
"""What the driver raises for a value that has no place in Python."""


UNWEIGHED = 20
"""Rows that a claim takes at a time without weighing them, while it steps over a row that the table refuses."""
STEPS_BACK = 3
"""How often a claim begins anew that met another one at the same key. Both may have stepped back."""


async def claim(
    line: ConnectionPool, known: Known, step: Step, tokens: Tokens, limit: int, within: ByteLimit | None = None
) -> list[Any]:
    """Take up to `limit` rows; where the queue keeps order per key, none while another of its key runs."""
    if known.terms.queue.per is None:
        return await _claim(line, known, step, tokens, limit, within)
    records: list[Any] = []
    for _ in range(STEPS_BACK):
        found = await _claim(line, known, step, tokens, limit - len(records), within)
        alone = await step_back(line, known, step, found)
        records += alone
        if len(alone) == len(found):
            break
    return records


async def step_back(line: ConnectionPool, known: Known, step: Step, records: Sequence[Any]) -> list[Any]:
    """Give back the claimed rows of whose key another one runs as well; answers the rest.

    A claim does not see rows that another one takes at the same time. If the two could not see the same rows of a key,
    since a row of it was just committed or put back, each takes another one. This is asked after the commit of the
    claim: of two such claims, the one that asks last sees the other.
    """
    queue, load = known.terms.queue, known.load
    assert queue.per is not None
    held = [record for record in records if record[load.lease_place] is not None and load.per(record) is not None]
    if not held:
        return list(records)
    as_itself = travels_as_itself(known.terms, queue.per)
    keys = [load.per(record) if as_itself else as_text(load.per(record)) for record in held]
    together = [held[row[0] - 1] for row in await line.fetch(known.run_together_statement(queue.per), keys)]
    if not together:
        return list(records)
    tokens = numbers([record[load.lease_place] for record in together])
    parts = [load.raw_key(record) for record in together]
    with suppress(asyncpg.PostgresError):  # if the table refuses to have them back, they come back by their leases
        await line.fetch(known.give_back_statement(step), tokens, *known.raw_key_arrays(parts))
    gone = set(map(id, together))
    return [record for record in records if id(record) not in gone]


async def _claim(
    line: ConnectionPool, known: Known, step: Step, tokens: Tokens, limit: int, within: ByteLimit | None
) -> list[Any]:
    refused = known.refused(step)
    if refused and refused.due(now := time.monotonic()):
        mended = await refused.try_again(limit, _taker(line, known, step, tokens), now)
        if mended:
            if within is not None:
                within.count(None)
            return mended
    if known.terms.queue.per is None:
        return await _claim_onward(line, known, step, tokens, limit, within)
    return await _claim_in_order(line, known, step, tokens, limit, within)


async def _claim_onward(
    line: ConnectionPool, known: Known, step: Step, tokens: Tokens, limit: int, within: ByteLimit | None
) -> list[Any]:
    """Continue where the last claim left off. A claim that finds no row looks from the start of the index before it
    says so, unless that look has become expensive. One that finds some, but fewer than it may take, returns them at
    once, and leaves the look to the next claim: a handler should not wait for it."""
    mark = known.mark(step)
    resumed = mark.resumes
    records = await _claim_lanes(line, known, step, tokens, limit, within)
    if _short(records, limit, within) and resumed and mark.may_look_back(time.monotonic()):
        mark.drop()
        if not records:
            records = await _claim_lanes(line, known, step, tokens, limit, within)
    return records


def _short(records: Sequence[Any], limit: int, within: ByteLimit | None) -> bool:
    """Did a claim find fewer rows than it might have taken?"""
    return len(records) < limit and not (within is not None and within.reached)


async def _claim_lanes(
    line: ConnectionPool, known: Known, step: Step, tokens: Tokens, limit: int, within: ByteLimit | None
) -> list[Any]:
    mark, refused, now = known.mark(step), known.refused(step), time.monotonic()
    from_the_start = mark.expired(now)
    if from_the_start:
        levels: list[Any] = [None]
        if mark.by_level:
            levels = [record[0] for record in await line.fetch(order_sql.priorities(known.terms, step))]
        mark.start(levels, now)
    if not mark.lanes:
        return []
    shape, marks = mark.shape, mark.arguments()
    statement = known.claim_statement(step, shape, len(refused), weighed=within is not None)
    pick = partial(sql.pick, shape=shape)
    try:
        records = await line.fetch(
            statement, tokens.fresh(), limit, step.lease, *_bytes(within), *refused.parts, *marks
        )
    except asyncpg.PostgresError as error:
        mark.drop()
        return await _step_over(error, line, known, step, tokens, limit, within, pick, marks)
    await _note_left(line, known, step, records, within, pick, marks)
    if from_the_start:
        mark.looked(now, time.monotonic() - now, len(records))
    records.sort(key=PLACE)
    mark.passed(records, known.position)
    if _short(records, limit, within):
        mark.go_on()
    return records


def _bytes(within: ByteLimit | None) -> tuple[Any, ...]:
    """The parameters of a claim that is weighed."""
    return () if within is None else (within.left, within.takes_one)


async def _note_left(
    line: ConnectionPool, known: Known, step: Step, records: Sequence[Any], within: ByteLimit | None,
    statement: Callable[..., str], marks: Sequence[Any],
) -> None:  # fmt: skip
    """Note what the rows of a claim weigh, and whether it left some because of that. One whose first row is missing,
    as where it took nothing, does not tell: then the statement looks whether there is a row."""
    if within is None:
        return
    total = next((record["g_total"] for record in records if PLACE(record) == 1), None)
    within.count(None if total is None or not 0 <= total < math.inf else total)
    if total is not None:
        within.reached = total < 0
    elif not within.takes_one:
        refused = known.refused(step)
        text = statement(known.terms, step, left_out=len(refused))
        within.reached = bool(await line.fetch(text, NO_TOKEN, 1, step.lease, *refused.parts, *marks))


async def _claim_in_order(
    line: ConnectionPool, known: Known, step: Step, tokens: Tokens, limit: int, within: ByteLimit | None
) -> list[Any]:
    """The oldest first; where the oldest are all held back by others of their key, every key's head. A claim that finds
    no row looks whether rows stand before its beginning, as a plain one does."""
    mark = known.mark(step)
    await _look_for_oldest(line, known, step)
    resumed, shape, marks = mark.resumes, mark.shape, mark.arguments()
    records = await _claim_free(line, known, step, tokens, limit, within, shape, marks)
    if not records and _short(records, limit, within) and resumed and mark.may_look_back(now := time.monotonic()):
        [[passed_over]] = await line.fetch(known.passed_over_statement(step, shape), *marks)
        mark.looked(now, time.monotonic() - now)
        if passed_over:
            records = await _claim_free(line, known, step, tokens, limit, within)
    return records


async def _look_for_oldest(line: ConnectionPool, known: Known, step: Step) -> None:
    """So that claims begin there. With priorities, what is oldest says nothing of where the others are; and a row whose
    place is unknown is neither before nor behind it."""
    mark, now = known.mark(step), time.monotonic()
    placeless = any(column.nullable for column in known.terms.queue.order_by)
    if mark.by_level or placeless or not mark.wants_oldest(now):
        return
    from_the_start = mark.expired(now)
    if from_the_start:
        mark.start([None], now)
    rows = await line.fetch(known.oldest_statement(step, mark.shape), *mark.arguments())
    if from_the_start:
        mark.looked(now, time.monotonic() - now)
    mark.begins(((row[0], tuple(row[2 if row[1] is None else 1 :])) for row in rows), now)


async def _claim_free(
    line: ConnectionPool, known: Known, step: Step, tokens: Tokens, limit: int, within: ByteLimit | None,
    shape: Shape = (), marks: Sequence[Any] = (),
) -> list[Any]:  # fmt: skip
    refused, records = known.refused(step), list[Any]()
    for ask in known.search(step).asks(order_sql.finders(known.terms), limit):
        behind, places = bool(ask.behind), (*marks, *ask.behind)
        statement = known.in_order_statement(
            step, ask.find, shape, len(refused), behind=behind, weighed=within is not None
        )
        pick = partial(sql.pick_in_order, find=ask.find, shape=shape, behind=behind)
        try:
            ask.found = await line.fetch(
                statement, tokens.fresh(), ask.most, step.lease, *_bytes(within), *refused.parts, *places
            )
        except asyncpg.PostgresError as error:
            ask.found = await _step_over(error, line, known, step, tokens, ask.most, within, pick, places)
        else:
            await _note_left(line, known, step, ask.found, within, pick, places)
        records += ask.found
        if within is not None:
            within.taken += known.weigher.total(ask.found)
            ask.last = within.reached
    return records


async def _step_over(
    error: asyncpg.PostgresError, line: ConnectionPool, known: Known, step: Step, tokens: Tokens, limit: int,
    within: ByteLimit | None, statement: Callable[..., str], marks: Sequence[Any] = (),
) -> list[Any]:  # fmt: skip
    """A claim failed: if for a row that the table refuses, claim without it. The statement finds the rows. They are not
    weighed, and so a few at a time."""
    refused, most = known.refused(step), limit if within is None else min(limit, UNWEIGHED)
    if refused.full() or not is_of_a_row(error.sqlstate):
        raise error
    records: list[Any] = []

    async def pick(most: int) -> list[Key]:
        text = statement(known.terms, step, left_out=len(refused))
        found = await line.fetch(text, NO_TOKEN, most, step.lease, *refused.parts, *marks)
        return [tuple(record)[: len(known.terms.keys)] for record in found]

    await refused.step_over(most, pick, _taker(line, known, step, tokens), time.monotonic(), records)
    if refused.full() and not records:
        raise error
    if within is not None:
        within.count(None)
        within.reached = len(records) == most < limit
    return records


def _taker(line: ConnectionPool, known: Known, step: Step, tokens: Tokens) -> Take:
    statement = sql.claim_these(known.terms, step)

    async def take(keys: Sequence[Key]) -> list[Any]:
        try:
            records = await line.fetch(statement, tokens.fresh(), len(keys), step.lease, *known.raw_key_arrays(keys))
        except asyncpg.PostgresError as error:
            if not is_of_a_row(error.sqlstate):
                raise
            raise Refusal(refused_values(error)) from error
        return sorted(records, key=PLACE)

    return take


async def disclaim(line: ConnectionPool, terms: PostgresTerms, step: Step, token: int) -> bool:
    """Give back what a claim took whose answer was lost; answers whether there is nothing more to do. If the table
    refuses to have a row back, it comes back by its lease."""
    try:
        return bool(await line.fetch(sql.disclaim(terms, step), token))
    except asyncpg.PostgresError:
        return True


async def read_one_by_one(
    line: ConnectionPool, known: Known, step: Step, tokens: Sequence[int], worker: int, on_condemned: Condemned
) -> list[Any]:
    """A row that was claimed holds a value that the driver can't read, and so fails the whole answer: a time
    beyond Python's last year, say. It is buried; the others are read by themselves."""
    return [
        record for token in tokens for record in await _read_one_by_one(line, known, step, token, worker, on_condemned)
    ]


async def _read_one_by_one(
    line: ConnectionPool, known: Known, step: Step, token: int, worker: int, on_condemned: Condemned
) -> list[Any]:
    records: list[Any] = []
    while True:
        try:
            found = await line.fetch(sql.held_row(known.terms, step), token, len(records))
        except UNREADABLE as error:
            reason = f"a value of this row can't be read: {type(error).__name__}"
            about = (token, len(records), worker, "unreadable", reason)
            for key, attempt in await line.fetch(sql.condemn(known.terms, step), *about):
                on_condemned(known.terms.queue, step, Death(key, attempt, "unreadable"))
            continue
        if not found:
            return records
        records += found
