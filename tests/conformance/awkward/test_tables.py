"""Partitioned tables, columns that the database fills, rows that are large."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column, MetaData, Table

from rowmill import Lease, Mill, Order, OrderPerKey, Queue
from tests.conformance.awkward.lifecycle import live
from tests.conformance.fleet import MOMENT, jobs, sign_up, until, worker

JANUARY, FEBRUARY = datetime(2024, 1, 15, tzinfo=UTC), datetime(2024, 2, 15, tzinfo=UTC)


def partitioned(mill: Mill, **options: Any) -> Queue[Any]:
    """By the month of creation, which is part of the key, as PostgreSQL asks for."""
    table = jobs(
        Column("rank", sa.Integer),
        key=[
            Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
            Column("created_at", MOMENT, primary_key=True),
        ],
    )
    table.dialect_options["postgresql"]["partition_by"] = "RANGE (created_at)"
    return mill.queue(table, **options)


async def divide(mill: Mill) -> None:
    """Make the table and its partitions, before Rowmill's indexes."""

    def work(connection: sa.Connection) -> None:
        [queue] = mill.queues.values()
        queue.table.create(connection)
        for name, start, end in (("january", "2024-01-01", "2024-02-01"), ("february", "2024-02-01", "2024-03-01")):
            connection.exec_driver_sql(
                f"CREATE TABLE jobs_{name} PARTITION OF jobs FOR VALUES FROM ('{start}') TO ('{end}')"
            )

    await mill.run(work)


@pytest.mark.parametrize(
    "options",
    [{}, {"order": Order(priority="rank")}, {"order_per_key": OrderPerKey(per="title")}],
    ids=["plain", "ranked", "in order"],
)
async def test_a_partitioned_table(pg_url: str, options: dict[str, Any]) -> None:
    first = Mill(pg_url)
    partitioned(first, **options)
    await divide(first)
    async with worker(pg_url, lambda mill: partitioned(mill, **options)) as member:
        await live(member, [{"title": str(n), "created_at": at} for n, at in enumerate([JANUARY, FEBRUARY] * 2)])


async def test_an_idle_worker_hears_of_rows_in_a_partitioned_table(pg_url: str) -> None:
    import asyncio

    first = Mill(pg_url)
    partitioned(first)
    await divide(first)
    async with worker(pg_url, partitioned) as member:
        sleep = asyncio.create_task(member.store.wait([member.queue], 600.0))
        store: Any = member.store
        await until(lambda: bool(store.listener._asleep))
        await member.put({"created_at": FEBRUARY})
        async with asyncio.timeout(30):
            await sleep


async def test_columns_that_the_database_fills(database_url: str) -> None:
    """Defaults, an identity, a generated column: read with the row, left alone by the engine."""

    def declare(mill: Mill) -> Queue[Any]:
        stored = sa.Computed("title || '!'", persisted=True)
        return mill.queue(
            jobs(
                Column("loud", sa.Text, stored),
                Column("born", MOMENT, server_default=sa.func.now()),
                Column("kind", sa.Text, nullable=False, server_default="usual"),
                Column("flag", sa.Boolean, nullable=False, server_default=sa.false()),
            )
        )

    async with worker(database_url, declare) as member:
        await live(member, [{"title": str(n)} for n in range(4)])
        assert [(row.loud, row.kind, row.flag) for row in await member.rows("title")] == [
            (f"{n}!", "usual", False) for n in range(4)
        ]
        await member.sql("DELETE FROM jobs")
        await member.put({"title": "a"})
        [lease] = await member.claim()
        assert (lease.row.loud, lease.row.kind) == ("a!", "usual")
        assert (await member.settle((lease, {"title": "b"}))).kept == 1
        assert (await member.row()).loud == "b!"


