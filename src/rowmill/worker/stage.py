"""Runs one stage of a queue: claims rows, keeps them until slots take them, and runs them in its slots."""

import asyncio
import logging
import math
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from rowmill.model.lease import Lease
from rowmill.model.queue import Handler, QueueSpec
from rowmill.model.states import Step
from rowmill.observe.events import Events, log
from rowmill.store.port import Disconnected, LockTimeout, StatementTimeout, Store
from rowmill.store.row_sizes import ByteLimit
from rowmill.worker.admission import Admission
from rowmill.worker.byte_budget import ClaimTurn, RowWeight
from rowmill.worker.handler import HandlerRunner
from rowmill.worker.in_flight import InFlight
from rowmill.worker.prefetch import Prefetch
from rowmill.worker.report import Report
from rowmill.worker.row_allowance import RowAllowance
from rowmill.worker.row_runner import RowRunner
from rowmill.worker.settings import WorkerSettings
from rowmill.worker.settler import Settler
from rowmill.worker.suspects import Suspects

ROWS_PER_YIELD = 10
"""Rows that a slot runs before it yields to the loop, if no handler awaited anything."""
STALE = 2.0
"""Seconds that a claimed row may wait while every slot is busy, before it is given back."""
LARGEST_CLAIM = 100_000
BUSY = 1.0
"""Seconds of work without a pause after which producers need not wake us."""

SAY_LIMITED = 60.0
"""Seconds between two events about the byte budget."""


