"""Who goes first, of the rows that are free in a queue that keeps order per key."""

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Dead, Mill, Order, OrderPerKey, Queue
from rowmill.store import order_per_key
from tests.conformance.fleet import jobs, worker


def by_priority(mill: Mill) -> Queue[Any]:
    table = jobs(Column("per", sa.Text), Column("priority", sa.Integer, nullable=False))
    return mill.queue(table, order_per_key=OrderPerKey(per="per"), order=Order(priority="priority"))


async def test_a_higher_priority_goes_before_what_is_available_at_once(database_url: str) -> None:
    """The one that failed before has an `available_at`; the others, just inserted, have none."""
    async with worker(database_url, by_priority) as member:
        await member.queue.load([{"per": f"low {n}", "title": "low", "priority": 0} for n in range(20)])
        await member.queue.load([{"per": "high", "title": "high", "priority": 9}])
        await member.sql("UPDATE jobs SET available_at = '2020-01-01 00:00:00' WHERE title = 'high'")
        assert [lease.row.title for lease in await member.claim(3)] == ["high", "low", "low"]


def by_rank(mill: Mill) -> Queue[Any]:
    table = jobs(Column("per", sa.Text), Column("rank", sa.Integer))
    return mill.queue(table, order_per_key=OrderPerKey(per="per"), order=Order(by=("rank",)))


async def test_a_row_without_a_place_is_found_while_others_come(database_url: str) -> None:
    async with worker(database_url, by_rank) as member:
        found = []
        for n in range(3):
            await member.queue.load([{"per": f"{n}", "title": "ranked", "rank": n}])
            if n == 1:
                await member.queue.load([{"per": "none", "title": "not ranked"}])
            leases = await member.claim(10)
            found += [lease.row.title for lease in leases]
            await member.settle(*((lease, None) for lease in leases))
        assert sorted(found) == ["not ranked", "ranked", "ranked", "ranked"]


def by_key(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs(Column("per", sa.Text)), order_per_key=OrderPerKey(per="per"))


async def test_no_key_waits_for_as_long_as_the_others_have_rows(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is oldest is held back by a dead row, so that every key is asked; more comes than is worked off."""
    monkeypatch.setattr(order_per_key, "LEAST_DEPTH", 5)
    async with worker(database_url, by_key) as member:
        await member.queue.load([{"per": "a", "title": "held back"} for _ in range(60)])
        [head] = await member.claim(10)
        await member.settle((head, Dead("broken")))
        await member.queue.load([{"per": "z", "title": "last"}])
        found: set[str] = set()
        for _ in range(8):
            await member.queue.load([{"per": f"k{n}", "title": "other"} for n in range(9)])
            leases = await member.claim(3)
            found |= {lease.row.title for lease in leases}
            await member.settle(*((lease, None) for lease in leases))
        assert "last" in found
