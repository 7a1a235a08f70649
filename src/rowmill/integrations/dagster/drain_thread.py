"""Drain a mill in a thread, so that an interrupt of the run can stop it in good order."""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress

from rowmill.integrations.dagster.deadline import BackgroundCall
from rowmill.mill import Mill
from rowmill.worker.report import Report
from rowmill.worker.worker import CANCEL_SECONDS, FLUSH_SECONDS, Worker


class DrainThread:
    """Runs `Mill.drain` in an event loop of its own thread.

    Dagster interrupts a run by an exception in the main thread. In the middle of an event loop, it would break off
    whatever coroutine runs there. Here it breaks off `ended`, and `stop` ends the drain as a signal ends a worker.
    It does not matter whether the caller's thread runs an event loop.
    """

    def __init__(self, mill: Mill, queues: Sequence[str] | None) -> None:
        self._mill = mill
        self._queues = queues
        self._call: BackgroundCall[Report] | None = None
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker: Worker | None = None
        self._stopped = False

    @property
    def progress(self) -> Report:
        """What has been done so far."""
        return Report() if self._worker is None else self._worker.report

    def start(self) -> None:
        self._call = BackgroundCall(lambda: asyncio.run(self._mill.drain(self._queues, begun=self._begun)))

    def ended(self, seconds: float) -> bool:
        """Wait for the end of the drain. Return whether it has come."""
        return self._call is None or self._call.ended(seconds)

    def report(self) -> Report:
        """Return the report of a drain that has ended, or raise its error."""
        assert self._call is not None
        return self._call.result()

    def stop(self) -> None:
        """Claim no more, and wait until handlers have ended and rows are given back. Idempotent."""
        with self._lock:
            self._stopped = True
            if self._worker is not None:
                self._stop_worker()
        # Not for ever: a handler that blocks its thread must not keep the run from ending.
        self.ended(self._mill.settings.grace + 2 * CANCEL_SECONDS + FLUSH_SECONDS)

    def _stop_worker(self) -> None:
        assert self._loop is not None
        assert self._worker is not None
        with suppress(RuntimeError):  # the drain ended by itself meanwhile, and closed its loop
            self._loop.call_soon_threadsafe(self._worker.stop)

    def _begun(self, worker: Worker) -> None:
        with self._lock:
            self._loop, self._worker = asyncio.get_running_loop(), worker
            if self._stopped:
                self._stop_worker()
