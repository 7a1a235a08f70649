"""A task that drains queues."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from celery import Celery

from rowmill.integrations.celery.call import register
from rowmill.integrations.celery.loop_thread import Lifespan
from rowmill.integrations.celery.run import StopRequest
from rowmill.integrations.counts import Counts, counts_of
from rowmill.integrations.mills import MillSource, as_names, chosen_queues, find_mill
from rowmill.mill import Mill
from rowmill.model.duration import Duration
from rowmill.operator.counts import has_work
from rowmill.store.own import schema
from rowmill.worker.report import Report
from rowmill.worker.settings import WorkerSettings
from rowmill.worker.worker import CANCEL_SECONDS, FLUSH_SECONDS

USUAL_SECONDS = 60.0


def drain_task(
    app: Celery,
    mill: MillSource,
    *,
    queue: str | Sequence[str] | None = None,
    rows: int | None = None,
    seconds: Duration | None = USUAL_SECONDS,
    name: str | None = None,
    settings: WorkerSettings | None = None,
    lifespan: Lifespan | None = None,
    overlap: bool = False,
    **options: Any,
) -> Any:
    """Return a task that runs the handlers of queues (all that have some, by default) until nothing is ready. It claims
    at most `rows` rows, and none after `seconds`. Its result is a dict of counts.

    `mill` is a Mill, its place as `module:name`, or a function that returns one. When the worker shuts down, or at a
    soft time limit, handlers that run have the grace period of the `settings`, and other rows go back. The other
    arguments are those of `call_task`.
    """
    names = as_names(queue)

    async def work(stop: StopRequest) -> Counts:
        found = find_mill(mill)
        async with found.opened():
            if not await found.run(schema.checked(lambda c: any_work(c, found, names)), write=False):
                return counts_of(Report())
            report = await found.drain(
                names, rows=rows, seconds=seconds, settings=settings, begun=lambda worker: stop.then(worker.stop)
            )
            return counts_of(report)

    def patience() -> float:
        grace = (settings or find_mill(mill).settings).grace
        # A cancelled handler, a claim on its way, and a database that takes its time over the last results.
        return grace + 2 * CANCEL_SECONDS + FLUSH_SECONDS

    return register(
        app,
        name or "_".join(["drain", *(names or ())]),
        work,
        lifespan=lifespan,
        overlap=overlap,
        options=options,
        stops=True,
        patience=patience,
    )


def any_work(connection: sa.Connection, mill: Mill, names: Sequence[str] | None) -> bool:
    """Return whether a worker would find something in these queues. An idle tick costs this question, and registers no
    worker in the fleet."""
    return any(has_work(connection, mill.store.sql(queue)) for queue in chosen_queues(mill, names))
