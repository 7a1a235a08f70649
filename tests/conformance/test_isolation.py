"""A database whose transactions are stricter than usual, by its own default."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa

from rowmill import Mill, Queue
from rowmill.model.judge import judge
from rowmill.model.transaction import AsyncBlockSession, BlockSession
from rowmill.store.postgres.store import PostgresStore
from rowmill.worker.settling import Settling
from tests.conformance.fleet import Member, jobs, worker


def plain(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs())


@asynccontextmanager
async def strict(url: str) -> AsyncIterator[Member]:
    connection = await asyncpg.connect(url)
    try:
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    finally:
        await connection.close()
    async with worker(url, plain) as member:
        yield member


@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
async def test_a_row_whose_lease_is_renewed_can_be_settled_by_its_handler_s_transaction(
    pg_url: str, sync: bool
) -> None:
    async with strict(pg_url) as member:
        await member.put({})
        [lease] = await member.claim()
        sessions = AsyncBlockSession, BlockSession
        block = Settling(member.store, [lease], sessions, lambda _: [judge(lease, None, 0.0)], lambda verdicts: None)
        if sync:
            with block as session:
                session.execute(sa.text("SELECT 1"))
                await member.store.renew([lease])
        else:
            async with block as tx:
                await tx.execute(sa.text("SELECT 1"))
                await member.store.renew([lease])
        assert (await member.row()).state == "done"


async def test_workers_do_not_trip_over_each_other(pg_url: str) -> None:
    """What another worker changed meanwhile is passed over, as ever, and no error that costs the connection."""
    async with strict(pg_url) as member:
        store = member.store
        assert isinstance(store, PostgresStore)
        for line in (store.claims, store.settles, store.renewals):
            assert [list(row) for row in await line.fetch("SHOW transaction_isolation")] == [["read committed"]]
