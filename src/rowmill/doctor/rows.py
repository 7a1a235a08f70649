"""Rows that are stuck, and rows that nobody will ever claim."""

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column

from rowmill.adopt.look import words_in
from rowmill.adopt.plan import texts_of, word_text
from rowmill.adopt.times import sorts_wrongly
from rowmill.doctor.finding import AuditedQueue, DoctorFinding, FindingSeverity, many
from rowmill.model.dead_rows import ATTEMPTS_USED_UP
from rowmill.model.lifecycle import CLAIMABLE, StateKind
from rowmill.operator.activity import workers
from rowmill.store.keys import scalar
from rowmill.store.own.fleet import paused
from rowmill.store.own.history import refused_keys
from rowmill.store.postgres.session import index_plans
from rowmill.store.queue_sql import bare

SHOWN = 10
HEAD = 100
"""Rows at the head of a queue that are looked up in the history."""


# served by: the partial index on running rows
def running(patient: AuditedQueue) -> Iterator[DoctorFinding]:
    """Rows in progress that nobody works on."""
    sql, limits = patient.sql, patient.limits
    words = sql.is_in(sql.queue.vocabulary.of(StateKind.RUNNING))
    late = sql.later("leased_until", repr(-limits.late))
    without = _count(patient, f"{words} AND {sql.leased_until} IS NULL")
    if without:
        yield patient.finding(
            FindingSeverity.WARNING,
            "lease_missing",
            f"{many(without, limits.most)} in progress without a lease: some other code writes the word for running",
            f"rowmill rescue {patient.typed} gives them one, and takes them back when it ends; stop the other code",
        )
    expired = _count(patient, f"{words} AND {sql.leased_until} < {late}")
    if expired:
        yield patient.finding(
            FindingSeverity.ERROR,
            "lease_expired",
            f"{many(expired, limits.most)} in progress whose lease ran out more than {limits.late:g} s ago: "
            "no worker rescues them",
            f"rowmill rescue {patient.typed}; then see that a worker runs: rowmill work --queue {patient.typed}",
        )


# served by: the ready index
def waiting(patient: AuditedQueue) -> Iterator[DoctorFinding]:
    """Is somebody there to work?"""
    sql, queue = patient.sql, patient.sql.queue
    stopped = paused(patient.connection, queue)
    if stopped:
        stages = ", ".join(filter(None, stopped)) or "all of it"
        yield patient.finding(
            FindingSeverity.INFO, "paused", f"the queue is paused ({stages})", f"rowmill resume {patient.typed}"
        )
    if any(worker.alive and patient.name in worker.queues for worker in workers(patient.connection)):
        return
    due = _count(
        patient,
        f"{sql.is_in(queue.vocabulary.all_of(CLAIMABLE))}{sql.may_claim()} "
        f"AND ({sql.available_at} IS NULL OR {sql.due})",
    )
    if due:
        yield patient.finding(
            FindingSeverity.WARNING,
            "no_worker",
            f"{many(due, patient.limits.most)} ready, and no worker of this queue gives a sign of life",
            f"rowmill work --queue {patient.typed}",
        )
    held = f"{sql.is_in(queue.vocabulary.of(StateKind.RUNNING))} AND {sql.leased_until} >= {sql.now('leased_until')}"
    busy = _count(patient, held)
    if busy:
        yield patient.finding(
            FindingSeverity.WARNING,
            "running_without_worker",
            f"{many(busy, patient.limits.most)} in progress, and no worker of this queue gives a sign of life",
            f"rowmill work --queue {patient.typed}: it takes them back when their lease ends",
        )


# served by: the ready index, and the history's on (queue, key, id)
def refused(patient: AuditedQueue) -> Iterator[DoctorFinding]:
    """Rows that the table does not let be claimed. They stay at the head while all others go on: it is enough to look
    there."""
    sql, queue = patient.sql, patient.sql.queue
    found: list[str] = []
    for step in queue.steps:
        due = f"{sql.is_in(step.claimable)}{sql.may_claim()} AND ({sql.available_at} IS NULL OR {sql.due})"
        head = sa.select(*queue.key).where(sa.literal_column(due)).order_by(sa.literal_column(sql.order))
        with index_plans(patient.connection):
            rows = patient.connection.execute(head.limit(HEAD)).all()
        keys = [queue.key_text(scalar(tuple(row))) for row in rows]
        found += refused_keys(patient.connection, queue, keys)
    if found:
        yield patient.finding(
            FindingSeverity.WARNING,
            "claim_refused",
            f"{many(len(found), HEAD)} that the table did not let be claimed: {', '.join(found[:SHOWN])}",
            f"rowmill why {patient.name} {found[0]} says what forbids it. "
            "Mend the rows or the table: they are tried again every minute",
        )


