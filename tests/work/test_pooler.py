"""A pooler in transaction mode between us and PostgreSQL: named where it breaks a worker, used where it can be."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa

from rowmill import Lease, Mill
from rowmill.errors import DatabaseUnreachable
from rowmill.store import dsn
from rowmill.store.open import parse_url
from rowmill.store.postgres.connection import DedicatedConnection
from tests.support.pooler import pooled
from tests.work.shop import QUICK, shop_on

ADVICE = r"a pooler, such as PgBouncer, stands between us .*ROWMILL_DATABASE_URL .*ROWMILL_POOLED_URL"


async def test_one_that_refuses_our_settings_is_named(pg_url: str) -> None:
    async with pooled(pg_url, strict=True) as through:
        with pytest.raises(DatabaseUnreachable, match=r"refuses the settings .*" + "ROWMILL_POOLED_URL"):
            async with Mill(through).opened():
                pass


async def test_one_that_drops_our_settings_is_named_before_a_worker_starts(pg_url: str) -> None:
    async with shop_on(pg_url) as shop, pooled(pg_url) as through:
        mill = Mill(through)
        mill.queue(shop.jobs.table)
        with pytest.raises(DatabaseUnreachable, match="drops the settings"):
            async with mill.worker():
                pass


async def test_a_prepared_statement_that_is_gone_names_it(pg_url: str) -> None:
    """It was prepared on a connection of the server that another client has now. A worker must end with this error:
    taken for one of the row's, it would bury whatever is in hand."""
    async with pooled(pg_url) as through:
        line = DedicatedConnection("settle", dsn.for_asyncpg(parse_url(through)))
        await line.fetch("SELECT 1")
        async with busy(through):
            with pytest.raises(DatabaseUnreachable, match=ADVICE):
                await line.fetch("SELECT 1")
        await line.close()


async def test_a_prepared_statement_that_is_there_already_names_it(pg_url: str) -> None:
    """As with two processes that count their statements alike."""
    async with pooled(pg_url) as through:
        for name in ("one", "other"):
            line = DedicatedConnection(name, dsn.for_asyncpg(parse_url(through)))
            if name == "other":
                with pytest.raises(DatabaseUnreachable, match=ADVICE):
                    await line.fetch("PREPARE statement_1 AS SELECT 1")
            else:
                await line.fetch("PREPARE statement_1 AS SELECT 1")
            await line.close()


async def test_the_same_in_statements_of_sqlalchemy(pg_url: str) -> None:
    def ask(connection: sa.Connection) -> None:
        connection.execute(sa.text("SELECT 1")).all()

    async with pooled(pg_url) as through:
        store = Mill(through).store
        await store.run(ask)
        async with busy(through):
            with pytest.raises(DatabaseUnreachable, match=ADVICE):
                await store.run(ask)
        await store.close()


@asynccontextmanager
async def busy(url: str) -> AsyncIterator[None]:
    """Another client is in a transaction, on the connection of the server that was free."""
    connection = await asyncpg.connect(url, statement_cache_size=0)
    async with connection.transaction():
        yield
    await connection.close()


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_transactions_of_handlers_may_go_through_it(pg_url: str, kind: str) -> None:
    """The worker itself goes to PostgreSQL. Nothing is lost, done twice, or mixed up."""
    async with shop_on(pg_url) as shop, pooled(pg_url, strict=True) as through:
        mill = Mill(pg_url, pooled_url=through, settings=QUICK)
        jobs, effects = mill.queue(shop.jobs.table), shop.effects

        def write(job: Lease[Any]) -> Any:
            return sa.insert(effects).values(job=job.key)

        if kind == "sync":

            @jobs.handler(concurrency=8)
            def handle(job: Lease[Any]) -> None:
                with job.settling() as session:
                    session.execute(write(job))
                    session.execute(sa.select(effects).where(effects.c.job == job.key)).one()

        else:

            @jobs.handler(concurrency=8)
            async def handle_async(job: Lease[Any]) -> None:
                async with job.settling() as session:
                    await session.execute(write(job))
                    await asyncio.sleep(0)
                    (await session.execute(sa.select(effects).where(effects.c.job == job.key))).one()

        await shop.put(100)
        report = await mill.drain()

        assert (report.done, report.lost, report.dead) == (100, 0, 0)
        assert await shop.states() == {"done": 100}
        assert sorted(await shop.effected()) == sorted((await shop.rows()).keys())


async def test_a_pooled_url_is_for_postgres(sqlite_url: str, pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DatabaseUnreachable, match="pooled_url is for PostgreSQL"):
        Mill(sqlite_url, pooled_url=pg_url)
    monkeypatch.setenv("ROWMILL_POOLED_URL", pg_url)
    assert Mill(sqlite_url).pooled_url is None
    assert Mill(pg_url).pooled_url is not None
