"""What workers do for the fleet: sign up, give signs of life, lead, rescue, tidy up. One function per statement group.

Every function takes a connection in a transaction.
"""

import json
import os
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.types import NULLTYPE

from rowmill.model.errors import DeclarationError
from rowmill.model.lease import Lease, worker_of
from rowmill.model.lifecycle import BURY, PARK, RESCUE, Move
from rowmill.model.queue import Queue
from rowmill.model.words import Step, Word
from rowmill.store.index_plans import index_plans
from rowmill.store.moment import moment
from rowmill.store.rows import RowLoader
from rowmill.store.schema import WAKE_LOCK, full_name, own_tables
from rowmill.store.terms import Terms

ALIVE_SECONDS = 30.0
KNOWN_SECONDS = 86400.0
"""For how long a silent worker is known at least, however short history is kept: it may be cut off, and alive."""
TIDY_MOST = 5000
"""Entries of the history that are deleted at once."""


def register(connection: Connection, queues: Sequence[Queue[Any]]) -> int:
    """Sign up: answers the number of this worker, which no other ever had."""
    own = own_tables(connection.dialect.name)
    now = moment(connection.dialect.name)
    number: int = connection.execute(
        sa.insert(own.worker)
        .values(
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=", ".join(queue.name for queue in queues),
            started_at=now,
            seen_at=now,
        )
        .returning(own.worker.c.id)
    ).scalar_one()
    return number


def sign_of_life(connection: Connection, worker: int) -> set[tuple[str, str]]:
    """Say that we live; answers what is paused, as (queue, stage), the stage empty for all of them."""
    own = own_tables(connection.dialect.name)
    now = moment(connection.dialect.name)
    connection.execute(sa.update(own.worker).where(own.worker.c.id == worker).values(seen_at=now))
    return {(row.queue, row.stage) for row in connection.execute(sa.select(own.pause.c.queue, own.pause.c.stage))}


def sign_off(connection: Connection, worker: int) -> None:
    own = own_tables(connection.dialect.name)
    now = moment(connection.dialect.name)
    connection.execute(sa.update(own.worker).where(own.worker.c.id == worker).values(seen_at=now, stopped_at=now))
    connection.execute(sa.delete(own.leader).where(own.leader.c.worker == worker))
    connection.execute(sa.delete(own.words).where(own.words.c.worker == worker))


def lead(connection: Connection, worker: int, seconds: float, name: str = "upkeep") -> bool:
    """Try to be the one that does the upkeep, or stay it. Decided by one row and the database's clock."""
    own = own_tables(connection.dialect.name)
    dialect = connection.dialect.name
    taken = connection.execute(
        sa.update(own.leader)
        .where(own.leader.c.name == name)
        .where(sa.or_(own.leader.c.worker == worker, own.leader.c.until < moment(dialect)))
        .values(worker=worker, until=moment(dialect, seconds))
    ).rowcount
    if taken:
        return True
    if connection.scalar(sa.select(own.leader.c.worker).where(own.leader.c.name == name)) is not None:
        return False
    first = _insert(dialect)(own.leader).values(name=name, worker=worker, until=moment(dialect, seconds))
    return connection.execute(first.on_conflict_do_nothing()).rowcount == 1


def agree_on_words(connection: Connection, terms: Terms, worker: int) -> None:
    """Refuse to start beside a living worker that has other words for the same table: each would take the
    other's states for strangers."""
    own, queue = own_tables(connection.dialect.name), terms.queue
    ours = json.dumps(_words_of(terms), sort_keys=True)
    name = full_name(queue.table, connection.dialect.name)
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(WAKE_LOCK, 1)))  # two may start at once
    found = connection.execute(
        sa.select(own.words.c.queue, own.words.c.words, own.worker.c.id, own.worker.c.host, own.worker.c.pid)
        .join_from(own.words, own.worker, own.worker.c.id == own.words.c.worker)
        .where(own.words.c.table_name == name, own.words.c.words != ours, own.worker.c.stopped_at.is_(None))
        .where(own.worker.c.seen_at > moment(connection.dialect.name, -ALIVE_SECONDS))
    ).first()
    if found is not None:
        raise DeclarationError(
            queue.name,
            [
                f"worker {found.id} ({found.host}, process {found.pid}) works on table {name} as queue {found.queue} "
                f"with other words: {found.words} there, {ours} here. "
                "Use the same words in both, or stop that worker first"
            ],
        )
    connection.execute(sa.insert(own.words).values(table_name=name, queue=queue.name, words=ours, worker=worker))


