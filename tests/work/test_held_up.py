"""One locked row, one locked table or one slow queue holds up nobody else, and loses nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.util import greenlet_spawn

from rowmill import Lease, Queue
from rowmill.cli.stats import unwritten
from rowmill.doctor.checks import audit
from rowmill.model.alerts import alerts_of
from rowmill.observe import Alerts
from rowmill.operator import activity
from rowmill.operator.activity import observe_queue
from rowmill.operator.why import why
from rowmill.store.postgres import connection as connections
from rowmill.worker import settler
from tests.work.shop import WORDS, Shop, job_table, shop_on, soon, until


@asynccontextmanager
async def locked(shop: Shop, statement: str) -> AsyncIterator[AsyncConnection]:
    """A transaction of somebody else's that holds what the statement locks until the end of the block."""
    async with shop.mill.store.engine.connect() as connection:
        await connection.execute(sa.text(statement))
        yield connection
        await connection.rollback()


def other_queue(shop: Shop, name: str = "other") -> Queue[Any]:
    return shop.mill.queue(job_table(name), states=WORDS)


@pytest.fixture
def notice_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settler, "NOTICE_SECONDS", 1.0)


async def test_one_locked_row_holds_up_no_other(pg_url: str, notice_soon: None) -> None:
    async with shop_on(pg_url, lease=2.0) as shop:
        other = other_queue(shop)
        await shop.mill.migrate(tables=True)
        running, go = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=20)
        async def handle(job: Lease[Any]) -> dict[str, str]:
            if job.key == 20:
                running.set()
            await soon(go)
            return {"result": "written"}

        @other.handler()
        async def handle_other(job: Lease[Any]) -> None:
            await soon(go)

        await shop.put(20)
        async with shop.working() as working:
            await soon(running)
            async with locked(shop, "SELECT FROM job WHERE id = 7 FOR UPDATE"):
                go.set()
                await until(lambda: working.worker.report.done == 19)
                await shop.run(lambda connection: connection.execute(other.insert([{"id": 1}])).close())
                await until(lambda: working.worker.report.done == 20)
                await until(lambda: shop.named("settle_delayed"))
                rows = await shop.rows()
                assert [key for key, row in rows.items() if row.state != "done"] == [7]
                await asyncio.sleep(2.5)  # longer than the lease: its end comes while the row is locked
            await until(lambda: working.worker.report.done == 21)
            report = await working.stop()
        row = await shop.row(7)

    [said, *_] = shop.named("settle_delayed")
    assert (said["queue"], said["rows"], said["reason"]) == ("job", 1, "locked")
    assert (row.state, row.result, row.attempts) == ("done", "written", 1)
    assert (report.lost, shop.named("rescued")) == (0, [])


async def test_rows_of_others_are_written_on_shutdown_though_one_is_locked(
    pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowmill.worker.worker.FLUSH_SECONDS", 1.0)
    async with shop_on(pg_url) as shop:
        running, go = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=20)
        async def handle(job: Lease[Any]) -> None:
            if job.key == 20:
                running.set()
            await soon(go)

        await shop.put(20)
        async with shop.working() as working:
            await soon(running)
            async with locked(shop, "SELECT FROM job WHERE id = 7 FOR UPDATE"):
                working.worker.stop()
                go.set()
                report = await working.stop()
            states = await shop.states()

    assert (report.done, states) == (19, {"done": 19, "running": 1})
    assert [said["rows"] for said in shop.named("unwritten")] == [1]


