"""A single worker process: its event loop, signals and exit."""

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError

from rowmill.cli.errors import print_error
from rowmill.cli.exits import Exit
from rowmill.mill import Mill
from rowmill.model.errors import RowmillError
from rowmill.model.lifecycle import GIVEN_BACK, MOVES
from rowmill.observe.trail import trail
from rowmill.store import dsn
from rowmill.store.port import Disconnected
from rowmill.worker.report import Report
from rowmill.worker.settings import WorkerSettings
from rowmill.worker.worker import Worker

T = TypeVar("T")
log = logging.getLogger("rowmill")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
COUNTED = 10_000
"""The most ready rows of a queue that the log line of each minute counts."""
LAST_SECONDS = 30.0
"""Seconds after the grace period before a process without a parent kills itself."""


class StopSignals:
    """Handles SIGTERM and SIGINT: the first stops gracefully, the second exits at once.

    Under a supervisor only the first counts. A service manager may signal both the supervisor and us, and the
    supervisor passes its signal on. A second signal makes the supervisor kill us.
    """

    def __init__(self, *, supervised: bool = False) -> None:
        self._supervised = supervised
        self.signal: signal.Signals | None = None
        self.worker: Worker | None = None
        self._stop: Callable[[], object] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def code(self) -> int:
        """The exit code of an interrupted command: 130 or 143; 0 without a signal."""
        return 0 if self.signal is None else 128 + self.signal

    def listen(self) -> None:
        # Not the loop's own signal handlers: a handler that blocks the loop must not keep the second one out.
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.signal is not None:
            if self._supervised:
                return
            os._exit(128 + number)
        self.signal = signal.Signals(number)
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and so do we
                self._loop.call_soon_threadsafe(self._stop_worker)

    def _stop_worker(self) -> None:
        assert self.signal is not None
        more = "" if self._supervised else "; once more to leave at once"
        log.info("stopping after %s%s", self.signal.name, more)
        self._stop()

    async def run_until_stopped(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """Run a coroutine, and cancel it on a signal. Once `to` was called, the signal stops the worker instead."""
        task = asyncio.current_task()
        assert task is not None
        self._loop, self._stop = asyncio.get_running_loop(), task.cancel
        try:
            if self.signal is None:
                return await work()
        except asyncio.CancelledError:
            if self.signal is None:
                raise
        except KeyboardInterrupt:  # a handler raised it
            log.info("stopped by KeyboardInterrupt in a handler")
            exit_if_handlers_run(self.worker, lambda: Exit.INTERRUPTED)
            raise
        except Exception as error:
            if not isinstance(error, RowmillError):  # a bug, which may not come again when somebody looks
                log.error("broke: %s", trail(error))
            exit_if_handlers_run(self.worker, partial(print_error, error))
            raise
        return None

    def stops(self, worker: Worker) -> None:
        """Stop this worker on a signal from now on."""
        self.worker, self._stop = worker, worker.stop
        if self.signal is not None:
            worker.stop()


def tune_garbage_collector() -> None:
    """Make the garbage collector run less often, and skip modules loaded so far. Rows rarely form cycles; this gains
    about a tenth of a busy worker's throughput."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, on uvloop if it is installed."""
    tune_garbage_collector()
    try:
        import uvloop
    except ImportError:
        make = None
    else:
        make = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=make) as runner:
        return runner.run(work)


async def work(mill: Mill, queues: list[str] | None, settings: WorkerSettings, signals: StopSignals) -> None:
    """Run a worker until a signal stops it."""
    async with mill.worker(queues, settings=settings) as worker:
        signals.stops(worker)
        log_start(worker, mill)
        progress = asyncio.create_task(Progress(mill, worker).run(), name="progress")
        try:
            log_end(await worker.run())
        finally:
            progress.cancel()
    exit_if_handlers_run(worker, lambda: 0)


class Progress:
    """Logs once a minute what the worker did, if anything."""

    def __init__(self, mill: Mill, worker: Worker, every: float = 60.0) -> None:
        self._mill, self._worker, self._every = mill, worker, every
        self._settled = self._failed = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            await self.tell()

    async def tell(self) -> None:
        moves = {move: rows for move, rows in self._worker.report.settled.items() if move not in GIVEN_BACK}
        settled, failed = sum(moves.values()), sum(rows for move, rows in moves.items() if MOVES[move].failed)
        new, new_failed = settled - self._settled, failed - self._failed
        self._settled, self._failed = settled, failed
        if new:
            rate = round(new * 60 / self._every, 1)
            self._mill.events.progress(settled=new, failed=new_failed, per_minute=rate, ready=await self._ready())

    async def _ready(self) -> str:
        """Count ready rows up to a bound; "unknown" while the database is unreachable."""
        from rowmill.operator import counts  # here: a worker without rows needs none of the operator's modules

        queues = {station.queue.name: station.queue for station in self._worker.stages}
        store = self._mill.store
        looks = [partial(counts.depth, sql=store.sql(queue), at_least=COUNTED) for queue in queues.values()]
        try:
            depths = [await store.run(look, write=False) for look in looks]
        except (Disconnected, DBAPIError):
            return "unknown"
        more = "≥" if any(depth.count is counts.How.CAPPED for depth in depths) else ""
        return f"{more}{sum(depth.rows for depth in depths)}"


def log_start(worker: Worker, mill: Mill) -> None:
    stages = ", ".join(
        f"{station.queue.name}/{station.step.name} x{station.handler.concurrency}" for station in worker.stages
    )
    log.info("worker %d works on %s in %s", mill.store.worker, stages, dsn.shown(mill.url))


def log_end(report: Report) -> None:
    moves = " ".join(f"{move}={rows}" for move, rows in sorted(report.settled.items()))
    log.info("stopped claimed=%d lost=%d %s", report.claimed, report.lost, moves)


def exit_if_handlers_run(worker: Worker | None, last_words: Callable[[], int]) -> None:
    """Exit the process now if handlers are still running, with the code that `last_words` returns. Threads can't be
    stopped, and Python would wait for them. Their rows were released before."""
    if worker is not None and worker.left_behind:
        log.warning("leaving %d handlers behind that did not end", worker.left_behind)
        code = last_words()
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def stop_with_supervisor(grace: float) -> None:
    """Stop when standard input closes: then the supervisor is gone."""

    def watch() -> None:
        with suppress(OSError):
            while os.read(0, 1024):
                pass
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(grace + LAST_SECONDS)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