# a bounded look: every row of a small table, a sample of a big one
def words(patient: AuditedQueue) -> Iterator[DoctorFinding]:
    """Words that the lifecycle does not know, no word at all, and how many are dead."""
    column = patient.look.table.columns[patient.sql.queue.columns["state"].name]
    seen = words_in(patient.connection, patient.look, column)
    about = "" if seen.complete else " (of a sample)"
    others = (word_text(patient.sql, word) for word in patient.sql.queue.vocabulary.others)
    known = {*texts_of(patient.sql), *others}
    nothing = seen.counts.get(None, 0)
    if nothing:
        ready = patient.sql.word(patient.sql.queue.steps[0].ready[0])
        yield patient.finding(
            FindingSeverity.WARNING,
            "state_null",
            f"{nothing} rows without a state{about}: nobody will ever claim them",
            f"UPDATE {patient.sql.table} SET {patient.sql.state} = {ready} WHERE {patient.sql.state} IS NULL, "
            "if they should be worked on",
        )
    strangers = {str(word): count for word, count in seen.counts.items() if word is not None and str(word) not in known}
    if strangers:
        listed = ", ".join(f"{word[:40]!r} ({count})" for word, count in list(strangers.items())[:SHOWN])
        yield patient.finding(
            FindingSeverity.WARNING,
            "unknown_words",
            f"states that the queue does not know{about}: {listed}. Nobody will ever claim such rows",
            "name them in States(...) or in a Stage; in States(others=...), if they are to be left alone; or put the "
            "rows into a state that it knows",
        )
    dead = {word_text(patient.sql, word) for word in patient.sql.queue.vocabulary.dead}
    count = sum(number for word, number in seen.counts.items() if str(word) in dead)
    if count:
        yield patient.finding(
            FindingSeverity.INFO,
            "dead_rows",
            f"{many(count, 10**9)} dead{about}",
            f"rowmill list {patient.typed} --state dead; rowmill requeue {patient.typed}",
        )


# served by: the ready index
def never_due(patient: AuditedQueue) -> Iterator[DoctorFinding]:
    """Rows that are ready, but not in our time."""
    sql = patient.sql
    ready = sql.is_in(sql.queue.vocabulary.all_of(CLAIMABLE))
    far = _count(patient, f"{ready} AND {sql.available_at} > {sql.later('available_at', repr(patient.limits.far))}")
    if far:
        yield patient.finding(
            FindingSeverity.WARNING,
            "far_future",
            f"{many(far, patient.limits.most)} ready, but not available for more than a year, or ever",
            "see who writes such times: milliseconds where seconds are meant, or 'infinity'. "
            f"rowmill requeue {patient.typed} --where … makes them available now",
        )
    column = sql.queue.columns["available_at"]
    if not patient.postgres and isinstance(bare(column, sql.dialect), sa.DateTime):
        raw = sa.type_coerce(column, sa.types.NullType())
        some = sa.select(raw).where(sa.literal_column(f"{ready} AND {sql.available_at} IS NOT NULL"))
        values = patient.connection.scalars(some.limit(patient.limits.most)).all()
        wrong = sum(sorts_wrongly(value) for value in values)
        if wrong:
            yield patient.finding(
                FindingSeverity.WARNING,
                "time_text",
                f"{wrong} rows whose {column.name} is written so that it sorts wrongly (with a T, or with a zone): "
                "they become available too late, or too early",
                f"rowmill adopt {patient.typed} --apply mends them; write such times as 2026-01-31 09:00:00, in UTC",
            )


# served by: the ready index
def used_up(patient: AuditedQueue) -> Iterator[DoctorFinding]:
    """Rows that their next claim will bury: among the first that are to be claimed, which is where such rows are."""
    sql = patient.sql
    for step in sql.queue.steps:
        if sql.queue.unlimited(step):
            continue
        own = sql.queue.columns.get("max_attempts")
        wanted = sql.attempts if own is None else f"{sql.attempts}, {sql.name(own)}"
        head = f"SELECT {wanted} FROM {sql.table} WHERE {sql.is_in(step.claimable)}{sql.may_claim()} "
        head += f"ORDER BY {sql.order} LIMIT {patient.limits.most}"
        count = f"SELECT count(*) FROM ({head}) AS head WHERE {sql.used_up(step)}"
        with index_plans(patient.connection):
            found: int = patient.connection.exec_driver_sql(count).scalar_one()
        if found:
            most = step.retry.attempts
            all_used = f"all {most} attempts used up" if own is None else (
                f"all their attempts used up ({own.name}, or else {most})"
            )  # fmt: skip
            yield patient.finding(
                FindingSeverity.WARNING,
                ATTEMPTS_USED_UP,
                f"{many(found, patient.limits.most)} of stage {step.name} ready with {all_used}: "
                "the next claim buries them",
                f"if they should run: rowmill requeue {patient.typed} --state ready --state waiting",
            )


# served by: the ready index
def order(patient: AuditedQueue) -> Iterator[DoctorFinding]:
    """A NULL in a column of the order compares with nothing."""
    queue, ready = patient.sql.queue, patient.sql.is_in(patient.sql.queue.vocabulary.all_of(CLAIMABLE))
    for columns, effect in (
        (queue.order_by, "they come last, and are passed over while there is other work"),
        (queue.per_by, "their place among the rows of their key is not kept"),
    ):
        for column in _nullable(patient, columns):
            name = patient.sql.name(column)
            missing = _count(patient, f"{ready} AND {name} IS NULL")
            if missing:
                forbid = f"ALTER TABLE {patient.sql.table} ALTER COLUMN {name} SET NOT NULL"
                yield patient.finding(
                    FindingSeverity.WARNING,
                    "order_null",
                    f"{many(missing, patient.limits.most)} ready without a value in {column.name}, which is part of "
                    f"the order: {effect}",
                    f"give them one, and forbid NULL: {forbid}" if patient.postgres else "give them one",
                )


def _nullable(patient: AuditedQueue, columns: "Sequence[Column[Any]]") -> "list[Column[Any]]":
    return [column for column in columns if patient.look.table.columns[column.name].nullable]


def _count(patient: AuditedQueue, condition: str) -> int:
    """How many rows, up to one more than is worth counting."""
    some = f"SELECT 1 FROM {patient.sql.table} WHERE {condition} LIMIT {patient.limits.most + 1}"
    with index_plans(patient.connection):
        found: int = patient.connection.exec_driver_sql(f"SELECT count(*) FROM ({some}) AS found").scalar_one()
    return found
