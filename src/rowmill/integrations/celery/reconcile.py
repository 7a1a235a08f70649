"""A task that compares inventories."""

from typing import Any

from celery import Celery

from rowmill.integrations.celery.call import SKIPPED, register
from rowmill.integrations.celery.loop_thread import Lifespan
from rowmill.integrations.celery.run import StopRequest
from rowmill.integrations.counts import Counts, counts_of_run
from rowmill.integrations.mills import MillSource, find_mill
from rowmill.model.errors import DeclarationError, ReconciliationBusy
from rowmill.model.option_names import listed


def reconcile_task(
    app: Celery,
    mill: MillSource,
    reconciliation: str,
    *,
    execute: bool = True,
    name: str | None = None,
    lifespan: Lifespan | None = None,
    **options: Any,
) -> Any:
    """Return a task that runs a reconciliation of the mill, by its name. Its result is a dict of counts.

    Without `execute`, it writes nothing. While any process in the fleet runs the reconciliation, the task is skipped.
    The other arguments are those of `call_task`.
    """

    async def work(stop: StopRequest) -> Counts:
        declared = find_mill(mill).reconciliations
        if reconciliation not in declared:
            known = listed(declared, reconciliation)
            raise DeclarationError(
                reconciliation, [f"this mill has none of that name. It has: {known}"], "reconciliation"
            )
        try:
            return counts_of_run(await declared[reconciliation].run(execute=execute))
        except ReconciliationBusy:
            return SKIPPED

    named = name or f"reconcile_{reconciliation}"
    return register(app, named, work, lifespan=lifespan, overlap=False, options=options)
