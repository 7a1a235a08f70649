"""A worker: one StageWorker per stage, one settler, one renewer, and services beside them."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any, Protocol

from rowmill.model.duration import Duration, in_seconds
from rowmill.model.errors import BadRequest
from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease
from rowmill.model.lifecycle import HOLD, RELEASE, StateKind
from rowmill.model.limits import PASSING_CODES
from rowmill.model.queue import QueueSpec
from rowmill.model.settle_lag import SettleLag
from rowmill.observe.events import Events, log
from rowmill.observe.repeated_lines import MINUTE
from rowmill.observe.trail import trail
from rowmill.store.port import Store
from rowmill.worker.byte_budget import ByteBudget
from rowmill.worker.changed_rows import ChangedRows
from rowmill.worker.in_flight import InFlight
from rowmill.worker.loop_watch import LoopWatch
from rowmill.worker.renewer import Renewer
from rowmill.worker.report import Report
from rowmill.worker.row_allowance import RowAllowance
from rowmill.worker.settings import WorkerSettings
from rowmill.worker.settler import Settler
from rowmill.worker.stage import StageWorker

CANCEL_SECONDS = 5.0
"""How long a cancelled handler may take to end, and a claim to return, before the worker ends without it."""
FLUSH_SECONDS = 10.0
"""How long to wait at the end for a database that writes nothing. Rows that are not written come back when their leases
expire."""


class Service(Protocol):
    """Something that runs beside the stages until it is cancelled."""

    async def run(self) -> None: ...


class Worker:
    """Runs the handlers of these queues until it is stopped, or until nothing is ready."""

    def __init__(
        self,
        store: Store,
        queues: Sequence[QueueSpec[Any]],
        *,
        settings: WorkerSettings | None = None,
        events: Events | None = None,
        report: Report | None = None,
        services: Sequence[Service] = (),
        paused: Callable[[str, str], bool] = lambda queue, stage: False,
    ) -> None:
        self.settings = settings or WorkerSettings()
        self.report = report or Report()
        self.number: Callable[[], int] = lambda: store.worker
        """Returns the number of this worker in the fleet. A database that was set back gives it another one."""
        self._store = store
        self._events = events or Events()
        self._services = services
        self._in_flight = InFlight(ByteBudget(self.settings.claimed_bytes, len(queues)))
        changed_rows = ChangedRows(self._events, strict=self.settings.strict)
        self._settler = Settler(store, self._in_flight, self.report, self._events, random.random, changed_rows)
        self._settler.on_settled = self._settled
        self._renewer = Renewer(store, self._in_flight, self._events, self._cancel)
        self._allowance = RowAllowance()
        self._stop = asyncio.Event()
        self._interrupted = False
        self._changed_at = 0.0
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self.stages = [
            StageWorker(
                store, part, step, part.handlers[step.name], self._in_flight, self._settler, self.report,
                self._events, self.settings, self._allowance,
            )
            for queue in queues
            for part in queue.parts or (queue,)
            for step in part.steps
            if step.name in part.handlers
        ]  # fmt: skip
        for stage in self.stages:
            stage.paused = partial(paused, stage.queue.name, stage.step.name)
            stage.on_interrupt(self._interrupt)

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def bytes_in_flight(self) -> int:
        """The bytes of the rows that are claimed and not settled."""
        return self._in_flight.budget.held

    def settle_lags(self) -> dict[str, SettleLag]:
        """Return, by queue, what is finished and could not be written for a while."""
        return self._settler.lags()

    def holding(self) -> set[int]:
        """Return the tokens of the rows in flight."""
        return {lease.token for lease in self._in_flight.leases}

    def waker(self, queue: str) -> Callable[[], None]:
        """Return a function that makes the stages of a queue claim now."""
        ours = [stage for stage in self.stages if stage.queue.name == queue]

        def wake() -> None:
            for stage in ours:
                stage.wake()

        return wake

    @property
    def paused(self) -> list[tuple[str, str]]:
        """The (queue, stage) pairs that are paused."""
        return [(stage.queue.name, stage.step.name) for stage in self.stages if stage.paused()]

    @property
    def left_behind(self) -> int:
        """The number of handlers that did not end with the worker: threads, and tasks that catch their cancellation."""
        return sum(stage.left_behind for stage in self.stages)

    def stop(self) -> None:
        """Claim no more, let running handlers finish within the grace period, and release the rest. Idempotent."""
        self._stop.set()

    def claim_no_more(self) -> None:
        """End a drain once all that is claimed is finished, however long that takes."""
        self._allowance.bound(0)

    @property
    def may_claim(self) -> bool:
        return not self._allowance.used_up

    async def stopped_within(self, seconds: Duration) -> bool:
        """Wait for a call of `stop`, for so long at the most. Return whether it has come."""
        try:
            async with asyncio.timeout(in_seconds(seconds)):
                await self._stop.wait()
        except TimeoutError:
            return False
        return True

    def _interrupt(self) -> None:
        """Stop because a handler raised KeyboardInterrupt, and raise it again at the end. Raised in a slot, it would
        break out of the event loop with every row still in flight."""
        self._interrupted = True
        self.stop()
        for stage in self.stages:
            stage.stop()

    async def run(self) -> Report:
        """Work until stopped. Raises KeyboardInterrupt at the end if a handler raised it."""
        return await self._run(self._stop.wait)

    async def drain(self, *, rows: int | None = None) -> Report:
        """Work until nothing is ready and nothing runs, or the allowed rows were claimed. Rows that wait for a later
        time stay where they are."""
        if rows is not None:
            if rows < 1:
                raise BadRequest(f"rows must be 1 or more, not {rows}")
            self._allowance.bound(rows)
        return await self._run(self._drained)

    async def _run(self, until: Callable[[], Awaitable[Any]]) -> Report:
        began = time.perf_counter()
        beside = [asyncio.create_task(service.run(), name=type(service).__name__) for service in self._services]
        beside.append(asyncio.create_task(self._settler.run(), name="settler"))
        beside.append(asyncio.create_task(self._renewer.run(), name="renewer"))
        tasks = [task for stage in self.stages for task in stage.tasks()]
        beside.append(asyncio.create_task(self._tell_repeated(), name="repeated log lines"))
        watch = LoopWatch(self._events, [(each.queue.name, each.step.name, each.handler) for each in self.stages])
        watch.start()
        ending = asyncio.ensure_future(until())
        try:
            await self._watch(ending, beside + tasks)
            await self._leave(tasks, self.settings.grace)
        except BaseException:
            try:
                await self._leave(tasks, 0.0)
            except Exception as error:
                log.error("rows in flight could not be given back; they come back by their leases: %s", trail(error))
            raise
        finally:
            for timer in self._timers.values():
                timer.cancel()
            await cancel_all([ending, *tasks, *beside])
            watch.stop()
            self._events.tell_repeated(all_of_them=True)
            self.report.seconds = time.perf_counter() - began
            self.report.peak_bytes = self._in_flight.budget.peak
        if self._interrupted:
            raise KeyboardInterrupt
        return self.report

    async def _tell_repeated(self) -> None:
        """Log how many lines were left out, even if no other line follows."""
        while True:
            await asyncio.sleep(MINUTE)
            self._events.tell_repeated()

    async def _watch(self, ending: "asyncio.Future[Any]", tasks: list["asyncio.Task[None]"]) -> None:
        """Wait for the end. A task of ours that ends before is a bug: raise at once instead of idling for days."""
        done, _ = await asyncio.wait({ending, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        if not ending.done() and not self._stop.is_set():
            raise RuntimeError(f"{', '.join(task.get_name() for task in tasks if task.done())} ended by itself")

    async def _leave(self, tasks: list["asyncio.Task[None]"], grace: float) -> None:
        """Stop: let handlers finish within the grace period, release the rest, and write everything."""
        for stage in self.stages:
            stage.stop()
        tasks = [*tasks, *(stage.alone for stage in self.stages if stage.alone is not None)]
        claimers = {stage.claimer for stage in self.stages}
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
            for task in tasks:
                if task not in claimers:  # a claim is not cut: nobody would know what it took
                    task.cancel()
            await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
        for stage in self.stages:
            await stage.close(CANCEL_SECONDS)
        if not await self._settler.finish(FLUSH_SECONDS):
            self._events.unwritten(len(self._in_flight))

    async def _drained(self) -> None:
        """Wait until every stage found nothing, after the last event that may have made rows ready; then once more,
        with claims that start from the head of the index."""
        loop, looked = asyncio.get_running_loop(), -1.0
        while True:
            ran_at = max((stage.ran_at for stage in self.stages), default=0.0)
            empty = all(stage.empty(max(ran_at, looked)) and not stage.busy for stage in self.stages)
            if self._stop.is_set():
                return
            if empty and self._settler.idle and self._in_flight.empty:
                if looked > ran_at:
                    for stage in self.stages:
                        stage.stop()  # now: what a claim takes from here on would be given back, and be left behind
                    return
                looked = loop.time()
                for stage in self.stages:
                    self._store.drop_watermarks(stage.queue)
            for stage in self.stages:
                stage.look_again(max(ran_at, looked))
            await asyncio.sleep(0.002)

    def _settled(self, verdict: Verdict) -> None:
        """Wake the stage that can claim the row of this verdict, now or when its wait is over."""
        lease = verdict.lease
        ours = [stage for stage in self.stages if stage.queue is lease.queue]
        if lease.queue.per is not None:
            for each in ours:  # the next row of its key may be free now
                each.wake()
        if verdict.move.target not in (StateKind.READY, StateKind.WAITING):
            return
        name = lease.stage if verdict.move.name != "advance" else self._next_stage(lease)
        stage = next((stage for stage in ours if stage.step.name == name), None)
        if stage is None:
            return
        if verdict.wait <= 0:
            stage.wake()
            return
        loop = asyncio.get_running_loop()
        at, known = loop.time() + verdict.wait, self._timers.get((lease.queue.name, name))
        if verdict.move is RELEASE or (verdict.move is HOLD and verdict.code in PASSING_CODES):
            stage.expect_row_at(at)
        if known is None or known.when() > at or known.when() <= loop.time():
            if known is not None:
                known.cancel()
            self._timers[lease.queue.name, name] = loop.call_at(at + 0.001, stage.wake)

    @staticmethod
    def _next_stage(lease: Lease[Any]) -> str:
        steps = lease.queue.steps
        return steps[steps.index(lease.step) + 1].name

    def _cancel(self, lease: Lease[Any]) -> None:
        for stage in self.stages:
            if stage.queue is lease.queue and stage.step is lease.step:
                stage.cancel(lease)


async def cancel_all(tasks: "Collection[asyncio.Future[Any]]") -> None:
    """Cancel tasks and wait for their end, but not for ever: a handler may catch its cancellation and go on."""
    for task in tasks:
        task.cancel()
    if tasks:
        done, _ = await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
        for task in done:
            if not task.cancelled():
                task.exception()