async def test_ten_megabytes_in_a_column(database_url: str) -> None:
    """In and out, through a claim, a settle, a settling transaction and a load."""
    large = "ä" * 5_000_000 + "x" * 100

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(Column("result", sa.Text), Column("data", sa.JSON)))

    async with worker(database_url, declare) as member:
        await member.queue.load([{"title": large, "data": {"large": large}}])
        [lease] = await member.claim()
        assert lease.row.title == large
        assert lease.row.data == {"large": large}
        assert (await member.settle((lease, {"result": lease.row.title}))).kept == 1
        assert (await member.row()).result == large


async def test_an_error_of_ten_megabytes_is_cut(database_url: str) -> None:
    async with worker(database_url, lambda mill: mill.queue(jobs())) as member:
        await member.put({})
        [lease] = await member.claim()
        await member.settle((lease, ValueError("x" * 10_000_000)))
        assert len((await member.row()).error) <= 1000


async def test_a_table_that_was_reflected(database_url: str) -> None:
    """Nobody has written a class for it: it is declared as the database has it."""
    async with worker(database_url, lambda mill: mill.queue(jobs(Column("rank", sa.SmallInteger)))) as member:
        await member.put({"title": "a"})
        metadata = MetaData()
        await member.mill.run(lambda connection: metadata.reflect(connection, only=["jobs"]))
        other = Mill(database_url)
        queue = other.queue(metadata.tables["jobs"], order=Order(priority="rank"))
        async with other.opened() as store:
            await sign_up(other, queue)
            [lease] = await store.claim(queue, queue.step(), 1)
            assert lease.row.title == "a"


async def test_a_hundred_columns(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        queue = mill.queue(jobs(*(Column(f"c{n}", sa.Integer) for n in range(100))))

        @queue.handler()
        async def work(lease: Lease[Any]) -> dict[str, int]:
            return {f"c{n}": n for n in range(100)}

        return queue

    async with worker(database_url, declare) as member:
        await member.put(*({"title": str(n)} for n in range(20)))
        assert (await member.bench.drain()).done == 20
        assert {(row.c0, row.c99) for row in await member.rows()} == {(0, 99)}


async def test_a_key_that_counts_down_and_jumps(database_url: str) -> None:
    """Order by key is the key's own, whatever numbers it has."""
    async with worker(database_url, lambda mill: mill.queue(jobs())) as member:
        numbers = [5, -3, 2**40, 0, 17]
        await member.queue.load([{"id": number} for number in numbers])
        assert [lease.key for _ in range(3) for lease in await member.claim(2)] == sorted(numbers)


async def test_two_queues_on_two_tables_of_the_same_name(pg_url: str) -> None:
    """In two schemas: their indexes, wake-ups and histories do not meet."""

    def declare(mill: Mill) -> Queue[Any]:
        mill.queue(jobs(schema="other"), name="others")
        return mill.queue(jobs())

    mill = Mill(pg_url)
    await mill.run(lambda connection: connection.execute(sa.schema.CreateSchema("other")).close())
    async with worker(pg_url, declare) as member:
        others = member.mill["others"]
        await member.bench.insert(others, {"title": "other"})
        await member.put({"title": "ours"})
        assert [lease.row.title for lease in await member.claim(10)] == ["ours"]
        assert [lease.row.title for lease in await member.store.claim(others, others.step(), 10)] == ["other"]


async def test_a_lease_of_days(database_url: str) -> None:
    async with worker(database_url, lambda mill: mill.queue(jobs(), lease=30 * 86400.0)) as member:
        await member.put({})
        await member.claim()
        row = await member.row()
        assert row.leased_until.replace(tzinfo=UTC) > datetime.now(UTC) + timedelta(days=29)


async def test_a_table_without_rowids(sqlite_url: str) -> None:
    """SQLite's WITHOUT ROWID and STRICT tables."""

    def declare(mill: Mill) -> Queue[Any]:
        table = Table(
            "jobs",
            MetaData(),
            *(column._copy() for column in jobs(key=[Column("id", sa.Text, primary_key=True)]).columns),
            sqlite_with_rowid=False,
        )
        return mill.queue(table)

    async with worker(sqlite_url, declare) as member:
        await live(member, [{"id": str(n)} for n in range(4)])
