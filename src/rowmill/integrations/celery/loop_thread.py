"""The event loop of a process, in a thread of its own.

Tasks of Celery are plain functions, of which a pool of threads runs several at once; a mill is open in one loop at a
time. So all tasks of a process run their coroutines in this loop. And an exception in the main thread, as by a soft
time limit, breaks off the wait for a coroutine, and not whatever the loop runs at that moment.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, TypeVar

from celery.signals import worker_process_shutdown, worker_shutdown

T = TypeVar("T")
Lifespan = Callable[[], AbstractAsyncContextManager[Any]]
CLOSE_SECONDS = 5.0
"""How long a process that ends waits for what it holds open."""


class HeldContext:
    """A context that a task of its own enters and leaves: some can't be left by another task."""

    def __init__(self, lifespan: Lifespan) -> None:
        self._closing = asyncio.Event()
        self._entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(lifespan), name="rowmill lifespan")

    async def _hold(self, lifespan: Lifespan) -> None:
        try:
            async with lifespan():
                self._entered.set_result(None)
                await self._closing.wait()
        except Exception as error:
            if self._entered.done():
                raise
            self._entered.set_exception(error)

    @property
    def ended(self) -> bool:
        return self._task.done()

    async def entered(self) -> None:
        """Wait until the context is entered, or raise its error."""
        await asyncio.shield(self._entered)

    async def close(self) -> None:
        self._closing.set()
        await self._task


class LoopThread:
    """Runs coroutines for the threads of a process."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._held: dict[Lifespan, HeldContext] = {}
        self._thread = threading.Thread(target=self._run, name="rowmill", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def start(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the loop, without waiting for it."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function)

    async def hold_open(self, lifespan: Lifespan) -> None:
        """Enter a context, which stays open until the process ends. Idempotent. One that could not be entered, or has
        ended by itself, is entered anew."""
        held = self._held.get(lifespan)
        if held is None or held.ended:
            held = self._held[lifespan] = HeldContext(lifespan)
        await held.entered()

    def close(self) -> None:
        """Leave the contexts that are open, and end the thread."""
        closing = self.start(self._close())
        with suppress(Exception):  # the process ends, and nobody is there to hear of it
            closing.result(CLOSE_SECONDS)
        self.call(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)

    async def _close(self) -> None:
        held, self._held = list(self._held.values()), {}
        await asyncio.gather(*(each.close() for each in held), return_exceptions=True)


_starting = threading.Lock()
_running: LoopThread | None = None


def loop_thread() -> LoopThread:
    """Return the loop of this process. It starts with the first task that needs it."""
    global _running
    with _starting:
        if _running is None:
            _running = LoopThread()
        return _running


def close_loop_thread(**_: object) -> None:
    """Close what tasks of this process hold open."""
    global _running
    with _starting:
        ending, _running = _running, None
    if ending is not None:
        ending.close()


worker_process_shutdown.connect(close_loop_thread, weak=False)
worker_shutdown.connect(close_loop_thread, weak=False)


def _forget() -> None:
    """In a child: its parent's thread is not here."""
    global _running, _starting
    _running, _starting = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)