def _words_of(terms: Terms) -> dict[str, list[str]]:
    """Every meaning with its words, as they stand in the table."""
    found: dict[str, list[str]] = {}
    for word, meaning in terms.queue.vocabulary.meanings():
        found.setdefault(meaning, []).append(terms.word(word).strip("'"))
    return found


def _insert(dialect: str) -> Any:
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as postgres_insert

        return postgres_insert
    from sqlalchemy.dialects.sqlite import insert as sqlite_insert

    return sqlite_insert


@dataclass(frozen=True, slots=True)
class Rescued:
    returned: int = 0
    buried: int = 0
    refused: int = 0
    """The table does not let them go: they stay as they are."""


# served by: the partial index on running rows, (leased_until)
def rescue(
    connection: Connection,
    terms: Terms,
    step: Step,
    most: int,
    *,
    sparing: Collection[int] = (),
    acquit: bool = False,
) -> Rescued:
    """Give back rows of one stage whose lease has expired, or bury them when no attempts are left; not those under
    the tokens of `sparing`: who asks knows that their handlers live.

    With `acquit`, a row on its last attempt is buried only if it was `on_trial`, alone in its worker. Any other may
    just have been near when its worker died: it gets its attempt back, and is tried alone the next time.

    The guards are in the UPDATE itself: a row that was renewed or settled since it was looked at is not
    touched. A row that runs without any lease (somebody else wrote the word) first gets one.
    """
    queue = terms.queue
    until, held = queue.columns["leased_until"], queue.columns["lease"]
    now: sa.ColumnElement[Any] = sa.literal_column(terms.now("leased_until"))
    attempts = sa.func.coalesce(queue.columns["attempts"], 0)
    with index_plans(connection):
        _give_missing_leases(connection, terms, step, most)
        found = connection.execute(
            sa.select(*raw_key(terms), held.label("held"), attempts.label("made"))
            .where(in_words(terms, step.running), until < now)
            .where(*([sa.or_(held.is_(None), held.not_in(sorted(sparing)))] if sparing else []))
            .order_by(until)
            .limit(most)
            .with_for_update(skip_locked=True, key_share=not terms.writes_a_key)
        ).all()
    if not found:
        return Rescued()
    try:
        with connection.begin_nested():
            return _give_back(connection, terms, step, found, acquit)
    except DBAPIError as error:
        if not is_refusal(error):
            raise
    return _one_by_one(connection, terms, step, found, acquit)


def _give_back(connection: Connection, terms: Terms, step: Step, rows: Sequence[Any], acquit: bool) -> Rescued:
    attempts = sa.func.coalesce(terms.queue.columns["attempts"], 0)
    most = step.retry.attempts
    acquitted = 0
    if acquit and most > 1:
        not_on_trial = terms.queue.columns["error"].is_(None)
        acquitted = _rescue_as(PARK, connection, terms, step, rows, sa.and_(attempts >= most, not_on_trial))
    return Rescued(
        buried=_rescue_as(BURY, connection, terms, step, rows, attempts >= most),
        returned=_rescue_as(RESCUE, connection, terms, step, rows, attempts < most) + acquitted,
    )