class StageWorker:
    """The claimer and the slots of one stage of one queue."""

    def __init__(
        self,
        store: Store,
        queue: QueueSpec[Any],
        step: Step,
        handler: Handler,
        in_flight: InFlight,
        settler: Settler,
        report: Report,
        events: Events,
        settings: WorkerSettings,
        allowance: RowAllowance,
    ) -> None:
        self._allowance = allowance
        self.queue, self.step, self.handler = queue, step, handler
        self._store, self._in_flight, self._settler = store, in_flight, settler
        self._report, self._events, self._settings = report, events, settings
        overdue = partial(events.overdue, queue.name, step.name, handler.concurrency)
        self._prefetch = Prefetch(handler.concurrency, handler.batch, gated=handler.gate is not None)
        check = None if queue.mapper is None else settler.changed_rows.check
        tracebacks = settings.tracebacks or log.isEnabledFor(logging.DEBUG)
        runner = HandlerRunner(handler, random.random, check, overdue, tracebacks=tracebacks)
        self._row_runner = RowRunner(
            handler, runner, self._prefetch, in_flight, settler.lane(queue.name), report, events
        )
        self._waiting: deque[Lease[Any]] = deque()
        self._since = 0.0
        self._slept_at = 0.0
        self._running = 0
        self._has_rows = asyncio.Event()
        self._wants_rows = asyncio.Event()
        self._woken = asyncio.Event()
        self._suspects = Suspects(store, queue, step, in_flight, settler, self._row_runner, self._woken)
        self._admission = None if handler.gate is None else Admission(
            handler.gate, self._prefetch, in_flight, self._row_runner, self._waiting, self._has_rows, self._wants_rows,
            lambda: self._running * (handler.batch or 1),
        )  # fmt: skip
        self._stores = [self._waiting, *([] if self._admission is None else [self._admission.pending])]
        self.claimer: asyncio.Task[None] | None = None
        in_flight.not_begun.append(self._return_waiting)
        self.paused: Callable[[], bool] = lambda: False
        self._empty_at = -1.0
        """When a claim last found nothing, on the loop's clock; reset when rows are found."""
        self._claim_most = LARGEST_CLAIM
        """The most rows of one claim. Smaller after the database cancelled one that took too long."""
        self._weight = RowWeight()
        self._limited_at = -math.inf
        """When we last reported that the byte budget limits us, on the loop's clock."""
        self._woken_at = 0.0
        self._row_expected_until = -1.0
        """When the last row that we gave back for a while can be claimed again, on the loop's clock."""

    def wake(self) -> None:
        """Claim now: there may be rows."""
        self._woken_at = asyncio.get_running_loop().time()
        self._woken.set()

    def expect_row_at(self, at: float) -> None:
        """Note that a row we gave back can be claimed again at this time. Until then, the queue does not count as
        empty."""
        self._row_expected_until = max(self._row_expected_until, at)

    def look_again(self, since: float) -> None:
        """Wake the claimer if it has not found the queue empty since this time: somebody waits for that."""
        if not self.busy and not self.empty(since) and asyncio.get_running_loop().time() > self._row_expected_until:
            self._woken.set()

    def empty(self, since: float) -> bool:
        """Return whether a claim after this time found nothing, and no row is known to have come since."""
        return self._empty_at > max(since, self._woken_at, self._row_expected_until)

    def on_interrupt(self, end: Callable[[], None]) -> None:
        """Call this when a handler raises KeyboardInterrupt."""
        self._row_runner.on_interrupt = end

    @property
    def stopping(self) -> bool:
        return self._row_runner.stopping

    @property
    def alone(self) -> "asyncio.Task[None] | None":
        """The task of the suspect that runs alone, if there is one."""
        return self._suspects.alone

    @property
    def ran_at(self) -> float:
        """When a handler last ended, on the loop's clock."""
        return self._row_runner.ran_at

    @property
    def busy(self) -> bool:
        return bool(self._running or self._in_store or self._suspects.running)

    @property
    def _in_store(self) -> int:  # rows that are claimed and have not begun
        return len(self._waiting) + (0 if self._admission is None else len(self._admission))

    def tasks(self) -> list[asyncio.Task[None]]:
        name = f"{self.queue.name}/{self.step.name}"
        slots = [asyncio.create_task(self._slot(), name=f"{name} slot {n}") for n in range(self.handler.concurrency)]
        self.claimer = asyncio.create_task(self._claim(), name=f"{name} claimer")
        admission = (
            [] if self._admission is None else [asyncio.create_task(self._admission.run(), name=f"{name} admission")]
        )
        return [self.claimer, *admission, *slots]

    async def _claim(self) -> None:
        loop = asyncio.get_running_loop()
        pause = self._settings.poll_base
        while True:
            await self._in_flight.opened()
            if self.stopping:
                return
            if self.alone is not None and self.alone.done():
                self.alone.result()  # nobody else looks at it: an error there must end us too
            self._return_stale(loop.time())
            if self.paused():
                self._return_waiting()
                self._empty_at = loop.time()
                await self._until(self._woken, min(self._settings.poll_base * 4, 1.0))
                continue
            if self._allowance.used_up:
                self._empty_at = loop.time()
                await self._until(self._woken, STALE)
                continue
            # Without those whose permits are asked for just now: the next claim need not wait for it.
            wanted = self._prefetch.wanted(sum(map(len, self._stores)), self._running * (self.handler.batch or 1))
            if self._admission is not None:
                if (closed_reason := self._admission.gate.closed_reason()) is not None:
                    self._empty_at = self._empty_at if closed_reason.passing else loop.time()
                    await self._until(self._woken, closed_reason.seconds)
                    continue
                wanted = self._admission.at_most(wanted)
            if self._suspects.seen_recently(loop.time()):
                wanted = min(wanted, self._prefetch.width)
            wanted = min(wanted, self._claim_most)
            if not wanted:
                await self._until(self._wants_rows, STALE / 2)
                continue
            self._woken.clear()
            try:
                with self._in_flight.budget.turn(self.queue.name, self._wants_rows.set) as turn:
                    within = await self._room(turn, wanted)
                    if within is None:
                        continue
                    asked, wanted = loop.time(), self._allowance.reserve(self._within(within, wanted))
                    if not wanted:  # another stage reserved the last rows just now
                        continue
                    leases: list[Lease[Any]] = []
                    try:
                        async with self._in_flight.claiming():
                            leases = await self._store.claim(self.queue, self.step, wanted, within)
                            weight = self._in_flight.take(leases)
                    finally:
                        self._allowance.give_back(wanted - len(leases))
                self._events.back(who="claim")
                self._claim_most = min(self._claim_most * 2, LARGEST_CLAIM)
            except (StatementTimeout, LockTimeout) as error:  # the database is there
                if isinstance(error, StatementTimeout):
                    self._claim_most = max(1, wanted // 2)
                self._events.claim_cancelled(self.queue.name, self.step.name, wanted)
                await self._until(self._woken, pause)
                continue
            except Disconnected as error:
                self._events.away(str(error), who="claim")
                await self._until(self._woken, min(pause * (0.5 + random.random()), self._settings.poll_max))
                pause = min(pause * 2, self._settings.poll_max)
                continue
            self._weight.claimed(len(leases), weight)
            if within.reached:
                self._limited()
                if not leases:
                    self._weight.too_heavy_for(within.most)
            if leases:
                pause = self._settings.poll_base
                self._empty_at = -1.0
                await self._take(leases)
            if len(leases) == wanted or within.reached:
                if asked - self._slept_at > BUSY:
                    await self._store.busy([self.queue])
            elif leases:
                await asyncio.sleep(0)  # the slots begin before we look whether there are more
            else:
                self._empty_at = asked
                await self._idle(pause)
                self._slept_at = loop.time()
                pause = min(pause * 1.5, self._settings.poll_max)

    async def _room(self, turn: ClaimTurn, wanted: int) -> ByteLimit | None:
        """Wait until the byte budget has room for a claim. Return None if we are to make no claim now."""
        while not (self.stopping or self._in_flight.closed or self.paused()):
            if (found := turn.room(self._weight, wanted)) is not None:
                return found
            if self._in_flight.budget.full:
                self._limited()
            await self._until(self._wants_rows, STALE / 2)
            self._return_stale(asyncio.get_running_loop().time())
        return None

    def _within(self, within: ByteLimit, wanted: int) -> int:
        """Return how many of the wanted rows will fit, judging by the rows before."""
        fit = max(int(within.most / self._weight.bytes), 1) if self._weight.bytes else wanted
        if fit < wanted:
            self._limited()
        return min(wanted, fit)

    def _limited(self) -> None:
        """Count and report that the byte budget keeps us from claiming more."""
        self._report.byte_limited += 1
        now = asyncio.get_running_loop().time()
        if now - self._limited_at >= SAY_LIMITED:
            self._limited_at = now
            budget = self._in_flight.budget
            self._events.memory_limited(self.queue.name, self.step.name, budget.held, budget.most, self._weight.bytes)

    async def _idle(self, pause: float) -> None:
        """Sleep until rows may have come, from other processes or from this one."""
        if self.stopping or self._woken.is_set():
            return
        woken = asyncio.ensure_future(self._woken.wait())
        spread = min(pause * (0.75 + random.random() / 2), self._settings.poll_max)
        called = asyncio.ensure_future(self._store.wait([self.queue], spread, self))
        try:
            await asyncio.wait({woken, called}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
            called.cancel()
            [answer] = await asyncio.gather(called, return_exceptions=True)
        if isinstance(answer, Exception):
            # Waking up is a convenience. Without it we look now and then, and no more often than that.
            self._events.wakeup_unavailable(self.queue.name, type(answer).__name__)
            await self._until(self._woken, pause)

    async def _until(self, event: asyncio.Event, seconds: float) -> None:
        if self.stopping:
            return
        event.clear()
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            pass

    async def _take(self, leases: list[Lease[Any]]) -> None:
        self._report.claimed += len(leases)
        self._events.claimed(self.queue.name, self.step.name, len(leases))
        for lease in leases:
            lease.attach(self._settler)
        leases = await self._suspects.set_apart(leases)
        if self.stopping or self._in_flight.closed or self.paused():
            for lease in leases:
                self._row_runner.give_back(lease)
            return
        if leases:
            if not self._in_store:
                self._since = asyncio.get_running_loop().time()
            if self._admission is not None:
                self._admission.put(leases)
                return
            self._waiting.extend(leases)
            self._has_rows.set()

    def _return_stale(self, now: float) -> None:
        """Give waiting rows back to others while long handlers hold every slot."""
        full = self._running >= self.handler.concurrency
        if self._in_store and full and now - self._since > STALE:
            self._prefetch.ran(STALE * self._prefetch.width)
            self._return_waiting()

    def _return_waiting(self) -> None:
        for rows in self._stores:
            while rows:
                self._row_runner.give_back(rows.popleft())

    async def _slot(self) -> None:
        ran, most, now, task = 0, self.handler.batch or 1, asyncio.get_running_loop().time, asyncio.current_task()
        assert task is not None
        while True:
            while not self._waiting:
                if self.stopping:
                    return
                self._wants_rows.set()
                if self._admission is not None:
                    self._admission.moved.set()
                self._has_rows.clear()
                await self._has_rows.wait()
            batch = [self._waiting.popleft()]
            while self._waiting and len(batch) < most:
                batch.append(self._waiting.popleft())
            left = len(self._waiting)
            if self._admission is not None:
                batch, left = self._admission.passed(batch, left), left + len(self._admission.pending)
                if not batch:
                    continue
            if left <= self._prefetch.low:
                self._wants_rows.set()
            self._running += 1
            self._since = now()
            try:
                await self._row_runner.run(batch, task, passed=self._admission is not None)
                if self.handler.threaded:
                    await self._row_runner.wait_for_overdue_thread()
            finally:
                self._running -= 1
                self._row_runner.ran_at = now()
            ran += 1
            if ran % ROWS_PER_YIELD == 0:
                await self._settler.lane(self.queue.name).room.wait()
                await asyncio.sleep(0)

    def cancel(self, lease: Lease[Any]) -> None:
        """Stop the handler of a lease that is gone: its result could not be written."""
        if not self._row_runner.cancel(lease):
            for rows in self._stores:
                if lease in rows:
                    rows.remove(lease)
                    self._row_runner.lose(lease)
                    return

    def stop(self) -> None:
        """Claim no more, and give back rows that have not begun."""
        self._row_runner.stopping = True
        self._return_waiting()
        self._woken.set()
        self._wants_rows.set()
        self._has_rows.set()
        if self._admission is not None:
            self._admission.moved.set()

    async def close(self, seconds: float) -> None:
        """After the grace period, give back rows whose handlers can't be stopped; their late results are refused."""
        await self._row_runner.close(seconds)

    @property
    def left_behind(self) -> int:
        """The number of handlers that still run, in threads or in spite of a cancellation."""
        return self._row_runner.left_behind
