"""Entries for the schedule of Celery's beat."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from celery.schedules import crontab

from rowmill.model.duration import in_seconds
from rowmill.model.errors import BadRequest
from rowmill.model.schedule import BadTiming, Cron, Every

Times = float | timedelta | str
TICKS = 50
"""Times of a cron expression that are looked at for the shortest wait between two."""


def beat_schedule(times: Mapping[Any, Times]) -> dict[str, dict[str, Any]]:
    """Return a schedule for `app.conf.beat_schedule`: tasks, or their names, and when they run.

    A number is seconds, a text a cron expression in the time zone of `app.conf.timezone`. A tick that no worker took by
    the time of the next one expires: ticks do not pile up while no worker runs.
    """
    return {entry["task"]: entry for entry in (_entry(task, when) for task, when in times.items())}


def _entry(task: Any, when: Times) -> dict[str, Any]:
    name = task if isinstance(task, str) else task.name
    try:
        if isinstance(when, str):
            schedule, period = _cron(when)
        else:
            schedule = period = in_seconds(when)
            Every(period).check()
    except BadTiming as error:
        raise BadRequest(f"beat_schedule() of {name}: {error}") from None
    return {"task": name, "schedule": schedule, "options": {"expires": period}}


def _cron(expression: str) -> tuple[Any, float]:
    """Return the schedule of an expression, and the shortest wait in seconds between two of its times."""
    if len(expression.split()) != 5:
        raise BadTiming(f"{expression!r} is no cron expression of five fields, as Celery reads them")
    cron = Cron(expression)
    cron.check()
    found = [datetime.now(UTC)]
    while len(found) < TICKS and (following := cron.following(found[-1])) is not None:
        found.append(following)
    # The first is the moment of this call, and no time of the expression.
    waits = [(later - earlier).total_seconds() for earlier, later in pairwise(found[1:])]
    return crontab.from_string(expression), min(waits)
