"""`drain()` works until nothing is ready, and says what it did."""

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column, MetaData, Table

from rowmill import Dead, Lease, Mill, OrderPerKey, Retry, RetryLater, States, TransientError, fixed
from rowmill.errors import BadRequest
from rowmill.store.own.schema import own_tables
from rowmill.worker import Report, Worker
from tests.work.shop import MOMENT, QUICK, SECONDS, TWO_STAGES, WORDS, job_table, quick, shop_on


async def test_an_empty_queue_is_drained_at_once(database_url: str) -> None:
    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        report = await shop.drain(poll_base=20.0, poll_max=20.0)

        assert (report.claimed, report.settled) == (0, {})


async def test_a_drain_leaves_no_task_behind(database_url: str) -> None:
    """Python would say "Task was destroyed but it is pending!" in the log of an application that drains and ends."""
    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        before = asyncio.all_tasks()
        await shop.drain()
        await asyncio.sleep(0)  # a task that was cancelled ends with the next turn of the loop

        assert asyncio.all_tasks() <= before


async def test_rows_go_through_all_stages_without_waiting_for_a_poll(database_url: str) -> None:
    async with shop_on(database_url, stages=TWO_STAGES) as shop:
        for stage in ("first", "second"):

            @shop.jobs.handler(stage=stage, concurrency=2)
            async def handle(job: Lease[Any]) -> dict[str, str]:
                return {"result": f"{job.row.result or ''}{job.stage} "}

        await shop.put(10)
        report = await shop.drain(poll_base=20.0, poll_max=20.0)

        assert report.settled == {"advance": 10, "done": 10}
        assert report.claimed == 20
        assert {row.result for row in (await shop.rows()).values()} == {"first second "}
        assert {row.attempts for row in (await shop.rows()).values()} == {1}


async def test_rows_that_are_ready_again_at_once_are_worked_on_again(database_url: str) -> None:
    async with shop_on(database_url, retry=Retry(attempts=3, backoff=fixed(0.0))) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            if not job.last_attempt:
                raise TransientError

        await shop.put(3)
        report = await shop.drain(poll_base=20.0, poll_max=20.0)

        assert (report.done, report.again) == (3, 6)


async def test_no_more_rows_are_claimed_than_the_drain_may(database_url: str) -> None:
    async with shop_on(database_url, stages=TWO_STAGES) as shop:
        for stage in ("first", "second"):

            @shop.jobs.handler(stage=stage, concurrency=4)
            async def handle(job: Lease[Any]) -> None:
                await asyncio.sleep(0)

        await shop.put(10)
        reports = [await shop.drain(rows=7), await shop.drain(rows=7), await shop.drain(rows=7)]

        assert [report.claimed for report in reports] == [7, 7, 6]
        assert sum(report.done for report in reports) == 10
        assert not any(report.settled.get("release") for report in reports)


async def test_a_drain_ends_when_its_time_is_over(database_url: str) -> None:
    async with shop_on(database_url, retry=Retry(attempts=1_000_000, backoff=fixed(0.0))) as shop:

        @shop.jobs.handler(concurrency=2)
        async def handle(job: Lease[Any]) -> None:
            await asyncio.sleep(0)
            raise TransientError

        await shop.put(3)
        await shop.drain(seconds=0.2)

        assert {row.state for row in (await shop.rows()).values()} <= {"ready", "waiting"}


async def test_a_drain_whose_time_is_over_waits_for_what_runs(database_url: str) -> None:
    """A handler that takes longer than any drain would otherwise never end."""
    workers: list[Worker] = []
    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            while workers[0].may_claim:
                await asyncio.sleep(0.01)

        await shop.put(1)
        report = await shop.mill.drain(seconds=1.0, settings=quick(grace=0.0), begun=workers.append)

        assert report.settled == {"done": 1}


@pytest.mark.parametrize("bound", [{"rows": 0}, {"seconds": 0}, {"seconds": -1.0}])
async def test_a_drain_of_nothing_is_refused(sqlite_url: str, bound: dict[str, Any]) -> None:
    async with shop_on(sqlite_url) as shop:
        with pytest.raises(BadRequest, match=next(iter(bound))):
            await shop.mill.drain(**bound)


async def test_rows_that_wait_are_left(database_url: str) -> None:
    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> Any:
            return {1: RetryLater(after=3600.0), 2: Dead()}.get(job.key)

        await shop.put(3)
        report = await shop.drain()

        assert await shop.states() == {"waiting": 1, "dead": 1, "done": 1}
        told = Report(claimed=3, settled={"again": 1, "dead": 1, "done": 1}).as_dict()
        assert report.as_dict() | {"seconds": 0, "peak_bytes": 0} == told | {"seconds": 0, "peak_bytes": 0}
        assert report.seconds > 0


