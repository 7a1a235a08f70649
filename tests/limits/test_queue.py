"""Limits of a handler: rows without room wait, cost no attempt, hold no worker, and have not failed."""

import asyncio
from typing import Any

import pytest

import rowmill as rm
from tests.work.shop import shop_on, soon, until


async def test_rows_run_while_there_is_room_and_the_rest_waits_without_a_failure(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(5, per=3600.0))
        ran: list[int] = []

        @shop.jobs.handler(limits=[eqc])
        async def look_up(job: rm.Lease[Any]) -> None:
            ran.append(job.key)

        await shop.put(20)
        async with shop.working() as working:
            await until(lambda: len(ran) == 5)
            await until(lambda: working.worker.report.held)
        rows = await shop.rows()

        assert sorted(ran) == [1, 2, 3, 4, 5]
        assert {row.attempts for row in rows.values() if row.state == "ready"} == {0}
        waiting = [row for row in rows.values() if row.error]
        assert waiting, "those that were claimed were put back"
        assert {row.error for row in waiting} == {"limit_rate: eqc"}
        assert len({row.available_at for row in waiting}) == len(waiting), "each has a time of its own"
        assert [await shop.failures(key) for key in rows] == [[]] * 20


async def test_a_backlog_that_has_no_room_is_not_claimed_and_put_back_over_and_over(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(5, per=3600.0))
        ran: list[int] = []

        @shop.jobs.handler(limits=[eqc], concurrency=4)
        async def look_up(job: rm.Lease[Any]) -> None:
            ran.append(job.key)

        await shop.put(500)
        async with shop.working() as working:
            await until(lambda: len(ran) == 5)
            await until(lambda: working.worker.report.held)
        claimed = working.worker.report.claimed

        assert claimed < 100


async def test_rows_wait_for_what_is_reserved_no_longer_than_the_calls_take(database_url: str) -> None:
    """Each of them may cost half of the budget, and costs a tenth: there is room for all, one after another."""
    async with shop_on(database_url) as shop:
        model = shop.mill.limit("model", budget=rm.limits.Budget(10, per="run"))

        @shop.jobs.handler(concurrency=6)
        async def ask(job: rm.Lease[Any]) -> None:
            async with model.call(cost=5) as call:
                await asyncio.sleep(0.02)
                call.cost(1)

        await shop.put(6)
        async with asyncio.timeout(30):
            await shop.mill.drain()
        rows = await shop.rows()
        assert {row.state for row in rows.values()} == {"done"}
        assert (await model.state()).spent == 6


async def test_a_drain_goes_on_at_the_rate_until_all_is_done(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(10, per=0.2))

        @shop.jobs.handler(limits=[eqc])
        async def look_up(job: rm.Lease[Any]) -> None: ...

        await shop.put(45)
        report = await shop.drain()

        assert (report.done, await shop.states()) == (45, {"done": 45})


async def test_a_drain_does_not_wait_for_a_provider_that_asked_us_to(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", concurrent=2)

        @shop.jobs.handler(limits=[eqc], concurrency=5)
        async def look_up(job: rm.Lease[Any]) -> None:
            raise rm.RateLimited(retry_after=0.7)

        await shop.put(40)
        await shop.drain()
        assert "done" not in await shop.states()


@pytest.mark.parametrize("threaded", [False, True])
async def test_a_call_inside_a_handler_gives_its_row_back_when_there_is_no_room(
    database_url: str, threaded: bool
) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(3, per=3600.0))
        called: list[int] = []

        async def on_the_loop(job: rm.Lease[Any]) -> None:
            async with eqc.call():
                called.append(job.key)

        def in_a_thread(job: rm.Lease[Any]) -> None:
            with eqc.call():
                called.append(job.key)

        shop.jobs.handler(concurrency=2)(in_a_thread if threaded else on_the_loop)
        await shop.put(5)
        async with shop.working() as working:
            await until(lambda: working.worker.report.held == 2)
        rows = await shop.rows()

        assert len(called) == 3
        assert sorted(row.state for row in rows.values()) == ["done"] * 3 + ["ready"] * 2
        assert {row.error for row in rows.values()} == {None, "limit_rate: eqc"}
        assert {row.attempts for row in rows.values() if row.error} == {0}
        assert [await shop.failures(key) for key in rows] == [[]] * 5


