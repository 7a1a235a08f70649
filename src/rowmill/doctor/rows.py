"""Checks of rows: stuck rows, and rows that can never be claimed."""

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column

from rowmill.adopt.plan import texts_of, word_text
from rowmill.adopt.table_facts import words_in
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
def running(audited: AuditedQueue) -> Iterator[DoctorFinding]:
    """Find rows in progress without a live worker."""
    sql, limits = audited.sql, audited.limits
    words = sql.is_in(sql.queue.vocabulary.of(StateKind.RUNNING))
    late = sql.later("leased_until", repr(-limits.late))
    without = _count(audited, f"{words} AND {sql.leased_until} IS NULL")
    if without:
        yield audited.finding(
            FindingSeverity.WARNING,
            "lease_missing",
            f"{many(without, limits.most)} in progress without a lease: some other code writes the word for running",
            f"rowmill rescue {audited.typed} gives them one, and takes them back when it ends; stop the other code",
        )
    expired = _count(audited, f"{words} AND {sql.leased_until} < {late}")
    if expired:
        yield audited.finding(
            FindingSeverity.ERROR,
            "lease_expired",
            f"{many(expired, limits.most)} in progress whose lease ran out more than {limits.late:g} s ago: "
            "no worker rescues them",
            f"rowmill rescue {audited.typed}; then see that a worker runs: rowmill work --queue {audited.typed}",
        )


# served by: the ready index
def waiting(audited: AuditedQueue) -> Iterator[DoctorFinding]:
    """Find ready rows without a worker that could process them."""
    sql, queue = audited.sql, audited.sql.queue
    stopped = paused(audited.connection, queue)
    if stopped:
        stages = ", ".join(filter(None, stopped)) or "all of it"
        yield audited.finding(
            FindingSeverity.INFO, "paused", f"the queue is paused ({stages})", f"rowmill resume {audited.typed}"
        )
    if any(worker.alive and audited.name in worker.queues for worker in workers(audited.connection)):
        return
    due = _count(
        audited,
        f"{sql.is_in(queue.vocabulary.all_of(CLAIMABLE))}{sql.may_claim()} "
        f"AND ({sql.available_at} IS NULL OR {sql.due})",
    )
    if due:
        yield audited.finding(
            FindingSeverity.WARNING,
            "no_worker",
            f"{many(due, audited.limits.most)} ready, and no worker of this queue gives a sign of life",
            f"rowmill work --queue {audited.typed}",
        )
    held = f"{sql.is_in(queue.vocabulary.of(StateKind.RUNNING))} AND {sql.leased_until} >= {sql.now('leased_until')}"
    busy = _count(audited, held)
    if busy:
        yield audited.finding(
            FindingSeverity.WARNING,
            "running_without_worker",
            f"{many(busy, audited.limits.most)} in progress, and no worker of this queue gives a sign of life",
            f"rowmill work --queue {audited.typed}: it takes them back when their lease ends",
        )


# served by: the ready index, and the history's on (queue, key, id)
def refused(audited: AuditedQueue) -> Iterator[DoctorFinding]:
    """Find rows whose claim the table refuses, by a trigger or constraint. They stay at the head of the queue, so only
    the head is checked."""
    sql, queue = audited.sql, audited.sql.queue
    found: list[str] = []
    for step in queue.steps:
        due = f"{sql.is_in(step.claimable)}{sql.may_claim()} AND ({sql.available_at} IS NULL OR {sql.due})"
        head = sa.select(*queue.key).where(sa.literal_column(due)).order_by(sa.literal_column(sql.order))
        with index_plans(audited.connection):
            rows = audited.connection.execute(head.limit(HEAD)).all()
        keys = [queue.key_text(scalar(tuple(row))) for row in rows]
        found += refused_keys(audited.connection, queue, keys)
    if found:
        yield audited.finding(
            FindingSeverity.WARNING,
            "claim_refused",
            f"{many(len(found), HEAD)} that the table did not let be claimed: {', '.join(found[:SHOWN])}",
            f"rowmill why {audited.name} {found[0]} says what forbids it. "
            "Mend the rows or the table: they are tried again every minute",
        )


# a bounded facts: every row of a small table, a sample of a big one
def words(audited: AuditedQueue) -> Iterator[DoctorFinding]:
    """Find unknown states, NULL states, and many dead rows."""
    column = audited.facts.table.columns[audited.sql.queue.columns["state"].name]
    seen = words_in(audited.connection, audited.facts, column)
    about = "" if seen.complete else " (of a sample)"
    others = (word_text(audited.sql, word) for word in audited.sql.queue.vocabulary.others)
    known = {*texts_of(audited.sql), *others}
    nothing = seen.counts.get(None, 0)
    if nothing:
        ready = audited.sql.word(audited.sql.queue.steps[0].ready[0])
        yield audited.finding(
            FindingSeverity.WARNING,
            "state_null",
            f"{nothing} rows without a state{about}: nobody will ever claim them",
            f"UPDATE {audited.sql.table} SET {audited.sql.state} = {ready} WHERE {audited.sql.state} IS NULL, "
            "if they should be worked on",
        )
    strangers = {str(word): count for word, count in seen.counts.items() if word is not None and str(word) not in known}
    if strangers:
        listed = ", ".join(f"{word[:40]!r} ({count})" for word, count in list(strangers.items())[:SHOWN])
        yield audited.finding(
            FindingSeverity.WARNING,
            "unknown_words",
            f"states that the queue does not know{about}: {listed}. Nobody will ever claim such rows",
            "name them in States(...) or in a Stage; in States(others=...), if they are to be left alone; or put the "
            "rows into a state that it knows",
        )
    dead = {word_text(audited.sql, word) for word in audited.sql.queue.vocabulary.dead}
    count = sum(number for word, number in seen.counts.items() if str(word) in dead)
    if count:
        yield audited.finding(
            FindingSeverity.INFO,
            "dead_rows",
            f"{many(count, 10**9)} dead{about}",
            f"rowmill list {audited.typed} --state dead; rowmill requeue {audited.typed}",
        )


