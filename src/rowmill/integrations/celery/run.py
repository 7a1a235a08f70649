"""Runs a coroutine for a task of Celery, which may be interrupted in the middle."""

import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import wait
from typing import Any, TypeVar

from rowmill.integrations.celery.loop_thread import Lifespan, loop_thread
from rowmill.integrations.celery.siblings import siblings

T = TypeVar("T")
log = logging.getLogger("rowmill")
LOOK_SECONDS = 0.25
"""How soon a drain learns that its worker shuts down."""


class StopRequest:
    """Tells a coroutine to end early and in good order. It belongs to the loop of the coroutine."""

    def __init__(self) -> None:
        self._stop: Callable[[], None] | None = None
        self._made = False

    def then(self, stop: Callable[[], None]) -> None:
        """Call this when the coroutine is to stop, or now if it is already."""
        self._stop = stop
        if self._made:
            stop()

    def make(self) -> None:
        self._made = True
        if self._stop is not None:
            self._stop()


Work = Callable[[StopRequest], Coroutine[Any, Any, T]]


def run(work: Work[T], *, lifespan: Lifespan | None, stops: bool, patience: Callable[[], float]) -> T:
    """Run a coroutine in the loop of this process. Return what it returns.

    If the task is interrupted, the coroutine has `patience()` seconds to end in good order; then it is cancelled. One
    that `stops` is also told to end when the worker shuts down.
    """
    thread, stop = loop_thread(), StopRequest()

    async def within() -> T:
        if lifespan is not None:
            await thread.hold_open(lifespan)
        return await work(stop)

    running = thread.start(within())
    try:
        while not wait({running}, LOOK_SECONDS).done:
            if stops and siblings().shutting_down:
                thread.call(stop.make)
    except BaseException as error:
        log.warning("the task is interrupted by %s", type(error).__name__)
        thread.call(stop.make)
        if not wait({running}, patience()).done:
            running.cancel()
        raise
    return running.result()
