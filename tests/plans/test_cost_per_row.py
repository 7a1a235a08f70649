"""What a row costs the server, counted: round trips, pages, bytes of log. Seconds would depend on the machine."""

from operator import gt
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.model import lifecycle
from rowmill.model.judge import Verdict
from rowmill.store.postgres.claim import claim_statement
from rowmill.store.postgres.connection import DedicatedConnection
from rowmill.store.postgres.session import SESSION
from rowmill.store.postgres.store import PostgresStore
from rowmill.store.settle_batch import settle_batches
from tests.plans.explaining import Explaining

ROWS = 10_000
BATCH = 500
FILL = sa.text("INSERT INTO jobs (payload) SELECT repeat('x', 200) FROM generate_series(1, :rows)")


class Base(sa.orm.DeclarativeBase):
    pass


class Job(rm.QueueMixin, Base):
    __tablename__ = "jobs"
    id: sa.orm.Mapped[int] = sa.orm.mapped_column(primary_key=True)
    payload: sa.orm.Mapped[str]
    result: sa.orm.Mapped[str | None]


async def filled(mill: rm.Mill) -> PostgresStore:
    await mill.migrate(tables=True)
    await mill.run(lambda c: c.execute(FILL, {"rows": ROWS}).close())
    store = mill.store
    assert isinstance(store, PostgresStore)
    store.worker = 1
    return store


async def test_round_trips_per_thousand_rows(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mill = rm.Mill(pg_url)
    queue = mill.queue(Job)
    trips: list[str] = []
    fetch = DedicatedConnection.fetch

    async def counted(line: DedicatedConnection, statement: str, *arguments: Any) -> list[Any]:
        trips.append(line.purpose)
        return await fetch(line, statement, *arguments)

    @queue.handler(concurrency=10)
    async def work(lease: rm.Lease[Job]) -> dict[str, str]:
        return {"result": "done"}

    async with mill.opened():
        await filled(mill)
        monkeypatch.setattr(DedicatedConnection, "fetch", counted)
        report = await mill.drain()

    assert report.done == ROWS
    assert len(trips) <= 12 * ROWS / 1000, f"{trips.count('claim')} claims, {trips.count('settle')} settles"


@pytest.mark.parametrize("used_up", [0, 10])
async def test_one_statement_takes_rows_and_buries_those_without_attempts(
    pg_url: str, monkeypatch: pytest.MonkeyPatch, used_up: int
) -> None:
    mill = rm.Mill(pg_url)
    queue = mill.queue(Job)
    sent: list[str] = []
    fetch = DedicatedConnection.fetch

    async def counted(line: DedicatedConnection, statement: str, *arguments: Any) -> list[Any]:
        sent.append(statement)
        return await fetch(line, statement, *arguments)

    async with mill.opened():
        store = await filled(mill)
        await mill.run(lambda c: c.execute(sa.text(f"UPDATE jobs SET attempts = 3 WHERE id <= {used_up}")).close())
        monkeypatch.setattr(DedicatedConnection, "fetch", counted)
        leases = await store.claim(queue, queue.steps[0], 100)
        dead = await mill.run(lambda c: c.scalar(sa.text("SELECT count(*) FROM jobs WHERE state = 'dead'")))

    assert len(sent) == 1
    assert (len(leases), dead) == (100 - used_up, used_up)


async def test_pages_and_log_per_row(pg_url: str) -> None:
    mill = rm.Mill(pg_url)
    queue = mill.queue(Job)
    step = queue.steps[0]
    async with mill.opened():
        store = await filled(mill)
        connection = await asyncpg.connect(pg_url, server_settings=SESSION)
        try:
            explaining = Explaining(connection)
            leases = await store.claim(queue, step, BATCH)
            mark = store.statements(queue).mark(step)
            claim = await explaining.cost(
                store.statements(queue).once(claim_statement, step, mark.shape), 7, BATCH, 60.0, *mark.arguments()
            )
            verdicts = [Verdict(lease, lifecycle.DONE, values={"result": "done"}) for lease in leases]
            [flush] = settle_batches(verdicts, lambda: 1)
            statement, arguments = store.settlement.settle_statement(flush)
            settle = await explaining.cost(statement, *arguments)
        finally:
            await connection.close()

    found = {
        "claim": (claim.buffers / BATCH, claim.root["WAL Bytes"] / BATCH),
        "settle": (settle.buffers / BATCH, settle.root["WAL Bytes"] / BATCH),
    }
    # A version of the row with its payload, its entries in the key's index and in ours, its pointer in the old version.
    most = {"claim": (14.0, 660.0), "settle": (14.0, 520.0)}
    over = {name for name, cost in found.items() if any(map(gt, cost, most[name]))}
    assert not over, f"(pages, bytes of log) per row: {found}, not {most} at the most"