async def test_a_row_that_a_verdict_refers_to_may_be_locked(pg_url: str) -> None:
    """Not the row itself: the one that its new value refers to. It delays that verdict alone."""
    async with shop_on(pg_url) as shop:
        await shop.sql("CREATE TABLE kind (name text PRIMARY KEY)")
        await shop.sql("INSERT INTO kind VALUES ('a'), ('b')")
        await shop.sql("ALTER TABLE job ADD FOREIGN KEY (result) REFERENCES kind")
        running, go = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=8)
        async def handle(job: Lease[Any]) -> dict[str, str]:
            if job.key == 8:
                running.set()
            await soon(go)
            return {"result": "b" if job.key == 5 else "a"}

        await shop.put(8)
        async with shop.working() as working:
            await soon(running)
            async with locked(shop, "SELECT FROM kind WHERE name = 'b' FOR UPDATE"):
                go.set()
                await until(lambda: working.worker.report.done == 7)
                rows = await shop.rows()
            await until(lambda: working.worker.report.done == 8)

    assert [key for key, row in rows.items() if row.state != "done"] == [5]


async def test_a_locked_table_holds_up_no_other_queue(pg_url: str) -> None:
    """Neither its claims, nor its settles, nor its renewals, nor the worker's signs of life."""
    async with shop_on(pg_url, lease=1.0) as shop:
        other = other_queue(shop)
        await shop.mill.migrate(tables=True)
        running, go, slow = asyncio.Event(), asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=4)
        async def handle(job: Lease[Any]) -> None:
            running.set()
            await soon(go)

        @other.handler()
        async def handle_other(job: Lease[Any]) -> None:
            if job.key == 1:
                await soon(slow)

        await shop.put(4)
        async with shop.working() as working:
            await soon(running)
            async with locked(shop, "LOCK TABLE job IN ACCESS EXCLUSIVE MODE"):
                go.set()
                await shop.run(lambda connection: connection.execute(other.insert([{"id": 1}, {"id": 2}])).close())
                await until(lambda: working.worker.report.done == 1)
                await asyncio.sleep(1.5)  # the lease of the other queue's first row has to be renewed
                slow.set()
                await until(lambda: working.worker.report.done == 2)
            await until(lambda: working.worker.report.done == 6)
            report = await working.stop()

    assert report.lost == 0


