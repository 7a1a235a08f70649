"""A claim with a filter is served by the ready index, or by a partial index for that filter, if there is one."""

from functools import partial
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa
from sqlalchemy import Column

import rowmill as rm
from rowmill.store.postgres.claim import claim_statement
from rowmill.store.postgres.session import SESSION
from rowmill.store.postgres.sql import PostgresQueueSql
from rowmill.store.sqlite import claim
from rowmill.store.sqlite.sql import SqliteQueueSql
from rowmill.store.sqlite.statements import by_index
from rowmill.store.watermark import Stretch
from tests.conformance.fleet import jobs, worker
from tests.plans.explaining import Explaining
from tests.plans.plan import Plan

READY = "rowmill_jobs_work_ready"
OWN = "jobs_mail_ready"
ROWS = 20_000
FILL = (
    "INSERT INTO jobs (state, kind) SELECT 'ready', CASE WHEN n > :rows - 100 THEN 'mail' ELSE 'fax' END "
    "FROM generate_series(1, :rows) AS n"
)
WHOLE = ((Stretch.AT_ONCE, False), (Stretch.TIMED, False))


def declare(mill: rm.Mill) -> rm.Queue[Any]:
    table = jobs(Column("kind", sa.Text))
    return mill.queue(table, where=table.c.kind == "mail")


def carried_out(statement: str, connection: sa.Connection) -> list[Any]:
    return list(connection.exec_driver_sql(statement, (1, 50, 60.0)).all())


async def claimed(url: str, sql: PostgresQueueSql, mode: str) -> Plan:
    """A claim as a worker makes it, carried out and undone."""
    settings = SESSION | {"plan_cache_mode": mode}
    connection = await asyncpg.connect(url, server_settings=settings)
    try:
        return await Explaining(connection).cost(claim_statement(sql, sql.queue.step(), WHOLE), 1 << 36, 50, 60.0)
    finally:
        await connection.close()


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("statistics", ["of the empty table", "fresh"])
async def test_the_ready_index_serves_and_a_partial_one_of_the_users_spares_the_rows_of_others(
    pg_url: str, statistics: str, mode: str
) -> None:
    async with worker(pg_url, declare) as member:
        sql = member.store.sql(member.queue)
        assert isinstance(sql, PostgresQueueSql)
        await member.sql("ANALYZE jobs")
        await member.mill.run(lambda c: c.execute(sa.text(FILL), {"rows": ROWS}).close())
        if statistics == "fresh":
            await member.sql("ANALYZE jobs")
        plan = await claimed(pg_url, sql, mode)
        assert plan.reads("jobs") == {READY, "jobs_pkey"}, str(plan)
        assert plan.sorted_rows == 0
        walked = plan.buffers

        await member.sql(
            f"CREATE INDEX {OWN} ON jobs (available_at NULLS FIRST, id) WHERE state IN ('ready') AND kind = 'mail'"
        )
        if statistics == "fresh":
            await member.sql("ANALYZE jobs")
        plan = await claimed(pg_url, sql, mode)
        assert plan.reads("jobs") == {OWN, "jobs_pkey"}, str(plan)
        assert plan.buffers < walked, f"{plan.buffers} pages with it, {walked} without"


async def test_sqlite_takes_the_ready_index_too(sqlite_url: str) -> None:
    async with worker(sqlite_url, declare) as member:
        sql = member.store.sql(member.queue)
        assert isinstance(sql, SqliteQueueSql)
        step = sql.queue.step()
        for stretch in (Stretch.AT_ONCE, Stretch.TIMED):
            statement = by_index(sql, step, claim.claim_statement(sql, step, stretch))
            explain = f"EXPLAIN QUERY PLAN {statement}"
            rows = await member.mill.run(partial(carried_out, explain))
            found = " ".join(str(row[-1]) for row in rows)
            assert f"USING INDEX {READY}" in found
            assert "TEMP B-TREE" not in found