# served by: the primary key
def on_trial(connection: Connection, terms: Terms, lease: Lease[Any]) -> bool:
    """Note on a running row that it begins its last attempt, alone: False if its lease is gone. The note is the
    error of the crash that made it a suspect, which its claim has cleared."""
    queue = terms.queue
    noted = connection.execute(
        sa.update(queue.table)
        .where(raw_key_in(terms, [RowLoader(terms).raw_key(lease.record)]), queue.columns["lease"] == lease.token)
        .values({queue.columns["error"]: sa.literal_column(terms.text(queue.crash.requeued))})
    )
    return noted.rowcount == 1


def _one_by_one(connection: Connection, terms: Terms, step: Step, rows: Sequence[Any], acquit: bool) -> Rescued:
    """The table refuses to have a row back, as a unique key over open rows may: that one is buried, and does not
    keep the others. One that can't even be buried stays as it is."""
    returned = buried = refused = 0
    for row in rows:
        try:
            with connection.begin_nested():
                found = _give_back(connection, terms, step, [row], acquit)
        except DBAPIError as error:
            if not is_refusal(error):
                raise
            try:
                with connection.begin_nested():
                    found = Rescued(buried=_rescue_as(BURY, connection, terms, step, [row], sa.true()))
            except DBAPIError as second:
                if not is_refusal(second):
                    raise
                found = Rescued(refused=1)
        returned += found.returned
        buried += found.buried
        refused += found.refused
    return Rescued(returned, buried, refused)


PASSING = ("08", "25", "40", "53", "55", "57", "58", "XX")
"""Classes of PostgreSQL's errors that are not about the row: another time it may go well."""


def is_refusal(error: DBAPIError) -> bool:
    """Does the database not take what is written, as opposed to being busy, away or in trouble?"""
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:
        return not str(state).startswith(PASSING)
    return isinstance(error, (IntegrityError, DataError))


def _rescue_as(
    move: Move,
    connection: Connection,
    terms: Terms,
    step: Step,
    rows: Sequence[Any],
    guard: "sa.ColumnElement[bool]",
) -> int:
    queue, width = terms.queue, len(terms.queue.key)
    until = queue.columns["leased_until"]
    about = {tuple(row[:width]): row for row in rows}
    changed = connection.execute(
        sa.update(queue.table)
        .where(raw_key_in(terms, list(about)), in_words(terms, step.running))
        .where(until < sa.literal_column(terms.now("leased_until")), guard)
        .values(assigned(terms, move, step, queue.crash.buried if move is BURY else queue.crash.requeued))
        .returning(*raw_key(terms))
    ).all()
    _record_crashes(connection, terms, step, move, [about[tuple(row)] for row in changed])
    return len(changed)


def _give_missing_leases(connection: Connection, terms: Terms, step: Step, most: int) -> None:
    queue = terms.queue
    until = queue.columns["leased_until"]
    keys = connection.execute(
        sa.select(*raw_key(terms))
        .where(in_words(terms, step.running), until.is_(None))
        .order_by(until)
        .limit(most)
        .with_for_update(skip_locked=True, key_share=not terms.writes_a_key)
    ).all()
    if keys:
        connection.execute(
            sa.update(queue.table)
            .where(raw_key_in(terms, [tuple(key) for key in keys]), in_words(terms, step.running), until.is_(None))
            .values({until: sa.literal_column(terms.later("leased_until", repr(float(step.lease))))})
        )


def _record_crashes(connection: Connection, terms: Terms, step: Step, move: Move, rows: Sequence[Any]) -> None:
    if not rows:
        return
    queue, own = terms.queue, own_tables(connection.dialect.name)
    code = queue.crash.buried if move is BURY else queue.crash.requeued
    key_of = RowLoader(terms).key_of
    connection.execute(
        sa.insert(own.attempt).values(ended_at=moment(connection.dialect.name)),
        [
            {
                "queue": queue.name,
                "key": queue.key_text(key_of(row[: len(queue.key)])),
                "stage": step.name,
                "attempt": row.made,
                "worker": worker_of(row.held or 0),
                "code": code,
                "message": "the worker died, or was cut off, while it held the row",
            }
            for row in rows
        ],
    )