SLOW = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF NEW.state = 'done' THEN PERFORM pg_sleep(0.02); END IF; RETURN NEW; END $$
"""


async def test_settles_that_the_database_cuts_off_are_made_smaller(pg_url: str) -> None:
    """A trigger costs 20 ms a row, and no statement may take longer than a fifth of a second."""
    async with shop_on(pg_url) as shop:
        other = other_queue(shop)
        await shop.mill.migrate(tables=True)
        await shop.sql(SLOW)
        await shop.sql("CREATE TRIGGER slow BEFORE UPDATE ON job FOR EACH ROW EXECUTE FUNCTION slow()")
        await shop.sql(f"ALTER DATABASE {shop.mill.url.database} SET statement_timeout = '200ms'")
        runs: list[int] = []
        running, go = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=100)
        async def handle(job: Lease[Any]) -> dict[str, str]:
            runs.append(job.key)
            if job.key == 100:
                running.set()
            await soon(go)
            return {"result": "written"}

        @other.handler()
        async def handle_other(job: Lease[Any]) -> None:
            pass

        await shop.put(100)
        async with shop.working() as working:
            await soon(running)
            go.set()
            await shop.run(lambda connection: connection.execute(other.insert([{"id": 1}])).close())
            await until(lambda: working.worker.report.done == 101)
            lag = working.worker.settle_lags()["job"]
            report = await working.stop()
        rows = await shop.rows()

    assert sorted(runs) == list(range(1, 101)), "each once"
    assert {(row.state, row.result, row.attempts) for row in rows.values()} == {("done", "written", 1)}
    assert (report.lost, report.refused) == (0, 0)
    assert (lag.cancelled > 0, lag.batch < 50, lag.seconds_per_row > 0.001) == (True, True, True)


async def test_shutdown_waits_for_slow_settles_while_they_make_progress(
    pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowmill.worker.worker.FLUSH_SECONDS", 1.0)
    async with shop_on(pg_url) as shop:
        await shop.sql(SLOW)
        await shop.sql("CREATE TRIGGER slow BEFORE UPDATE ON job FOR EACH ROW EXECUTE FUNCTION slow()")
        await shop.sql(f"ALTER DATABASE {shop.mill.url.database} SET statement_timeout = '200ms'")
        running, go = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=100)
        async def handle(job: Lease[Any]) -> None:
            if job.key == 100:
                running.set()
            await soon(go)

        await shop.put(100)
        async with shop.working() as working:
            await soon(running)
            go.set()
            report = await working.stop()

    assert (report.done, shop.named("unwritten")) == (100, [])


async def test_a_row_that_can_not_be_written_in_time_even_alone_is_given_up(pg_url: str) -> None:
    """It dies with a code of its own, and keeps no other. Whatever was slow about its values is not written."""
    never = SLOW.replace("NEW.state = 'done'", "NEW.result = 'slow'").replace("0.02", "5")
    async with shop_on(pg_url) as shop:
        await shop.sql(never)
        await shop.sql("CREATE TRIGGER slow BEFORE UPDATE ON job FOR EACH ROW EXECUTE FUNCTION slow()")
        await shop.sql(f"ALTER DATABASE {shop.mill.url.database} SET statement_timeout = '200ms'")

        @shop.jobs.handler(concurrency=8)
        async def handle(job: Lease[Any]) -> dict[str, str]:
            return {"result": "slow" if job.key == 3 else "quick"}

        await shop.put(8)
        report = await shop.drain()
        row, failures = await shop.row(3), await shop.failures(3)

    assert (report.done, report.dead) == (7, 1)
    assert (row.state, row.result) == ("dead", None)
    assert failures == [(1, "settle_timeout")]


async def test_a_settle_that_we_gave_up_waiting_for_is_not_taken_for_a_lost_lease(
    pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server goes on with it and commits. Who asks again finds no lease, and the receipt."""
    cancel = "asyncpg.connection.Connection._cancel_current_command"
    monkeypatch.setattr(cancel, lambda connection, waiter: waiter.set_result(None))
    monkeypatch.setattr(connections, "STATEMENT_SECONDS", 0.5)
    async with shop_on(pg_url) as shop:
        await shop.sql(SLOW.replace("0.02", "1.5"))
        await shop.sql("CREATE TRIGGER slow BEFORE UPDATE ON job FOR EACH ROW EXECUTE FUNCTION slow()")

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> dict[str, str]:
            return {"result": "written"}

        await shop.put(1)
        async with shop.working() as working:
            await until(lambda: working.worker.report.done or working.worker.report.lost)
            report = await working.stop()
        row = await shop.row()

    assert (report.done, report.lost, report.refused) == (1, 0, 0)
    assert (row.state, row.result) == ("done", "written")


async def test_claims_that_the_database_cuts_off_are_made_smaller(pg_url: str) -> None:
    slow = SLOW.replace("NEW.state = 'done'", "NEW.state = 'running'")
    async with shop_on(pg_url) as shop:
        await shop.sql(slow)
        await shop.sql("CREATE TRIGGER slow BEFORE UPDATE ON job FOR EACH ROW EXECUTE FUNCTION slow()")
        await shop.sql(f"ALTER DATABASE {shop.mill.url.database} SET statement_timeout = '200ms'")
        store: Any = shop.mill.store
        await store.claims.close()  # it was opened before that

        @shop.jobs.handler(concurrency=50)
        async def handle(job: Lease[Any]) -> None:
            pass

        await shop.put(50)
        report = await shop.drain()

    assert report.done == 50
    assert shop.named("claim_cancelled")[0]["rows"] == 50
    assert shop.named("away") == []


