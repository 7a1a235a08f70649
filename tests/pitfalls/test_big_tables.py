"""Statements that are cheap on the tables of tests, and not on those of users."""

import asyncio
from typing import Any

import asyncpg
import pytest

from rowmill import Lease
from rowmill.model import lifecycle
from rowmill.model.judge import Verdict
from rowmill.operator import counts
from tests.work.shop import SECONDS, Shop, shop_on

MANY = 50_000
READ = """
SELECT seq_tup_read AS walked, idx_tup_fetch AS looked_up,
       (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()) AS others
FROM pg_stat_user_tables WHERE relname = 'job'
"""


def many(state: str, first: int) -> str:
    return f"INSERT INTO job (id, state) SELECT n, '{state}' FROM generate_series({first}, {first + MANY - 1}) AS n"


async def rows_read(url: str, at_least: int) -> tuple[int, int]:
    """Rows of the table that were ever read by walking over it, and by an index, `at_least` so many in all. A
    connection tells the server what it counted when it ends, so all others have to be gone."""
    connection = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                found = await connection.fetchrow(READ)
                if not found["others"] and found["walked"] + found["looked_up"] >= at_least:
                    return found["walked"], found["looked_up"]
                await connection.execute("SELECT pg_stat_clear_snapshot()")
                await asyncio.sleep(0.05)
    finally:
        await connection.close()


async def test_a_worker_that_starts_does_not_walk_over_finished_rows(pg_url: str) -> None:
    """A look over the whole table costs nothing on the first day, and minutes when millions are done."""
    async with shop_on(pg_url) as shop:
        await shop.sql(many("done", first=1000))
        await shop.sql("INSERT INTO job (id) VALUES (1), (2), (3)")

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        assert (await shop.drain()).done == 3

    walked, looked_up = await rows_read(pg_url, at_least=3)
    assert walked == 0
    assert looked_up < 100


async def test_a_burst_into_a_table_that_was_empty_when_plans_were_cached_is_read_by_index(pg_url: str) -> None:
    """An idle worker's plans are made while there is nothing to read, and kept. Walking over an empty table is right
    then, and would be done for every claim of the burst, until somebody runs ANALYZE."""
    async with shop_on(pg_url) as shop:
        shop.mill.store.worker = 1
        other = await asyncpg.connect(pg_url)
        await other.execute("ALTER TABLE job SET (autovacuum_enabled = false)")
        await other.execute("VACUUM ANALYZE job")
        for key in range(12):
            await other.execute("INSERT INTO job (id) VALUES ($1)", key)
            await pass_through(shop, 1)
        await other.execute(many("ready", first=1000))
        await other.close()

        await pass_through(shop, 100)

    walked, looked_up = await rows_read(pg_url, at_least=100)
    assert walked == 0
    assert looked_up < 1000


async def test_the_counts_of_a_big_table_do_not_read_all_of_it(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that shows them, and asks again every few seconds, would bring the database down."""
    monkeypatch.setattr(counts, "SMALL_BYTES", 0)
    monkeypatch.setattr(counts, "SAMPLE_PAGES", 20)
    async with shop_on(pg_url) as shop:
        await shop.sql("ALTER TABLE job SET (autovacuum_enabled = false)")
        await shop.sql(many("ready", first=1))
        await shop.sql(many("done", first=1 + MANY))
        sql = shop.mill.store.sql(shop.jobs)

        found = await shop.run(lambda connection: counts.counts(connection, sql, cap=1000))

        assert {state.count for state in found if state.word in ("ready", "done")} == {counts.How.ESTIMATED}

    walked, looked_up = await rows_read(pg_url, at_least=1)
    assert walked < MANY / 2
    assert looked_up <= 1100


async def pass_through(shop: Shop, rows: int) -> None:
    """Claim, renew and settle so many."""
    store = shop.mill.store
    leases = await store.claim(shop.jobs, shop.jobs.step(), rows)
    assert len(leases) == rows
    assert (await store.renew(leases)).lost == []
    settled = await store.settle([Verdict(lease, lifecycle.DONE, values={"result": "x"}) for lease in leases])
    assert settled.kept == rows
