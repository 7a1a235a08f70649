"""Limits beside the other shapes of a queue: order per key, batches, prefetch, restarts, another process."""

import asyncio
from typing import Any

import rowmill as rm
from tests.work.shop import shop_on, soon, until


async def test_rows_that_wait_for_a_limit_keep_their_order(database_url: str) -> None:
    async with shop_on(database_url, order_per_key=rm.OrderPerKey(per="title")) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(3, per=0.5))
        ran: list[tuple[str, int]] = []

        @shop.jobs.handler(limits=[eqc.by("title")], concurrency=4)
        async def look_up(job: rm.Lease[Any]) -> None:
            ran.append((job.row.title, job.key))

        for _ in range(8):
            for customer in "ab":
                await shop.put(1, title=customer)
        report = await shop.drain()

        assert report.held, "the limit was felt"
        for customer in "ab":
            keys = [key for title, key in ran if title == customer]
            assert keys == sorted(keys)
            assert len(keys) == 8
        assert {row.attempts for row in (await shop.rows()).values()} == {1}


async def test_a_head_that_waits_for_a_limit_holds_back_its_own_key_alone(database_url: str) -> None:
    async with shop_on(database_url, order_per_key=rm.OrderPerKey(per="title")) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(1, per=3600.0))
        ran: list[int] = []

        @shop.jobs.handler(limits=[eqc.by("title")], concurrency=4)
        async def look_up(job: rm.Lease[Any]) -> None:
            ran.append(job.key)

        await shop.put(3, title="a")
        await shop.put(1, title="b")
        async with shop.working() as working:
            await until(lambda: set(ran) == {1, 4} and working.worker.report.held)
        rows = await shop.rows()
        assert [rows[key].state for key in (1, 2, 3, 4)] == ["done", "ready", "ready", "done"]
        assert (rows[2].error, rows[3].error) == ("limit_rate: eqc a", None), "the one behind it was not touched"


async def test_rows_that_lie_ready_hold_no_slots_of_a_limit(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", concurrent=50, budget=rm.limits.Budget(1000))
        begun, go_on = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(limits=[eqc], concurrency=2)
        async def look_up(job: rm.Lease[Any]) -> None:
            if job.key == 40:
                begun.set()
                await go_on.wait()

        await shop.put(200)
        async with shop.working():
            await soon(begun)
            async with asyncio.timeout(10):  # the other slot takes the rest
                while (await shop.states()).get("done", 0) < 199:
                    await asyncio.sleep(0.005)
            state = await eqc.state()
            go_on.set()
        assert (state.slots, state.reserved, state.spent) == (1, 1, 199)


async def test_a_batch_gives_back_what_its_rows_held(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", concurrent=6, budget=rm.limits.Budget(1000))
        sizes: list[int] = []

        @shop.jobs.batch_handler(size=10, limits=[eqc])
        async def look_up(jobs: list[rm.Lease[Any]]) -> dict[int, Any]:
            sizes.append(len(jobs))
            # What the batch before held may be given back a moment later.
            assert len(jobs) <= (await eqc.state()).slots <= 6
            return {job.key: rm.Dead("no_match") if job.key % 5 == 0 else None for job in jobs}

        await shop.put(30)
        await shop.drain()
        assert max(sizes) <= 6
        assert await shop.states() == {"done": 24, "dead": 6}
        assert ((await eqc.state()).slots, (await eqc.state()).spent) == (0, 30)


async def test_rows_of_a_batch_that_failed_need_room_to_run_again(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(6, per=3600.0))
        calls: list[int] = []

        @shop.jobs.batch_handler(size=4, limits=[eqc])
        async def look_up(jobs: list[rm.Lease[Any]]) -> None:
            calls.extend(job.key for job in jobs)
            if len(jobs) > 1:
                raise ValueError("one of them")

        await shop.put(4)
        async with shop.working() as working:
            await until(lambda: working.worker.report.held == 2)
        assert sorted(calls) == [1, 1, 2, 2, 3, 4]
        assert await shop.states() == {"done": 2, "ready": 2}
        assert [await shop.failures(key) for key in (1, 2, 3, 4)] == [[]] * 4


async def test_a_restart_forgets_nothing(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", rate=rm.limits.Rate(3, per=3600.0), budget=rm.limits.Budget(100))
        for _ in range(2):
            async with eqc.call(cost=10):
                pass
    async with shop_on(database_url, fresh=False) as again:
        eqc = again.mill.limit("eqc", rate=rm.limits.Rate(3, per=3600.0), budget=rm.limits.Budget(100))
        async with eqc.call(cost=10):
            pass
        state = await eqc.state()
    assert (state.calls, state.spent, state.available) == (3, 30, False)


async def test_a_worker_that_is_refused_works_on_another_queue(database_url: str) -> None:
    """A row that waits holds no slot: with one slot, the rows of other keys go on."""
    async with shop_on(database_url) as shop:
        eqc = shop.mill.limit("eqc", concurrent=5)
        await eqc.park(3600.0, "parked")
        ran: list[int] = []

        @shop.jobs.handler(limits=[eqc.by("title")], concurrency=1)
        async def look_up(job: rm.Lease[Any]) -> None:
            ran.append(job.key)

        await shop.put(20, title="parked")
        await shop.put(5, title="free")
        async with shop.working() as working:
            await until(lambda: len(ran) == 5 and working.worker.report.held == 20)
        waiting = [row for row in (await shop.rows()).values() if row.state == "ready"]
        assert len(waiting) == 20
        assert {(row.attempts, row.error, row.lease) for row in waiting} == {(0, "limit_parked: eqc parked", None)}
        assert all(row.available_at is not None for row in waiting)
