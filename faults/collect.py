"""Collect the history from the database and the ledgers after a run."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from faults import ledger
from faults.history import Change, History, Row, Step, Words
from faults.world import ATTEMPTS, BACKOFF, KEEP, LEASE, Effect, World, settled_by_handler
from faults.world import Change as ChangeRow
from rowmill.model.lifecycle import FINAL, StateKind
from rowmill.model.queue import QueueSpec
from rowmill.store.own.schema import own_tables

COMMITTED = "extract(epoch FROM pg_xact_commit_timestamp(faults_change.xmin))::float8"


def words_of(queue: QueueSpec[Any]) -> Words:
    steps = []
    for step in queue.steps:
        done = queue.vocabulary.of(StateKind.DONE)[0] if step.following is None else step.following
        steps.append(Step(step.name, frozenset(map(str, step.claimable)), str(step.running[0]), str(done)))
    dead = str(queue.vocabulary.of(StateKind.DEAD)[0])
    final = frozenset(map(str, queue.vocabulary.all_of(FINAL)))
    cancelled = str(queue.vocabulary.of(StateKind.CANCELLED)[0])
    return Words(tuple(steps), final, dead, ATTEMPTS, LEASE, BACKOFF, KEEP, cancelled)


async def collect(world: World, folder: Path, *, forgotten: Sequence[tuple[float, float]] = ()) -> History:
    """Read everything, after all processes have ended."""
    history = await world.mill.run(lambda connection: from_tables(connection, world), write=False)
    history.entries = ledger.read(folder)
    history.forgotten = forgotten
    return history


def from_tables(connection: Connection, world: World) -> History:
    own = own_tables(connection.dialect.name)
    rows = [row for queue in world.queues for row in rows_of(connection, queue)]
    table: Any = ChangeRow.__table__
    columns = [table.c[field.name] for field in fields(Change) if field.name in table.c]
    committed = sa.null() if connection.dialect.name == "sqlite" else sa.literal_column(COMMITTED)
    changes = connection.execute(sa.select(*columns, committed).order_by(table.c.id)).all()
    counted: Counter[tuple[str, str]] = Counter()
    for source in (own.receipt, own.throughput):
        found = sa.select(source.c.queue, source.c.move, sa.func.sum(source.c.rows)).group_by(
            source.c.queue, source.c.move
        )
        for queue, move, number in connection.execute(found):
            counted[queue, move] += int(number)
    about = own.attempt.c.queue, own.attempt.c.key, own.attempt.c.stage, own.attempt.c.attempt
    failed = connection.execute(sa.select(*about, sa.func.count()).group_by(*about))
    return History(
        words={queue.name: words_of(queue) for queue in world.queues},
        entries=[],
        changes=[Change(*change) for change in changes],
        rows=rows,
        effects=[(item, token) for item, token in connection.execute(sa.select(Effect.item, Effect.token))],
        with_effect=frozenset(
            row.place for row in rows if row.queue == world.items.name and settled_by_handler(row.key)
        ),
        failures={((queue, int(key)), stage, attempt): number for queue, key, stage, attempt, number in failed},
        counted={place: number for place, number in counted.items() if number},
        pairs={world.events.name: world.items.name},
    )


def rows_of(connection: Connection, queue: QueueSpec[Any]) -> list[Row]:
    columns = queue.table.c
    group = columns.group if "group" in columns else sa.null()
    found = sa.select(columns.id, columns.state, columns.attempts, columns.lease, columns.mark, group)
    return [Row(queue.name, *row) for row in connection.execute(found)]
