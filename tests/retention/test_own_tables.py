"""Rowmill's own tables do not grow for ever."""

from datetime import timedelta

import sqlalchemy as sa

import rowmill as rm
from rowmill.maintenance import cleanup
from rowmill.schedules import ticks
from rowmill.worker.settings import OwnTableRetention
from tests.schedules.plant import Plant, hourly, plant_on


async def old_ticks(plant: Plant, *states: str) -> None:
    now = await plant.now()

    def work(connection: sa.Connection) -> None:
        for n, state in enumerate(states):
            at = now - days(8) + days(n / 1000)
            connection.execute(
                sa.insert(plant.own.tick).values(
                    schedule="gone", due_at=at, available_at=at, manual=False, state=state, finished_at=at
                )
            )

    await plant.mill.run(work)


def days(n: float) -> timedelta:
    return timedelta(seconds=rm.days(n))


async def test_finished_ticks_go_in_batches_and_others_stay(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        await old_ticks(plant, "done", "dead", "cancelled", "done", "ready", "running")
        assert await plant.mill.run(lambda c: cleanup.tidy_ticks(c, rm.days(9))) == 0
        assert await plant.mill.run(lambda c: cleanup.tidy_ticks(c, rm.days(7), most=3)) == 3
        assert await plant.mill.run(lambda c: cleanup.tidy_ticks(c, rm.days(7), most=3)) == 1
        assert [tick.state for tick in await plant.ticks()] == ["ready", "running"]


async def test_a_schedule_that_nobody_has_is_forgotten_in_time(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        await plant.keep(hourly("gone"), hourly("there"))
        await plant.pass_time(rm.days(8))
        await plant.keep(hourly("there"))
        await plant.mill.run(lambda c: cleanup.tidy_ticks(c, rm.days(7)))
        own = plant.own.schedule
        names = await plant.mill.run(lambda c: c.scalars(sa.select(own.c.name)).all())
        assert names == ["there"]
        assert await plant.ticks("gone") == []


async def test_each_table_has_its_own_time(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        now = await plant.now()
        put = sa.insert(plant.own.throughput).values(
            queue="q", stage="s", minute=now - days(3), move="done", rows=1, seconds=1.0
        )
        await plant.mill.run(lambda c: c.execute(put).close())
        ages = OwnTableRetention(throughput=rm.days(5))
        assert await plant.mill.run(lambda c: cleanup.tidy(c, 0.0, ages=ages)) == 0
        assert await plant.mill.run(lambda c: cleanup.tidy(c, rm.days(30), ages=OwnTableRetention(rm.days(1)))) == 1


def test_ticks_are_made_for_longer_than_a_fleet_is_without_a_leader() -> None:
    assert rm.worker.WorkerSettings().heartbeat * 5 < ticks.AHEAD
