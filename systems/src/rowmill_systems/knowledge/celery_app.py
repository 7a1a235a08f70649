"""Knowledge in Celery: its events, comparisons and clean-ups as tasks, and the schedule of beat.

    celery -A rowmill_systems.knowledge.celery_app worker --beat

It needs `rowmill[celery]`. CELERY_BROKER_URL and, if results are to be kept, CELERY_RESULT_BACKEND are read from the
environment, as the settings of knowledge are.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import cache

from celery import Celery

import rowmill as rm
from rowmill.integrations.celery import beat_schedule, call_task, drain_task
from rowmill.integrations.celery.prune import prune_mill
from rowmill.integrations.counts import Counts, counts_of_run, numbers_in
from rowmill_systems.knowledge.cleanup import cleanup
from rowmill_systems.knowledge.consistency import check_on_schedule
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.schedules import CLEANUP, RECONCILE
from rowmill_systems.knowledge.settings import KnowledgeSettings

DISPATCH = "process_outbox_events"


def make_app(settings: KnowledgeSettings, system: Callable[[], Knowledge]) -> Celery:
    """Return an application of Celery with the tasks of a system, which the first task asks for, and with the schedule
    of beat. All times are UTC."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[None]:
        async with system().opened():
            yield

    @asynccontextmanager
    async def opened_with_stores() -> AsyncIterator[None]:
        await system().open_stores()
        async with opened():
            yield

    def mill() -> rm.Mill:
        return system().mill

    async def reconcile() -> Counts:
        report = await check_on_schedule(system())
        return {"skipped": 1} if report is None else counts_of_run(report.run)

    async def clean_up() -> Counts:
        return numbers_in(asdict(await cleanup(system()))) | await prune_mill(mill())

    broker, backend = os.environ.get("CELERY_BROKER_URL"), os.environ.get("CELERY_RESULT_BACKEND")
    app = Celery("knowledge", broker=broker, backend=backend)
    app.conf.timezone = "UTC"
    # Without a bound: a document may take a quarter of an hour, and others are claimed beside it all the time.
    dispatch = drain_task(app, mill, name=DISPATCH, seconds=None, lifespan=opened_with_stores)
    compare = call_task(app, reconcile, name=RECONCILE, lifespan=opened)
    delete = call_task(app, clean_up, name=CLEANUP, lifespan=opened)
    app.conf.beat_schedule = beat_schedule(
        {dispatch: settings.dispatch_seconds, compare: settings.reconcile_cron, delete: settings.cleanup_cron}
    )
    return app


@cache
def system_of_environment() -> Knowledge:
    """Return the system of this process, without schedules of its own: beat has them."""
    return Knowledge(KnowledgeSettings(schedules=False))


app = make_app(KnowledgeSettings(), system_of_environment)
