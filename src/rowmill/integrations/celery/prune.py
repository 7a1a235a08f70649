"""A task that deletes old rows."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from celery import Celery

from rowmill.integrations.celery.call import register
from rowmill.integrations.celery.loop_thread import Lifespan
from rowmill.integrations.celery.run import StopRequest
from rowmill.integrations.counts import Counts
from rowmill.integrations.mills import MillSource, as_names, find_mill
from rowmill.maintenance import cleanup
from rowmill.maintenance.retention import sweep
from rowmill.mill import Mill
from rowmill.model.errors import DeclarationError
from rowmill.store.own import schema


def prune_task(
    app: Celery,
    mill: MillSource,
    *,
    queue: str | Sequence[str] | None = None,
    name: str | None = None,
    lifespan: Lifespan | None = None,
    **options: Any,
) -> Any:
    """Return a task that deletes finished rows that their queues keep no longer (all queues with a retention, by
    default), and old rows of Rowmill's own tables. Its result is a dict of counts.

    Workers do this by themselves. You need it where queues are worked off by short drains alone. The other arguments
    are those of `call_task`.
    """
    names = as_names(queue)

    async def work(stop: StopRequest) -> Counts:
        return await prune_mill(find_mill(mill), names)

    return register(app, name or "prune", work, lifespan=lifespan, overlap=False, options=options)


async def prune_mill(mill: Mill, names: Sequence[str] | None = None) -> Counts:
    """Delete what is kept no longer. Return how many rows, by queue and final state."""
    queues = list(mill.queues.values()) if names is None else [mill[name] for name in names]
    for queue in queues:
        if names is not None and not queue.retention.ages():
            raise DeclarationError(queue.name, ["it keeps its rows for ever. Declare retention=rm.Retention(...)"])
    counts: Counts = {}
    async with mill.opened():
        await mill.run(schema.check_version, write=False)
        for queue in queues:
            for kind, deleted in (await sweep(mill.store, queue, mill.events)).items():
                counts[f"{queue.name}.{kind}"] = deleted.rows
        return counts | {"own_tables": await tidy(mill)}


async def tidy(mill: Mill) -> int:
    """Delete old rows of Rowmill's own tables, as the leader among workers does. Return how many."""
    settings, deleted = mill.settings, 0
    await mill.store.run(cleanup.roll_up)
    for tidied in (
        partial(cleanup.tidy, keep=settings.keep_history, ages=settings.ages),
        partial(cleanup.tidy_ticks, keep=settings.keep_ticks),
    ):
        more = True
        while more:
            some = await mill.store.run(tidied)
            deleted, more = deleted + some, some >= cleanup.TIDY_MOST
    return deleted