def raw_key(terms: Terms) -> list["sa.ColumnElement[Any]"]:
    """The columns of the key, as the driver gives them: see `RowLoader.raw_key`."""
    return [sa.literal_column(f"{terms.table}.{name}") for name in terms.keys]


def raw_key_in(terms: Terms, keys: Sequence[tuple[Any, ...]]) -> "sa.ColumnElement[bool]":
    """Rows with these keys. The values go without a type, so that the server gives them that of their column."""
    columns = raw_key(terms)
    values = [[sa.literal(part, NULLTYPE) for part in key] for key in keys]
    if len(columns) == 1:
        return columns[0].in_([parts[0] for parts in values])
    return sa.tuple_(*columns).in_([sa.tuple_(*parts) for parts in values])


def in_words(terms: Terms, words: Sequence[Word]) -> "sa.ColumnElement[bool]":
    """`state IN (…)` with literal words, so that partial indexes serve it."""
    return sa.literal_column(terms.is_in(words, f"{terms.table}."))


def keys_in(terms: Terms, keys: Sequence[tuple[Any, ...]]) -> "sa.ColumnElement[bool]":
    columns = terms.queue.key
    if len(columns) == 1:
        return columns[0].in_([key[0] for key in keys])
    return sa.tuple_(*columns).in_(keys)


def assigned(terms: Terms, move: Move, step: Step, error: str = "") -> dict[Any, Any]:
    """What a move writes, for `update().values(…)`."""
    text = terms.text(error)
    by_name = {terms.name(column): column for column in terms.queue.table.columns}
    pairs = terms.assignments(move, step, error=text, code=text)
    return {by_name[name]: sa.literal_column(value) for name, value in pairs}


def roll_up(connection: Connection) -> int:
    """Add receipts older than a minute to the throughput per minute, and drop them."""
    own = own_tables(connection.dialect.name)
    dialect = connection.dialect.name
    old = connection.execute(
        sa.delete(own.receipt)
        .where(own.receipt.c.at < moment(dialect, -60.0))
        .returning(
            own.receipt.c.queue,
            own.receipt.c.stage,
            own.receipt.c.move,
            own.receipt.c.rows,
            own.receipt.c.seconds,
            own.receipt.c.at,
        )
    ).all()
    sums: dict[tuple[Any, ...], list[float]] = {}
    for row in old:
        minute = row.at.replace(second=0, microsecond=0)
        total = sums.setdefault((row.queue, row.stage, minute, row.move), [0, 0.0])
        total[0] += row.rows
        total[1] += row.seconds
    for (queue, stage, minute, move), (rows, seconds) in sums.items():
        put = _insert(dialect)(own.throughput).values(
            queue=queue, stage=stage, minute=minute, move=move, rows=rows, seconds=seconds
        )
        connection.execute(
            put.on_conflict_do_update(
                index_elements=["queue", "stage", "minute", "move"],
                set_={"rows": own.throughput.c.rows + rows, "seconds": own.throughput.c.seconds + seconds},
            )
        )
    return len(old)


def tidy(connection: Connection, keep: float, most: int = TIDY_MOST) -> int:
    """Delete a batch of our own history that is older than `keep` seconds; answers how much."""
    own = own_tables(connection.dialect.name)
    before = moment(connection.dialect.name, -keep)
    old = (
        sa.select(own.attempt.c.id).where(own.attempt.c.ended_at < before).order_by(own.attempt.c.ended_at).limit(most)
    )
    gone: int = connection.execute(sa.delete(own.attempt).where(own.attempt.c.id.in_(old))).rowcount
    gone += connection.execute(sa.delete(own.throughput).where(own.throughput.c.minute < before)).rowcount
    silent = moment(connection.dialect.name, -max(keep, KNOWN_SECONDS))
    gone += connection.execute(sa.delete(own.worker).where(own.worker.c.seen_at < silent)).rowcount
    gone += connection.execute(
        sa.delete(own.words).where(own.words.c.worker.not_in(sa.select(own.worker.c.id)))
    ).rowcount
    return gone