async def test_rows_of_dead_workers_are_rescued_first(database_url: str) -> None:
    async with shop_on(database_url, retry=Retry(attempts=2)) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        await shop.put(3)
        past = "now() - interval '1 hour'" if shop.postgres else "strftime('%Y-%m-%d %H:%M:%f000', 'now', '-1 hour')"
        await shop.sql(f"UPDATE job SET state = 'running', attempts = id - 1, lease = 5, leased_until = {past}")
        await shop.sql("UPDATE job SET error = 'lease_expired' WHERE id = 3")  # its last attempt had begun, alone
        report = await shop.drain()

        assert await shop.states() == {"done": 2, "dead": 1}
        assert (report.rescued, report.buried, report.dead, report.done) == (2, 1, 1, 2)


async def test_a_paused_queue_is_not_worked_on_and_does_not_hold_up_the_drain(database_url: str) -> None:
    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        await shop.put(3)
        pause = own_tables(shop.mill.store.dialect.name).pause
        await shop.run(
            lambda connection: connection.execute(
                sa.insert(pause).values(queue="job", stage="", since=sa.func.current_timestamp())
            ).close()
        )
        report = await shop.drain()

        assert report.claimed == 0
        assert await shop.states() == {"ready": 3}


def ordered(mill: Mill, name: str = "letter") -> Any:
    table = Table(
        name,
        MetaData(),
        Column("id", sa.Integer, primary_key=True),
        Column("who", sa.Text),
        Column("state", sa.Text, nullable=False),
        Column("attempts", sa.Integer, nullable=False, server_default="0"),
        Column("available_at", MOMENT),
        Column("lease", sa.BigInteger),
        Column("leased_until", MOMENT),
        Column("error", sa.Text),
        Column("finished_at", MOMENT),
    )
    return mill.queue(table, states=States(), order_per_key=OrderPerKey(per="who"))


async def test_the_next_row_of_a_key_is_drained_too_and_without_waiting_for_a_poll(database_url: str) -> None:
    mill = Mill(database_url)
    letters = ordered(mill)
    seen: list[int] = []

    @letters.handler(concurrency=4)
    async def handle(letter: Lease[Any]) -> None:
        await asyncio.sleep(0.02)  # so that a claim finds nothing while this one runs
        seen.append(letter.key)

    async with mill.opened():
        await mill.migrate(tables=True)
        rows = [{"id": n, "who": "one" if n % 2 else "two"} for n in range(1, 11)]
        await mill.run(lambda connection: connection.execute(letters.insert(rows)).close())
        async with asyncio.timeout(SECONDS):
            report = await mill.drain(settings=quick(poll_base=20.0, poll_max=20.0))

    assert report.done == 10
    assert [key for key in seen if key % 2] == [1, 3, 5, 7, 9]
    assert [key for key in seen if not key % 2] == [2, 4, 6, 8, 10]


def test_drains_in_one_process_each_have_a_loop_of_their_own(
    sqlite_url: str, pg_url: str, recwarn: Any, caplog: Any
) -> None:
    """Celery tasks and Dagster ops do that: nothing may belong to the loop of the first."""
    for url in (sqlite_url, pg_url):
        mill = Mill(url, settings=QUICK)
        both = [ordered(mill, "letter"), ordered(mill, "parcel")]  # two, which have to wait for each other
        for queue in both:

            @queue.handler(concurrency=3)
            async def handle(letter: Lease[Any]) -> None:
                await asyncio.sleep(0.02)

        asyncio.run(mill.migrate(tables=True))
        for turn in range(3):
            for queue in both:
                asyncio.run(queue.load([{"id": turn * 4 + n, "who": str(n % 2)} for n in range(4)]))
            assert mill.drain_now().done == 8
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL", "WARNING")]
    assert not [warning for warning in recwarn if "never" in str(warning.message)]


async def test_all_rows_of_dead_workers_are_rescued_however_many(database_url: str) -> None:
    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        await shop.put(25)
        past = "now() - interval '1 hour'" if shop.postgres else "strftime('%Y-%m-%d %H:%M:%f000', 'now', '-1 hour')"
        await shop.sql(f"UPDATE job SET state = 'running', attempts = 1, lease = 5, leased_until = {past}")
        report = await shop.drain(rescue_most=5, heartbeat=3600.0)

        assert (report.rescued, report.done) == (25, 25)
        assert await shop.states() == {"done": 25}


async def test_a_queue_without_a_handler_is_left_alone(database_url: str) -> None:
    """Its table may not even be there: another application may be the one that works on it."""
    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        shop.mill.queue(job_table("elsewhere"), states=WORDS)
        await shop.put(1)
        report = await shop.drain()

        assert report.done == 1
