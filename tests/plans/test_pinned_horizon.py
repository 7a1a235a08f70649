"""A long transaction elsewhere keeps every dead index entry in place: a claim must not walk over those that earlier
claims left behind."""

import json
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.model import lifecycle
from rowmill.model.judge import Verdict
from rowmill.store import order_per_key, watermark
from rowmill.store.postgres.claim import claim_in_order, claim_statement
from rowmill.store.postgres.session import SESSION
from rowmill.store.postgres.store import PostgresStore
from rowmill.store.watermark import Watermark
from tests.plans.plan import Plan

BATCH = 100
ROUNDS = 40
FILL = """
INSERT INTO jobs (id, state, available_at)
SELECT n, 'ready', now() - mod(n * 7919, 20000) * interval '1 second' FROM generate_series(1, 20000) AS n
"""
"""Neighbours in the order of the claim are not neighbours in the table."""


class Base(sa.orm.DeclarativeBase):
    pass


class Job(rm.QueueMixin, Base):
    __tablename__ = "jobs"
    id: sa.orm.Mapped[int] = sa.orm.mapped_column(primary_key=True)


class Event(rm.QueueMixin, Base):
    __tablename__ = "events"
    id: sa.orm.Mapped[int] = sa.orm.mapped_column(primary_key=True)
    account: sa.orm.Mapped[int]


FILL_EVENTS = """
INSERT INTO events (id, account, state, available_at)
SELECT n, mod(n, 1000), 'ready', now() - (20000 - n) * interval '1 second' FROM generate_series(1, 20000) AS n
ORDER BY mod(n * 7919, 20000)
"""


async def pages_of_a_claim(store: PostgresStore, queue: rm.Queue[Any], explaining: Any, mark: Watermark) -> int:
    """How many pages the next claim looks at, with the positions that are known, or none. It is undone."""
    if not mark.lanes:
        mark.start([None], 0.0)
    statements, step = store.statements(queue), queue.steps[0]
    statement = statements.once(claim_statement, step, mark.shape)
    if queue.per is not None:
        statement = statements.once(claim_in_order, step, order_per_key.oldest_free, mark.shape, 0)
    undone = explaining.transaction()
    await undone.start()
    found = await explaining.fetchval(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", 1, BATCH, 60.0, *mark.arguments()
    )
    await undone.rollback()
    return Plan(json.loads(found)[0]["Plan"]).buffers


async def work_off(store: PostgresStore, queue: rm.Queue[Any]) -> None:
    for _ in range(ROUNDS):
        leases = await store.claim(queue, queue.steps[0], BATCH)
        assert len(leases) == BATCH
        settled = await store.settle([Verdict(lease, lifecycle.DONE) for lease in leases])
        assert settled.kept == BATCH


async def pages(pg_url: str, mill: rm.Mill, queue: rm.Queue[Any], fill: str) -> tuple[int, int, int]:
    """Of the first claim, and of one that comes after many others: onward, and from the start."""
    store = mill.store
    assert isinstance(store, PostgresStore)
    async with mill.opened():
        await mill.migrate(tables=True)
        store.worker = 1
        elsewhere = await asyncpg.connect(pg_url)
        explaining = await asyncpg.connect(pg_url, server_settings=SESSION)
        try:
            await elsewhere.execute(fill)
            await elsewhere.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            await elsewhere.fetch(f"SELECT 1 FROM {queue.name} LIMIT 1")
            nothing_known = Watermark(by_level=False)

            first = await pages_of_a_claim(store, queue, explaining, nothing_known)
            await work_off(store, queue)
            mark = store.statements(queue).mark(queue.steps[0])
            onward = await pages_of_a_claim(store, queue, explaining, mark)
            from_the_start = await pages_of_a_claim(store, queue, explaining, nothing_known)
        finally:
            await elsewhere.close()
            await explaining.close()
    return first, onward, from_the_start


@pytest.mark.xdist_group("plans")
async def test_a_claim_costs_the_same_however_much_was_claimed_under_a_pinned_horizon(pg_url: str) -> None:
    mill = rm.Mill(pg_url)
    first, onward, from_the_start = await pages(pg_url, mill, mill.queue(Job), FILL)
    assert onward < first * 1.5
    # The walk that the watermark saves: a page or more for each row that was claimed before.
    assert from_the_start > onward + ROUNDS * BATCH


@pytest.mark.xdist_group("plans")
async def test_in_order_it_costs_what_the_keys_have_left_behind(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four rows of each key were worked off: two entries for each of them are in the way of a look at its key."""
    monkeypatch.setattr(watermark, "OLDEST_EVERY", 0.0)
    mill = rm.Mill(pg_url)
    queue = mill.queue(Event, order_per_key=rm.OrderPerKey(per="account"))
    first, onward, from_the_start = await pages(pg_url, mill, queue, FILL_EVENTS)
    behind = 2 * 4 + 1
    assert onward < first + BATCH * behind * 2, "a look for every row that it takes, not for every candidate"
    assert from_the_start > onward + ROUNDS * BATCH
