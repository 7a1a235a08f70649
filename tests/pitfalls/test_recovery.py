"""Recovery that does harm: to rows at work, to rows of others, or to itself."""

import asyncio
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa

from rowmill import Lease, Mill, Queue, Retry
from rowmill.store.rescue import Rescued
from tests.conformance.fleet import jobs, worker
from tests.faults.jobs import CONCURRENCY
from tests.faults.processes import yard_on
from tests.support.waiting import until
from tests.work.shop import SECONDS, Shop, shop_on, soon


async def test_a_job_that_outlasts_its_lease_is_not_run_a_second_time(database_url: str) -> None:
    """A lease of minutes, a job of hours: it is renewed for as long as it runs, whoever sweeps meanwhile."""
    async with shop_on(database_url, lease=1.5) as shop, shop_on(database_url, lease=1.5, fresh=False) as other:
        begun, go_on, runs = asyncio.Event(), asyncio.Event(), []

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            runs.append("here")
            begun.set()
            await go_on.wait()

        @other.jobs.handler()
        async def handle_elsewhere(job: Lease[Any]) -> None:
            runs.append("elsewhere")

        await shop.put(1)
        async with shop.working() as working:
            await soon(begun)
            end_of_the_first = (await shop.row()).leased_until
            async with asyncio.timeout(SECONDS):
                while await time_of(shop) <= end_of_the_first:
                    await asyncio.sleep(0.1)
            assert await other.rescue() == Rescued()
            assert (await other.drain()).claimed == 0
            go_on.set()
            report = await working.stop()

        assert (runs, report.done, report.lost) == (["here"], 1, 0)


async def time_of(shop: Shop) -> datetime:
    """The database's."""
    now = sa.literal_column(shop.mill.store.sql(shop.jobs).now("leased_until"), shop.jobs.table.c.leased_until.type)
    found: datetime = await shop.run(lambda connection: connection.scalar(sa.select(now)))
    return found


async def test_a_worker_that_starts_leaves_the_running_rows_of_others_alone(database_url: str) -> None:
    """A sweep at the start that sets back all that runs takes the work of every other process from it."""
    async with shop_on(database_url) as shop, shop_on(database_url, fresh=False) as newcomer:
        begun, go_on = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> dict[str, str]:
            begun.set()
            await go_on.wait()
            return {"result": "of the first"}

        @newcomer.jobs.handler()
        async def handle_elsewhere(job: Lease[Any]) -> dict[str, str]:
            return {"result": "of the newcomer"}

        await shop.put(1)
        async with shop.working() as working:
            await soon(begun)
            await newcomer.put(1)
            report = await newcomer.drain()
            held = await shop.row(1)
            go_on.set()
            await working.stop()

        assert (report.claimed, report.rescued, held.state, held.attempts) == (1, 0, "running", 1)
        assert [(await shop.row(key)).result for key in (1, 2)] == ["of the first", "of the newcomer"]


def test_rows_that_a_killed_process_had_taken_ahead_come_back_by_their_lease(database_url: str, tmp_path: Path) -> None:
    """They never began, so nothing tells of them: they must not lie in a dead process for hours."""
    with yard_on(database_url, tmp_path) as yard:
        yard.put(*["quick"] * 200, *["hold"] * 100)
        victim = yard.work(**{CONCURRENCY: "2"})

        def ahead() -> set[int]:
            begun = {call.key for call in yard.journal.calls("begin")}
            running = {key for key, row in yard.rows().items() if row.state == "running"}
            return running - begun if 202 in begun else set()

        until(ahead)
        victim.send(signal.SIGKILL)
        victim.wait()
        left = ahead()
        assert left
        yard.go()
        heir = yard.work()
        until(yard.finished)
        heir.send(signal.SIGTERM)
        assert heir.wait() == 0, heir.said()

        assert yard.states() == {"done": 300}
        assert all((1, "lease_expired") in yard.failures(key) for key in left)


def plain(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs(), retry=Retry(attempts=3))


async def test_a_sweep_is_not_held_up_by_a_row_that_somebody_has_locked(pg_url: str) -> None:
    """One forgotten transaction, and the recovery itself would need recovery."""
    async with worker(pg_url, plain) as member:
        await member.put({"title": "locked"}, {"title": "free"})
        await member.claim(2)
        await member.expire()
        with psycopg.connect(pg_url) as somebody:
            somebody.execute("SELECT 1 FROM jobs WHERE title = 'locked' FOR UPDATE")
            async with asyncio.timeout(SECONDS):
                assert await member.rescue() == Rescued(returned=1)
        assert [(row.title, row.state) for row in await member.rows()] == [("locked", "running"), ("free", "ready")]
        assert await member.rescue() == Rescued(returned=1)


async def test_a_sweep_leaves_rows_alone_whose_words_it_does_not_know(database_url: str) -> None:
    """Of another version of the application, say. Whoever can't run a row has no business burying it."""
    async with worker(database_url, plain) as member:

        @member.queue.handler()
        async def handle(job: Lease[Any]) -> None: ...

        past = datetime(2001, 1, 1, tzinfo=UTC)
        await member.put({"state": "translating", "attempts": 9, "lease": 5, "leased_until": past})
        before = await member.row()
        report = await member.bench.drain()
        assert (report.rescued, report.buried, report.claimed) == (0, 0, 0)
        assert await member.row() == before
