"""One worker process: its loop, its signals, its end."""

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

from rowmill.cli.errors import tell
from rowmill.cli.exits import Exit
from rowmill.mill import Mill
from rowmill.model.errors import RowmillError
from rowmill.model.lifecycle import GIVEN_BACK, MOVES
from rowmill.observe.trail import trail
from rowmill.operator import counts
from rowmill.store import dsn
from rowmill.store.port import Disconnected
from rowmill.worker.report import Report
from rowmill.worker.settings import WorkerSettings
from rowmill.worker.worker import Worker

T = TypeVar("T")
log = logging.getLogger("rowmill")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
COUNTED = 10_000
"""Ready rows of a queue that are counted for the line of each minute."""
LAST_SECONDS = 30.0
"""After the grace period, how long an orphan may take to leave by itself."""


class StopSignals:
    """What signals tell this process: the first to finish, the second to leave at once. Under a supervisor, only
    the first counts: a service manager may tell us and the supervisor, which passes it on; its own second kills."""

    def __init__(self, *, supervised: bool = False) -> None:
        self._supervised = supervised
        self.signal: signal.Signals | None = None
        self.worker: Worker | None = None
        self._stop: Callable[[], object] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def code(self) -> int:
        """What a command that was cut short answers: 130 or 143; 0 if nobody told us anything."""
        return 0 if self.signal is None else 128 + self.signal

    def listen(self) -> None:
        # Not the loop's own signal handlers: a handler that blocks the loop must not keep the second one out.
        for number in SIGNALS:
            signal.signal(number, self._hear)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        if self.signal is not None:
            if self._supervised:
                return
            os._exit(128 + number)
        self.signal = signal.Signals(number)
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and so do we
                self._loop.call_soon_threadsafe(self._pass_on)

    def _pass_on(self) -> None:
        assert self.signal is not None
        more = "" if self._supervised else "; once more to leave at once"
        log.info("stopping after %s%s", self.signal.name, more)
        self._stop()

    async def unless_before(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """Run it; told to stop before there is a worker (the database may take its time), nothing is begun."""
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
            leave_behind(self.worker, lambda: Exit.INTERRUPTED)
            raise
        except Exception as error:
            if not isinstance(error, RowmillError):  # a bug, which may not come again when somebody looks
                log.error("broke: %s", trail(error))
            leave_behind(self.worker, partial(tell, error))
            raise
        return None

    def to(self, worker: Worker) -> None:
        """Whom to stop, from now on."""
        self.worker, self._stop = worker, worker.stop
        if self.signal is not None:
            worker.stop()


def calm_the_collector() -> None:
    """Rows come and go by thousands, and hardly any is part of a cycle: look for garbage less often, and never again
    among the modules that are loaded by now. A tenth of a busy worker's rate."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, on uvloop where it is installed."""
    calm_the_collector()
    try:
        import uvloop
    except ImportError:
        make = None
    else:
        make = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=make) as runner:
        return runner.run(work)


async def work(mill: Mill, queues: list[str] | None, settings: WorkerSettings, told: StopSignals) -> None:
    """Work until told to stop."""
    async with mill.worker(queues, settings=settings) as worker:
        told.to(worker)
        introduce(worker, mill)
        telling = asyncio.create_task(Progress(mill, worker).run(), name="progress")
        try:
            sum_up(await worker.run())
        finally:
            telling.cancel()
    leave_behind(worker, lambda: 0)


class Progress:
    """Says once a minute what a worker did in it, if it did anything."""

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
        """How many rows wait for this worker, counted up to a bound; unknown while the database is away."""
        queues = {station.queue.name: station.queue for station in self._worker.stations}
        store = self._mill.store
        looks = [partial(counts.depth, sql=store.sql(queue), at_least=COUNTED) for queue in queues.values()]
        try:
            depths = [await store.run(look, write=False) for look in looks]
        except (Disconnected, DBAPIError):
            return "unknown"
        more = "≥" if any(depth.count is counts.How.CAPPED for depth in depths) else ""
        return f"{more}{sum(depth.rows for depth in depths)}"


def introduce(worker: Worker, mill: Mill) -> None:
    stages = ", ".join(
        f"{station.queue.name}/{station.step.name} x{station.handler.concurrency}" for station in worker.stations
    )
    log.info("worker %d works on %s in %s", mill.store.worker, stages, dsn.shown(mill.url))


def sum_up(report: Report) -> None:
    moves = " ".join(f"{move}={rows}" for move, rows in sorted(report.settled.items()))
    log.info("stopped claimed=%d lost=%d %s", report.claimed, report.lost, moves)


def leave_behind(worker: Worker | None, last_words: Callable[[], int]) -> None:
    """End the process here if handlers still run, with the code that `last_words` answers. Threads can't be stopped,
    and Python, like the loop, would wait for them at its end. Their rows have been given back."""
    if worker is not None and worker.left_behind:
        log.warning("leaving %d handlers behind that did not end", worker.left_behind)
        code = last_words()
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def follow_lifeline(grace: float) -> None:
    """Stop when standard input closes: whoever started us is gone, by whatever end."""

    def watch() -> None:
        with suppress(OSError):
            while os.read(0, 1024):
                pass
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(grace + LAST_SECONDS)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
