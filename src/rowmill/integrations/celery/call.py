"""A task that runs a coroutine function."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from celery import Celery

from rowmill.integrations.celery.loop_thread import Lifespan
from rowmill.integrations.celery.run import StopRequest, Work, run
from rowmill.integrations.celery.siblings import siblings
from rowmill.integrations.counts import Counts, numbers_in
from rowmill.model.errors import DatabaseUnreachable

log = logging.getLogger("rowmill")
SKIPPED: Counts = {"skipped": 1}
"""What a task returns that had nothing to do because another does it."""


def call_task(
    app: Celery,
    function: Callable[[], Coroutine[Any, Any, object]],
    *,
    name: str | None = None,
    lifespan: Lifespan | None = None,
    overlap: bool = False,
    **options: Any,
) -> Any:
    """Return a task that calls an async function of yours, in the event loop that all of Rowmill's tasks of a process
    share. The numbers in what it returns, a mapping or a dataclass, are the result of the task.

    `lifespan` returns a context that is entered with the first task of a process, and left when the process ends. While
    the task runs in a process of this worker, another call of it is skipped, unless they may `overlap`. `options` are
    those of Celery's tasks.
    """

    async def work(stop: StopRequest) -> Counts:
        return numbers_in(await function())

    named = name or str(getattr(function, "__name__", type(function).__name__))
    return register(app, named, work, lifespan=lifespan, overlap=overlap, options=options)


def register(
    app: Celery,
    name: str,
    work: Work[Counts],
    *,
    lifespan: Lifespan | None,
    overlap: bool,
    options: dict[str, Any],
    stops: bool = False,
    patience: Callable[[], float] = lambda: 0.0,
) -> Any:
    """Register a task. See `call_task` and `run`."""
    shared = siblings()
    place = shared.new_place()

    def call() -> Counts:
        if overlap:
            return run(work, lifespan=lifespan, stops=stops, patience=patience)
        with shared.alone(place) as alone:
            if not alone:
                return SKIPPED
            return run(work, lifespan=lifespan, stops=stops, patience=patience)

    def task() -> Counts:
        try:
            return call()
        except DatabaseUnreachable as error:
            log.error("%s: %s", name, error)
            # Without its causes: their tracebacks, a page at every tick, say no more.
            raise error.with_traceback(None) from None

    # An expected error: Celery logs one line of it. Not shared: the task belongs to this application alone.
    return app.task(**{"name": name, "throws": (DatabaseUnreachable,), "shared": False, **options})(task)
