"""Ticks are made ahead, once, as the declaration that counts has it."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.model.schedule import Every, Schedule
from rowmill.schedules import admin, ticks
from tests.schedules.plant import Plant, hourly, plant_on

SECOND = Schedule("second", Every(1.0), lambda tick: None)


async def test_ticks_are_made_ahead_and_are_ready_when_due(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        kept = await plant.keep(SECOND, hourly())

        made = await plant.ticks("second")
        assert len(made) == int(ticks.AHEAD)
        assert all(tick.available_at == tick.due_at and tick.state == "ready" for tick in made)
        assert [tick.lane for tick in await plant.ticks("hourly")] == ["hourly"]
        assert len(kept.due) >= 4


async def test_a_second_pass_makes_nothing_twice(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        await plant.keep(SECOND)
        first = await plant.ticks()
        await plant.keep(SECOND)
        assert await plant.ticks() == first


async def test_the_next_ticks_follow_before_the_last_ones_are_used_up(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        await plant.keep(SECOND)
        await plant.pass_time(ticks.AHEAD / 2 + 1)
        await plant.keep(SECOND)
        due = [tick.due_at for tick in await plant.ticks()]
        assert len(due) >= ticks.AHEAD + ticks.AHEAD / 2
        assert due == sorted(set(due))


async def test_many_that_make_ticks_at_once_make_each_once(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        await asyncio.gather(*(plant.keep(SECOND, hourly(), starting=True) for _ in range(8)))
        due = [tick.due_at for tick in await plant.ticks("second")]
        assert len(due) == len(set(due)) == int(ticks.AHEAD)
        assert len(await plant.ticks("hourly")) == 1


@pytest.mark.parametrize(("missed", "late"), [("all", 5), ("last", 2), ("skip", 1)])
async def test_after_a_time_without_workers(database_url: str, missed: Any, late: int) -> None:
    """One tick had been made; those that were not yet are made as the policy says."""
    schedule = hourly(missed=missed)
    async with plant_on(database_url) as plant:
        await plant.keep(schedule)
        await plant.pass_time(5 * 3600)
        await plant.keep(schedule)
        now = await plant.now()
        due = [tick.due_at.replace(tzinfo=now.tzinfo) for tick in await plant.ticks()]
        assert len([at for at in due if at <= now]) == late
        assert len([at for at in due if at > now]) == 1


async def test_another_expression_takes_the_place_of_the_coming_ticks(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        await plant.keep(hourly())
        kept = await plant.keep(hourly(cron="30 2 * * *"), starting=True)

        assert [schedule.name for schedule in kept.changed] == ["hourly"]
        [tick] = await plant.ticks()
        assert (tick.due_at.hour, tick.due_at.minute) == (2, 30)
        assert (await plant.row("hourly")).expression == "30 2 * * *"


async def test_two_versions_side_by_side_do_not_take_turns(database_url: str) -> None:
    """The one that started last counts; the other leaves it alone for as long as somebody keeps it."""
    old, new = hourly(), hourly(cron="30 2 * * *")
    async with plant_on(database_url) as plant:
        await plant.keep(old, starting=True)
        await plant.keep(new, starting=True)
        for _ in range(3):
            kept = await plant.keep(old)
            assert [schedule.name for schedule in kept.overruled] == ["hourly"]
            assert not kept.changed
            assert not (await plant.keep(new)).overruled
        assert [tick.due_at.minute for tick in await plant.ticks()] == [30]


async def test_the_other_version_takes_over_when_nobody_keeps_the_first(database_url: str) -> None:
    old, new = hourly(), hourly(cron="30 2 * * *")
    async with plant_on(database_url) as plant:
        await plant.keep(new)
        await plant.keep(old, starting=True)
        await plant.pass_time(31)
        kept = await plant.keep(new)
        assert [schedule.name for schedule in kept.changed] == ["hourly"]
        assert [tick.due_at.minute for tick in await plant.ticks()] == [30]


async def test_a_begun_tick_survives_a_change_of_its_schedule(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        await plant.keep(hourly())
        tick = plant.own.tick
        await plant.mill.run(lambda c: c.execute(sa.update(tick).values(state="running", attempts=1)).close())
        await plant.keep(hourly(cron="30 2 * * *"), starting=True)
        assert [(one.state, one.due_at.minute) for one in await plant.ticks()].count(("running", 0)) == 1


async def test_the_coming_ticks_of_a_schedule_that_nobody_has_go(database_url: str) -> None:
    async with plant_on(database_url) as plant:
        await plant.keep(hourly("gone"), hourly("there"))
        await plant.pass_time(ticks.UNDECLARED_SECONDS + 1)
        await plant.keep(hourly("there"))
        # Whatever the time of day is: both are to come.
        await plant.mill.run(lambda c: push_ahead(plant, c))

        assert await plant.mill.run(ticks.delete_undeclared) == 1
        assert {tick.schedule for tick in await plant.ticks()} == {"there"}

        await plant.keep(hourly("gone"))
        assert len(await plant.ticks("gone")) == 1


def push_ahead(plant: Plant, connection: sa.Connection) -> None:
    day = timedelta(days=1)
    for table, columns in ((plant.own.tick, ("due_at", "available_at")), (plant.own.schedule, ("made_to",))):
        key = next(iter(table.primary_key.columns))
        for row in connection.execute(sa.select(table)).all():
            moved = {name: getattr(row, name) + day for name in columns}
            connection.execute(sa.update(table).where(key == getattr(row, key.name)).values(moved))


async def test_a_paused_schedule_makes_no_ticks_and_goes_on_from_when_it_is_resumed(database_url: str) -> None:
    schedule = hourly(missed="all")
    async with plant_on(database_url) as plant:
        await plant.keep(schedule)
        assert await plant.mill.run(lambda c: admin.pause(c, schedule))
        assert not await plant.mill.run(lambda c: admin.pause(c, schedule))
        await plant.pass_time(3 * 3600)
        await plant.keep(schedule, starting=True)
        assert await plant.ticks() == []

        assert await plant.mill.run(lambda c: admin.resume(c, schedule))
        assert not await plant.mill.run(lambda c: admin.resume(c, schedule))
        await plant.keep(schedule)
        now = await plant.now()
        assert [tick.due_at.replace(tzinfo=now.tzinfo) > now for tick in await plant.ticks()] == [True]


@pytest.mark.parametrize(
    ("declare", "fix"),
    [
        (lambda mill: mill.schedule("x", cron="0 25 * * *"), "not a cron expression"),
        (lambda mill: mill.schedule("x", cron="0 3 * * *", tz="Mars/Olympus"), "not a time zone"),
        (lambda mill: mill.every("x", 0), "out of range"),
        (lambda mill: mill.every("x", 10, missed="some"), '"all", "last" or "skip"'),
        (lambda mill: mill.every("", 10), "its name must be"),
        (lambda mill: mill.every("x", 10, retry=rm.Retry(attempts=0)), "must be 1 or more"),
        (lambda mill: mill.every("x", 10, timeout=0), "must be positive"),
    ],
)
def test_a_wrong_declaration_is_refused_where_it_stands(declare: Any, fix: str) -> None:
    with pytest.raises(rm.errors.DeclarationError, match=fix) as caught:
        declare(rm.Mill("sqlite:///nowhere.db"))
    assert str(caught.value).startswith("schedule ")


def test_two_functions_under_one_name_are_refused() -> None:
    mill = rm.Mill("sqlite:///nowhere.db")

    def one(tick: rm.schedules.Tick) -> None: ...

    def other(tick: rm.schedules.Tick) -> None: ...

    mill.every("x", 10)(one)
    mill.every("x", 20)(one)
    with pytest.raises(rm.errors.DeclarationError, match="has a schedule of that name already"):
        mill.every("x", 10)(other)
