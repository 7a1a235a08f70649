"""Ticks run: once, in order, by whoever is there; late, failed and crashed ones as declared."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.schedules import admin
from rowmill.store import rescue
from rowmill.store.own.schedule_tables import QUEUE
from tests.schedules.plant import QUICK, Plant, plant_on


async def run_now(plant: Plant, name: str) -> int:
    schedule = plant.mill.find_schedule(name)
    return await plant.mill.run(lambda c: admin.run_now(c, schedule))


async def test_a_schedule_every_second_runs_in_a_worker(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        seen: list[rm.schedules.Tick] = []
        done = asyncio.Event()

        @plant.mill.every("beat", rm.seconds(1))
        async def beat(tick: rm.schedules.Tick) -> None:
            seen.append(tick)
            if len(seen) == 3:
                done.set()

        await plant.work_until(done)

        assert [tick.name for tick in seen] == ["beat"] * len(seen)
        assert len({tick.due_at for tick in seen}) == len(seen)
        assert all(tick.attempt == 1 and not tick.manual and tick.due_at.microsecond == 0 for tick in seen)
        finished = [tick for tick in await plant.ticks() if tick.state == "done"]
        assert len(finished) == len(seen)
        assert all(tick.started_at >= tick.due_at for tick in finished)


async def test_a_worker_that_seldom_looks_is_woken_when_a_tick_is_due(database_url: str) -> None:
    """Nothing comes in when a tick becomes due: nobody but its own alarm wakes the worker."""
    async with plant_on(database_url) as plant:
        begun: list[rm.schedules.Tick] = []
        done = asyncio.Event()

        @plant.mill.every("beat", rm.seconds(1), missed="skip")
        async def beat(tick: rm.schedules.Tick) -> None:
            begun.append(tick)
            if len(begun) == 4:
                done.set()

        seldom = rm.worker.WorkerSettings(poll_base=60.0, poll_max=60.0, heartbeat=5.0, grace=10.0)
        await plant.work_until(done, seldom)


async def test_sync_functions_run_in_threads(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        threads: list[str] = []

        @plant.mill.schedule("yearly", cron="0 0 1 1 *")
        def yearly(tick: rm.schedules.Tick) -> None:
            threads.append(threading.current_thread().name)

        await run_now(plant, "yearly")
        report = await plant.mill.drain(settings=QUICK)
        assert report.done == 1
        assert threads[0].startswith("rowmill-handler")


async def test_many_workers_run_each_tick_once(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        ran: list[int] = []
        done = asyncio.Event()

        async def beat(tick: rm.schedules.Tick) -> None:
            ran.append(int(tick.due_at.timestamp()))
            if len(ran) >= 20:
                done.set()

        plants = [plant, *(Plant(rm.Mill(database_url)) for _ in range(2))]
        for one in plants:
            one.mill.every("beat", rm.seconds(1), missed="all")(beat)
        await plant.keep()
        await plant.pass_time(20)
        await asyncio.gather(*(one.work_until(done) for one in plants))
        assert sorted(ran) == sorted(set(ran))


@pytest.mark.parametrize(("missed", "ran"), [("all", {3, 4}), ("last", {1}), ("skip", {0})])
async def test_ticks_that_nobody_began_in_time(database_url: str, missed: Any, ran: set[int]) -> None:
    async with plant_on(database_url) as plant:
        runs: list[rm.schedules.Tick] = []
        plant.mill.every("hourly", rm.hours(1), missed=missed)(runs.append)
        await plant.keep()
        await plant.pass_time(3.5 * 3600)
        [first] = await plant.ticks()
        await plant.mill.drain(settings=QUICK)

        now = await plant.now()
        late = [tick for tick in await plant.ticks() if tick.due_at.replace(tzinfo=now.tzinfo) <= now]
        assert len(runs) in ran
        assert {tick.state for tick in late} <= {"done", "cancelled"}
        if missed != "all":
            assert next(tick for tick in late if tick.id == first.id).state == "cancelled"


async def test_a_tick_waits_for_the_one_before_it(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        running, most = 0, 0

        @plant.mill.every("slow", rm.seconds(1), missed="all")
        async def slow(tick: rm.schedules.Tick) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.02)
            running -= 1

        await plant.keep()
        await plant.pass_time(10)
        report = await plant.mill.drain(settings=QUICK)
        assert report.done >= 10
        assert most == 1


async def test_ticks_may_overlap_where_they_are_allowed_to(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        both = asyncio.Barrier(2)

        @plant.mill.schedule("wide", cron="0 0 1 1 *", overlap=True)
        async def wide(tick: rm.schedules.Tick) -> None:
            async with asyncio.timeout(20):
                await both.wait()

        await run_now(plant, "wide")
        await run_now(plant, "wide")
        assert (await plant.mill.drain(settings=QUICK)).done == 2


async def test_a_failed_tick_is_tried_again_and_its_history_kept(database_url: str) -> None:
    async with plant_on(database_url) as plant:

        @plant.mill.schedule("flaky", cron="0 0 1 1 *", retry=rm.Retry(attempts=2, backoff=rm.fixed(0)))
        def flaky(tick: rm.schedules.Tick) -> None:
            if not tick.last_attempt:
                raise rm.TransientError("not now", code="busy")

        await run_now(plant, "flaky")
        assert (await plant.mill.drain(settings=QUICK)).done == 1
        [tick] = [tick for tick in await plant.ticks() if tick.manual]
        assert (tick.state, tick.attempts) == ("done", 2)
        failed = [fields for name, fields in plant.events if name == "settled" and fields.get("code") == "busy"]
        assert failed[0]["at"].startswith("test_running.py:")


async def test_each_schedule_has_its_own_attempts(database_url: str) -> None:
    async with plant_on(database_url) as plant:

        def fails(tick: rm.schedules.Tick) -> None:
            raise ValueError

        plant.mill.schedule("once", cron="0 0 1 1 *", retry=rm.Retry(attempts=1))(fails)
        plant.mill.schedule("thrice", cron="0 0 1 1 *", retry=rm.Retry(attempts=3, backoff=rm.fixed(0)))(fails)
        await run_now(plant, "once")
        await run_now(plant, "thrice")
        await plant.mill.drain(settings=QUICK)
        found = {tick.schedule: (tick.state, tick.attempts) for tick in await plant.ticks() if tick.manual}
        assert found == {"once": ("dead", 1), "thrice": ("dead", 3)}


async def test_a_tick_whose_worker_died_at_its_last_attempt_is_not_run_again(database_url: str) -> None:
    """Another schedule may be tried more often: the engine gives this one back all the same."""
    async with plant_on(database_url) as plant:
        ran: list[str] = []
        plant.mill.schedule("once", cron="0 0 1 1 *", retry=rm.Retry(attempts=1))(lambda tick: ran.append(tick.name))
        plant.mill.schedule("often", cron="0 0 1 1 *", retry=rm.Retry(attempts=5))(lambda tick: None)
        key = await run_now(plant, "once")
        queue = plant.mill[QUEUE]
        async with plant.mill.worker(settings=QUICK):
            await plant.mill.store.claim(queue, queue.steps[0], 1)
        await plant.pass_time(100)
        await plant.mill.drain(settings=QUICK)
        tick = next(tick for tick in await plant.ticks() if tick.id == key)
        assert (tick.state, ran) == ("dead", [])
        assert tick.error.startswith("lease_expired_max_attempts")


async def test_a_time_out_is_that_of_the_schedule(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        never = threading.Event()

        @plant.mill.schedule("stuck", cron="0 0 1 1 *", timeout=0.05, retry=rm.Retry(attempts=1))
        async def stuck(tick: rm.schedules.Tick) -> None:
            await asyncio.Event().wait()

        @plant.mill.schedule("blocked", cron="0 0 1 1 *", timeout=0.05, retry=rm.Retry(attempts=1))
        def blocked(tick: rm.schedules.Tick) -> None:
            never.wait(20)

        await run_now(plant, "stuck")
        await run_now(plant, "blocked")
        draining = asyncio.create_task(plant.mill.drain(settings=QUICK))
        async with asyncio.timeout(20):
            while len([fields for name, fields in plant.events if fields.get("code") == "timeout"]) < 2:
                await asyncio.sleep(0.01)
        never.set()
        await draining


async def test_a_late_tick_that_was_begun_is_finished(database_url: str) -> None:
    """Its worker died: it is not passed over because a later one is due by now."""
    async with plant_on(database_url) as plant:
        runs: list[tuple[Any, int]] = []
        plant.mill.every("beat", rm.seconds(1), missed="skip")(lambda tick: runs.append((tick.due_at, tick.attempt)))
        await plant.keep()
        await plant.pass_time(2)
        queue = plant.mill[QUEUE]
        async with plant.mill.worker(settings=QUICK):
            [lease] = await plant.mill.store.claim(queue, queue.steps[0], 1)
        await plant.pass_time(100)
        await plant.mill.drain(settings=QUICK)
        begun = next(tick for tick in await plant.ticks() if tick.id == lease.key)
        assert (begun.state, begun.attempts) == ("done", 2)
        assert runs[0][1] == 2


async def test_ticks_of_another_application_are_left_to_it(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        other = rm.Mill(database_url)
        ran: list[str] = []
        plant.mill.schedule("ours", cron="0 0 1 1 *")(lambda tick: ran.append(tick.name))
        other.schedule("theirs", cron="0 0 1 1 *")(lambda tick: ran.append(tick.name))
        async with other.opened():
            await other.run(lambda c: admin.run_now(c, other.find_schedule("theirs")))
            await run_now(plant, "ours")
            assert (await plant.mill.drain(settings=QUICK)).done == 1
            assert ran == ["ours"]

            tick = plant.own.tick
            lost = sa.update(tick).where(tick.c.schedule == "theirs", tick.c.manual)
            await plant.mill.run(lambda c: c.execute(lost.values(state="running", leased_until=sa.null())).close())
            await rescued(plant)
            assert [one.leased_until for one in await plant.ticks("theirs") if one.manual] == [None]


async def rescued(plant: Plant) -> rescue.Rescued:
    queue = plant.mill[QUEUE]
    sweep = partial(rescue.rescue, sql=plant.mill.store.sql(queue), step=queue.steps[0], most=10)
    return await plant.mill.store.run(sweep)


async def test_a_function_writes_and_ends_its_tick_in_one_transaction(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        effect = sa.Table("effect", sa.MetaData(), sa.Column("due", sa.Text))
        await plant.mill.run(effect.create)

        @plant.mill.schedule("writes", cron="0 0 1 1 *")
        async def writes(tick: rm.schedules.Tick) -> None:
            async with tick.settling() as tx:
                await tx.execute(sa.insert(effect).values(due=str(tick.due_at)))

        await run_now(plant, "writes")
        assert (await plant.mill.drain(settings=QUICK)).dead == 0
        written = await plant.mill.run(lambda c: c.execute(sa.select(effect)).all())
        assert len(written) == 1
        assert [tick.state for tick in await plant.ticks() if tick.manual] == ["done"]


@pytest.mark.parametrize("answer", [{"schedule": "x"}, {"due_at": None}, 17])
async def test_an_answer_that_is_none_is_refused(database_url: str, answer: Any) -> None:
    async with plant_on(database_url) as plant:
        call: Callable[[rm.schedules.Tick], Any] = lambda tick: answer  # noqa: E731
        plant.mill.schedule("odd", cron="0 0 1 1 *")(call)
        await run_now(plant, "odd")
        assert (await plant.mill.drain(settings=QUICK)).dead == 1


async def test_without_schedules_there_is_no_queue_of_ticks(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        assert QUEUE not in plant.mill.queues


async def test_a_mill_takes_its_schedules_along_to_another_database(database_url: str, tmp_path: Any) -> None:
    mill = rm.Mill("sqlite:///nowhere.db")
    mill.schedule("yearly", cron="0 0 1 1 *")(lambda tick: None)
    mill.move_to(database_url)
    async with mill.opened():
        await mill.migrate()
        assert (await mill.drain(settings=QUICK)).dead == 0
        assert len(await Plant(mill).ticks()) == 1


async def test_no_schedule_waits_for_the_runs_of_another_that_may_overlap(database_url: str) -> None:
    """Its runs take long, and more of them are due than have room: the others run on."""
    async with plant_on(database_url) as plant:
        began, many, done, release = 0, asyncio.Event(), asyncio.Event(), asyncio.Event()
        beats: list[rm.schedules.Tick] = []

        @plant.mill.schedule("long", cron="0 0 1 1 *", overlap=True)
        async def long(tick: rm.schedules.Tick) -> None:
            nonlocal began
            began += 1
            if began == 4:
                many.set()
            await release.wait()

        @plant.mill.every("beat", rm.seconds(1))
        async def beat(tick: rm.schedules.Tick) -> None:
            if many.is_set():
                beats.append(tick)
            if len(beats) == 3:
                done.set()
                release.set()

        for _ in range(30):
            await run_now(plant, "long")
        try:
            await plant.work_until(done)
        finally:
            release.set()
        assert len(beats) >= 3


async def test_no_schedule_waits_for_threads_of_another_that_do_not_end(database_url: str) -> None:
    """Each try of a function that hangs leaves a thread behind when its time is over."""
    async with plant_on(database_url) as plant:
        tries, hung, done, release = 0, asyncio.Event(), asyncio.Event(), threading.Event()
        loop, beats = asyncio.get_running_loop(), list[rm.schedules.Tick]()

        @plant.mill.schedule("hangs", cron="0 0 1 1 *", timeout=0.05, retry=rm.Retry(attempts=20, backoff=rm.fixed(0)))
        def hangs(tick: rm.schedules.Tick) -> None:
            nonlocal tries
            tries += 1
            if tries == 4:
                loop.call_soon_threadsafe(hung.set)
            release.wait(30)

        @plant.mill.every("beat", rm.seconds(1))
        async def beat(tick: rm.schedules.Tick) -> None:
            if hung.is_set():
                beats.append(tick)
            if len(beats) == 3:
                done.set()
                release.set()

        await run_now(plant, "hangs")
        try:
            await plant.work_until(done)
        finally:
            release.set()
        assert len(beats) >= 3
