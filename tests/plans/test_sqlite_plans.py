"""On SQLite, too, no hot statement walks the table, whether it was analyzed or not."""

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection, event

import rowmill as rm
from rowmill.model import lifecycle
from rowmill.model.judge import Verdict
from rowmill.operator import counts
from rowmill.store import rescue
from rowmill.store.row_sizes import ByteLimit
from rowmill.store.sqlite.store import SqliteStore

FILL = """
WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 20000)
INSERT INTO jobs (id, state, finished_at) SELECT n, iif(n % 2, 'ready', 'done'), iif(n % 2, NULL, '2026-01-01 00:00:00')
FROM n
"""


class Base(sa.orm.DeclarativeBase):
    pass


class Job(rm.QueueMixin, Base):
    __tablename__ = "jobs"
    __table_args__ = (sa.Index("of_their_own", "state"),)
    id: sa.orm.Mapped[int] = sa.orm.mapped_column(primary_key=True)
    title: sa.orm.Mapped[str | None]


async def everything(store: SqliteStore, queue: rm.Queue[Any]) -> list[tuple[str, Any]]:
    """Claim, renew, settle, rescue and count; answers the statements on the table that this took."""
    statements: list[tuple[str, Any]] = []
    step, sql = queue.steps[0], store.sql(queue)
    connection, engine = store.writer.connection, store.engine.sync_engine
    assert connection is not None

    def note(_connection: Connection, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.append((statement, parameters))

    connection.set_trace_callback(lambda text: statements.append((text, ())))
    event.listen(engine, "before_cursor_execute", note)
    leases = await store.claim(queue, step, 50, ByteLimit(1 << 30))
    assert len(leases) == 50
    assert await store.value(leases[0], queue.table.c.title) is None
    assert (await store.renew(leases[:20])).lost == []
    settled = await store.settle([Verdict(lease, lifecycle.DONE) for lease in leases[:10]])
    settled_so = await store.settle([Verdict(lease, lifecycle.AGAIN, 60.0, "code") for lease in leases[10:20]])
    assert settled.kept == settled_so.kept == 10
    back = sql.shifted(queue.columns["leased_until"], -3600.0)
    connection.execute(f"UPDATE jobs SET leased_until = {back} WHERE id IN (SELECT id FROM jobs WHERE lease > 0)")
    statements.pop()
    rescued = await store.run(lambda c: rescue.rescue(c, sql, step, 500))
    assert rescued.returned == 30
    depth = await store.run(lambda c: counts.depth(c, sql, 100))
    assert depth.rows == 100
    assert await store.run(lambda c: counts.has_work(c, sql))
    event.remove(engine, "before_cursor_execute", note)
    connection.set_trace_callback(None)
    verbs = ("SELECT", "UPDATE", "WITH")
    return [(text, given) for text, given in statements if text.startswith(verbs) and "jobs" in text]


OWN = ("INDEX rowmill_jobs_work_ready", "INDEX rowmill_jobs_running")
"""Partial indexes: to read one from its head is to read rows that are ready, or that run."""


@pytest.mark.parametrize("analyzed", [False, True])
async def test_statements_look_rows_up(sqlite_url: str, analyzed: bool) -> None:
    mill = rm.Mill(sqlite_url)
    queue = mill.queue(Job)
    store = mill.store
    assert isinstance(store, SqliteStore)
    async with mill.opened():
        await mill.migrate(tables=True)
        store.worker = 1
        connection = store.writer.connection
        assert connection is not None
        connection.execute(FILL)
        if analyzed:
            connection.execute("ANALYZE")
        statements = await everything(store, queue)
        plans = {
            text: [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", given)]
            for text, given in statements
        }

    verbs = [text.split()[0] for text, _ in statements]
    assert (verbs.count("UPDATE"), verbs.count("SELECT")) >= (4, 6)
    for text, plan in plans.items():
        walks = [line for line in plan if line.startswith("SCAN jobs") and not line.endswith(OWN)]
        assert not walks, f"{text}\n{plan}"
        if "'running'" in text.partition("WHERE")[2]:
            continue  # few rows: how they are found does not matter
        if "available_at IS NULL" in text:
            continue  # the column allows no NULL here: SQLite knows, and walks nothing
        assert not [line for line in plan if "TEMP B-TREE" in line], f"{text}\n{plan}"