async def test_each_key_has_a_limit_of_its_own(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(2, per=3600.0))
        ran: list[str] = []

        @shop.jobs.handler(limits=[eqc.by("title")])
        async def look_up(job: rm.Lease[Any]) -> None:
            ran.append(job.row.title)

        for tenant in ("a", "b", "c"):
            await shop.put(4, title=tenant)
        async with shop.working() as working:
            await until(lambda: working.worker.report.held == 6)
        rows = await shop.rows()

        assert sorted(ran) == ["a", "a", "b", "b", "c", "c"]
        assert {row.error for row in rows.values() if row.error} == {f"limit_rate: eqc {key}" for key in "abc"}


async def test_a_key_that_can_t_be_told_is_a_failure_of_its_row_alone(database_url: str) -> None:
    async with shop_on(database_url, retry=rm.Retry(attempts=1)) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(50, per=1.0))

        @shop.jobs.handler(limits=[eqc.by(lambda job: 1 // (job.id - 2))])
        async def look_up(job: rm.Lease[Any]) -> None: ...

        await shop.put(3)
        await shop.drain()

        assert await shop.states() == {"done": 2, "dead": 1}
        assert await shop.failures(2) == [(1, "ZeroDivisionError")]


async def test_what_a_later_limit_refuses_is_given_back_to_the_earlier_one(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        first = shop.mill.limit("a", rate=rm.limits.Rate(10, per=3600.0))
        second = shop.mill.limit("b", rate=rm.limits.Rate(2, per=3600.0))
        ran: list[int] = []

        @shop.jobs.handler(limits=[second, first])
        async def look_up(job: rm.Lease[Any]) -> None:
            ran.append(job.key)

        await shop.put(6)
        async with shop.working() as working:
            await until(lambda: len(ran) == 2 and working.worker.report.held)
        await shop.mill.limits.closed()

        assert (await first.state()).calls == 2


async def test_slots_are_held_while_handlers_run_and_free_afterwards(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", concurrent=3)
        running, most, begun, go_on = 0, 0, asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(limits=[eqc], concurrency=8)
        async def look_up(job: rm.Lease[Any]) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            if running == 3:
                begun.set()
            await go_on.wait()
            running -= 1

        await shop.put(12)
        async with shop.working() as working:
            await soon(begun)
            assert (await eqc.state()).slots == 3
            go_on.set()
            await until(lambda: working.worker.report.done == 12)
        assert most == 3
        assert (await eqc.state()).slots == 0


async def test_a_batch_handler_gets_only_rows_with_room(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(7, per=3600.0))
        got: list[int] = []

        @shop.jobs.batch_handler(size=5, limits=[eqc])
        async def look_up(jobs: list[rm.Lease[Any]]) -> None:
            got.extend(job.key for job in jobs)

        await shop.put(20)
        async with shop.working():
            await until(lambda: len(got) == 7)
        assert len(got) == 7


async def test_permits_of_rows_that_a_stopping_worker_gives_back_are_not_spent(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(50, per=3600.0))
        begun = asyncio.Event()

        @shop.jobs.handler(limits=[eqc], concurrency=1)
        async def look_up(job: rm.Lease[Any]) -> None:
            if job.key == 30:
                begun.set()
                await asyncio.Event().wait()

        await shop.put(100)
        async with shop.working(grace=0.0):
            await soon(begun)
        await shop.mill.limits.closed()
        done = (await shop.states())["done"]

        assert done <= (await eqc.state()).calls <= done + 2, "those that ran, and the one that was cut off"