# served by: the ready index
def never_due(audited: AuditedQueue) -> Iterator[DoctorFinding]:
    """Find ready rows that become available only in the far future."""
    sql = audited.sql
    ready = sql.is_in(sql.queue.vocabulary.all_of(CLAIMABLE))
    far = _count(audited, f"{ready} AND {sql.available_at} > {sql.later('available_at', repr(audited.limits.far))}")
    if far:
        yield audited.finding(
            FindingSeverity.WARNING,
            "far_future",
            f"{many(far, audited.limits.most)} ready, but not available for more than a year, or ever",
            "see who writes such times: milliseconds where seconds are meant, or 'infinity'. "
            f"rowmill requeue {audited.typed} --where … makes them available now",
        )
    column = sql.queue.columns["available_at"]
    if not audited.postgres and isinstance(bare(column, sql.dialect), sa.DateTime):
        raw = sa.type_coerce(column, sa.types.NullType())
        some = sa.select(raw).where(sa.literal_column(f"{ready} AND {sql.available_at} IS NOT NULL"))
        values = audited.connection.scalars(some.limit(audited.limits.most)).all()
        wrong = sum(sorts_wrongly(value) for value in values)
        if wrong:
            yield audited.finding(
                FindingSeverity.WARNING,
                "time_text",
                f"{wrong} rows whose {column.name} is written so that it sorts wrongly (with a T, or with a zone): "
                "they become available too late, or too early",
                f"rowmill adopt {audited.typed} --apply mends them; write such times as 2026-01-31 09:00:00, in UTC",
            )


# served by: the ready index
def used_up(audited: AuditedQueue) -> Iterator[DoctorFinding]:
    """Find rows that have no attempts left, so that the next claim buries them. Only the first rows to be claimed are
    checked: that is where such rows are."""
    sql = audited.sql
    for step in sql.queue.steps:
        if sql.queue.unlimited(step):
            continue
        own = sql.queue.columns.get("max_attempts")
        wanted = sql.attempts if own is None else f"{sql.attempts}, {sql.name(own)}"
        head = f"SELECT {wanted} FROM {sql.table} WHERE {sql.is_in(step.claimable)}{sql.may_claim()} "
        head += f"ORDER BY {sql.order} LIMIT {audited.limits.most}"
        count = f"SELECT count(*) FROM ({head}) AS head WHERE {sql.used_up(step)}"
        with index_plans(audited.connection):
            found: int = audited.connection.exec_driver_sql(count).scalar_one()
        if found:
            most = step.retry.attempts
            all_used = f"all {most} attempts used up" if own is None else (
                f"all their attempts used up ({own.name}, or else {most})"
            )  # fmt: skip
            yield audited.finding(
                FindingSeverity.WARNING,
                ATTEMPTS_USED_UP,
                f"{many(found, audited.limits.most)} of stage {step.name} ready with {all_used}: "
                "the next claim buries them",
                f"if they should run: rowmill requeue {audited.typed} --state ready --state waiting",
            )


# served by: the ready index
def order(audited: AuditedQueue) -> Iterator[DoctorFinding]:
    """Find NULLs in columns of the order: they compare with nothing."""
    queue, ready = audited.sql.queue, audited.sql.is_in(audited.sql.queue.vocabulary.all_of(CLAIMABLE))
    for columns, effect in (
        (queue.order_by, "they come last, and are passed over while there is other work"),
        (queue.per_by, "their place among the rows of their key is not kept"),
    ):
        for column in _nullable(audited, columns):
            name = audited.sql.name(column)
            missing = _count(audited, f"{ready} AND {name} IS NULL")
            if missing:
                forbid = f"ALTER TABLE {audited.sql.table} ALTER COLUMN {name} SET NOT NULL"
                yield audited.finding(
                    FindingSeverity.WARNING,
                    "order_null",
                    f"{many(missing, audited.limits.most)} ready without a value in {column.name}, which is part of "
                    f"the order: {effect}",
                    f"give them one, and forbid NULL: {forbid}" if audited.postgres else "give them one",
                )


def _nullable(audited: AuditedQueue, columns: "Sequence[Column[Any]]") -> "list[Column[Any]]":
    return [column for column in columns if audited.facts.table.columns[column.name].nullable]


def _count(audited: AuditedQueue, condition: str) -> int:
    """Count rows, up to one more than the threshold."""
    some = f"SELECT 1 FROM {audited.sql.table} WHERE {condition} LIMIT {audited.limits.most + 1}"
    with index_plans(audited.connection):
        found: int = audited.connection.exec_driver_sql(f"SELECT count(*) FROM ({some}) AS found").scalar_one()
    return found
