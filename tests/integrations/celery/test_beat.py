"""The schedule for Celery's beat."""

from datetime import timedelta
from typing import Any

import pytest
from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import crontab

from rowmill.errors import BadRequest
from rowmill.integrations.celery import beat_schedule, call_task


async def nothing() -> None: ...


@pytest.mark.parametrize(
    ("when", "schedule", "expires"),
    [
        (10, 10, 10),
        (timedelta(minutes=5), 300.0, 300.0),
        ("0 * * * *", crontab(minute=0), 3600.0),
        ("0 3 * * *", crontab(hour=3, minute=0), 86400.0),
        ("0,1 0 * * *", crontab(minute="0,1", hour=0), 60.0),
        ("0 9-17 * * 1-5", crontab(minute=0, hour="9-17", day_of_week="1-5"), 3600.0),
    ],
)
def test_a_tick_expires_when_the_next_one_comes(app: Celery, when: Any, schedule: Any, expires: float) -> None:
    task = call_task(app, nothing)
    assert beat_schedule({task: when}) == {
        "nothing": {"task": "nothing", "schedule": schedule, "options": {"expires": expires}}
    }


def test_the_entries_are_those_of_beat_and_tasks_may_be_named(app: Celery) -> None:
    app.conf.beat_schedule = beat_schedule({"drain": 10, "prune": "0 3 * * *"})
    entries = [ScheduleEntry(**dict(entry, name=name, app=app)) for name, entry in app.conf.beat_schedule.items()]
    assert [entry.is_due().is_due for entry in entries] == [False, False]
    assert [entry.task for entry in entries] == ["drain", "prune"]


@pytest.mark.parametrize("when", [0, -1, timedelta(0), "every day", "* * * * * *", "0 0 31 2 *", ""])
def test_times_that_never_come_are_refused(when: Any) -> None:
    with pytest.raises(BadRequest, match="of drain"):
        beat_schedule({"drain": when})