async def test_what_is_finished_and_not_written_is_told_to_operators(pg_url: str, notice_soon: None) -> None:
    async with shop_on(pg_url) as shop:
        running, go = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=2)
        async def handle(job: Lease[Any]) -> None:
            running.set()
            await soon(go)

        await shop.put(1)
        sql = shop.mill.store.sql(shop.jobs)
        async with shop.working() as working:
            await soon(running)
            async with locked(shop, "SELECT FROM job WHERE id = 1 FOR UPDATE"):
                go.set()
                reported = asyncio.Event()
                async with asyncio.timeout(30):
                    while not reported.is_set():
                        workers = await shop.mill.run(activity.workers, write=False)
                        reported.set() if workers[0].settle_lags else await asyncio.sleep(0.05)
                _, holds = await shop.mill.run(partial(why, sql=sql, key="1"), write=False)
                seen = await shop.mill.run(partial(observe_queue, sql=sql, limits=Alerts(unwritten=0.5)), write=False)
                told = [line for worker in workers for line in unwritten(worker)]
            await until(lambda: working.worker.report.done == 1 and shop.named("settle_resumed"))
            async with asyncio.timeout(30):
                while (await shop.mill.run(activity.workers, write=False))[0].settle_lags:
                    await asyncio.sleep(0.05)

    assert [hold.reason for hold in holds] == ["unwritten", "locked"]
    assert "has finished it, and could not write that" in holds[0].text
    assert "idle in transaction" in holds[1].text
    [alert] = alerts_of("job", Alerts(unwritten=0.5, unattended=None), seen)
    assert alert.alert == "ROWS_NOT_WRITTEN"
    assert "has finished 1 row and could not write them" in told[0]
    assert [said["queue"] for said in shop.named("settle_resumed")] == ["job"]


async def test_a_doctor_names_the_time_out_that_a_batch_can_not_keep(pg_url: str) -> None:
    async with shop_on(pg_url) as shop:
        await shop.sql(SLOW)
        await shop.sql("CREATE TRIGGER slow BEFORE UPDATE ON job FOR EACH ROW EXECUTE FUNCTION slow()")
        await shop.sql(f"ALTER DATABASE {shop.mill.url.database} SET statement_timeout = '300ms'")
        await greenlet_spawn(shop.mill.store.upkeep.dispose)  # type: ignore[attr-defined]
        unmeasured = [finding for finding in await audit(shop.mill.store, []) if finding.code == "timeout_short"]

        @shop.jobs.handler(concurrency=50)
        async def handle(job: Lease[Any]) -> None: ...

        await shop.put(50)
        async with shop.working() as working:
            await until(lambda: working.worker.report.done == 50)
            async with asyncio.timeout(30):
                while not (await shop.mill.run(activity.workers, write=False))[0].settle_lags:
                    await asyncio.sleep(0.05)
            measured = [finding for finding in await audit(shop.mill.store, []) if finding.code == "timeout_short"]

    assert [(finding.severity, finding.queue) for finding in unmeasured] == [("info", None)]
    assert [(finding.severity, finding.queue) for finding in measured] == [("warning", "job")]
    assert "statement_timeout is 0.3 s" in measured[0].what


async def test_a_claim_without_an_answer_holds_up_no_other_queue(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """We stop waiting for a claim on a locked table. What it may have taken is asked for again, by that queue alone."""
    monkeypatch.setattr(connections, "STATEMENT_SECONDS", 0.5)
    async with shop_on(pg_url) as shop:
        other = other_queue(shop)
        await shop.mill.migrate(tables=True)

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        @other.handler()
        async def handle_other(job: Lease[Any]) -> None: ...

        async with shop.working() as working:
            async with locked(shop, "LOCK TABLE job IN ACCESS EXCLUSIVE MODE"):
                await until(lambda: shop.named("claim_cancelled"))
                for key in range(1, 6):
                    await shop.sql(f"INSERT INTO other (id) VALUES ({key})")
                    await until(lambda key=key: working.worker.report.done == key)  # type: ignore[misc]
            await shop.put(1)
            await until(lambda: working.worker.report.done == 6)
