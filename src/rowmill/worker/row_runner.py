"""Runs the claimed rows of a stage. Each is settled, given back, or reported as lost."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from rowmill.model import lifecycle
from rowmill.model.judge import Verdict, hold
from rowmill.model.lease import Lease, Phase
from rowmill.model.permits import NotPermitted, PermitGate
from rowmill.model.queue import Handler
from rowmill.observe.events import Events
from rowmill.store.port import Disconnected
from rowmill.worker.handler import COMMIT_POLL, HandlerRunner, PermitExpired
from rowmill.worker.in_flight import InFlight
from rowmill.worker.prefetch import Prefetch
from rowmill.worker.report import Report
from rowmill.worker.settler import SettleLane

TRIES = 5
"""How often to ask for permits that expire before they can be used."""


class RowRunner:
    """Runs rows of one stage, in the tasks of its slots."""

    def __init__(
        self,
        handler: Handler,
        runner: HandlerRunner,
        prefetch: Prefetch,
        in_flight: InFlight,
        lane: SettleLane,
        report: Report,
        events: Events,
    ) -> None:
        self._handler, self._runner, self._prefetch = handler, runner, prefetch
        self._gate = handler.gate
        if handler.gate is not None:
            runner.once_more = partial(self._once_more, handler.gate)
            runner.permitted = handler.gate.ready
        self._in_flight, self._lane = in_flight, lane
        self._report, self._events = report, events
        self._tasks: dict[Lease[Any], asyncio.Task[Any]] = {}
        self.stopping = False
        self.on_interrupt: Callable[[], None] = lambda: None
        """Called when a handler raised KeyboardInterrupt: the process is to end."""
        self.ran_at = 0.0
        """When a handler last ended, on the loop's clock. It may have inserted rows into any queue."""

    async def run(self, batch: list[Lease[Any]], task: "asyncio.Task[Any]", *, passed: bool = False) -> None:
        """Run rows in this task, and hand their verdicts to the settler. `passed`: their permits were checked just
        now."""
        if self._gate is not None and not passed:
            batch = await self._let_in(self._gate, batch)
        while batch:
            for lease in batch:
                self._tasks[lease] = task
            began = time.perf_counter()
            verdicts: list[Verdict] = []
            called = True
            try:
                verdicts = await self._runner.run(batch, task)
            except PermitExpired:
                called = False
            except asyncio.CancelledError as error:
                self._after_cancellation(batch, error)
                if self.stopping:
                    raise
                return
            finally:
                for lease in batch:
                    self._tasks.pop(lease, None)
                if self._gate is not None and called:
                    self._finish_permits(self._gate, batch, verdicts)
                # A cancellation was for these rows alone: if it stayed counted, the next handler would suffer from it.
                while task.cancelling() and not self.stopping:
                    task.uncancel()
            if called:
                self._finished(batch, verdicts, (time.perf_counter() - began) / len(batch))
                return
            assert self._gate is not None
            batch = await self._let_in(self._gate, batch)

    def _finish_permits(self, gate: PermitGate, batch: list[Lease[Any]], verdicts: list[Verdict]) -> None:
        for verdict in verdicts:
            gate.finish(verdict.lease, verdict.failure.raised)
        if len(verdicts) < len(batch):  # settled by the handler itself, lost, or cut off
            for lease in batch:
                gate.finish(lease, None if lease.settled else asyncio.CancelledError())

    def _finished(self, batch: list[Lease[Any]], verdicts: list[Verdict], ran: float) -> None:
        """Hand on the verdicts of a handler that took `ran` seconds per row."""
        self._prefetch.ran(ran)
        for verdict in verdicts:
            verdict.ran = ran
            self._lane.put(verdict)
            if isinstance(verdict.failure.raised, KeyboardInterrupt):
                self.on_interrupt()
        if len(verdicts) < len(batch):
            settled = {verdict.lease for verdict in verdicts}
            for lease in batch:
                if lease not in settled:
                    self.lose(lease) if lease.lost and not lease.settled else self._in_flight.remove(lease)

    async def may_begin(self, lease: Lease[Any]) -> bool:
        """Return whether a row may run: it has a permit, or needs none. Otherwise it is given back."""
        return self._gate is None or bool(await self._let_in(self._gate, [lease]))

    async def _let_in(self, gate: PermitGate, batch: list[Lease[Any]]) -> list[Lease[Any]]:
        """Return the rows that may run now. Most have their permits already, but those may have expired."""
        for _ in range(TRIES):
            late = [lease for lease in batch if not gate.ready(lease)]
            if not late:
                return batch
            try:
                refused, _ = await gate.admit(late)
            except BaseException as error:
                for lease in batch:
                    self.give_back(lease)
                if isinstance(error, Disconnected):
                    return []
                raise
            held = {one.lease for one in refused}
            for one in refused:
                self.hold_back(one)
            batch = [lease for lease in batch if lease not in held]
        for lease in batch:  # this process is held up for so long at a time that no permit is valid
            self.give_back(lease)
        return []

    async def _once_more(self, gate: PermitGate, lease: Lease[Any]) -> Verdict | None:
        """Get another permit for a row that runs again: that is one more call. Return a verdict instead if there is
        none."""
        gate.finish(lease, RuntimeError())  # whatever the provider made of the first
        try:
            refused, _ = await gate.admit([lease])
        except Disconnected:
            return Verdict(lease, lifecycle.RELEASE)
        return self._verdict(refused[0]) if refused else None

    def hold_back(self, one: NotPermitted) -> None:
        """Give a row without a permit back until its turn. If a key or cost function of the limit failed, the row
        fails."""
        if one.lease.lost:
            self.lose(one.lease)
        else:
            self._lane.put(self._verdict(one))

    def _verdict(self, one: NotPermitted) -> Verdict:
        if one.raised is not None:
            return self._runner.judge(one.lease, one.raised)
        return hold(one.lease, one.wait, one.code, one.message)

    def _after_cancellation(self, batch: list[Lease[Any]], error: asyncio.CancelledError) -> None:
        """Decide about rows whose handler was cancelled: because the lease is gone, because we stop, or by the handler
        itself. The last is a failure: given back, such a row would be claimed again at once, for ever."""
        for lease in batch:
            if lease.settled:
                self._in_flight.remove(lease)
            elif lease.lost:
                self.lose(lease)
            elif self.stopping:
                self.give_back(lease)
            else:
                self._lane.put(self._runner.judge(lease, error))

    def give_back(self, lease: Lease[Any], wait: float = 0.0) -> None:
        if self._gate is not None:
            self._gate.forgo(lease)
        self._lane.put(Verdict(lease, lifecycle.RELEASE, wait))

    def lose(self, lease: Lease[Any]) -> None:
        """Report a row that somebody else holds as lost. Nothing is written for it."""
        if self._gate is not None:
            self._gate.forgo(lease)
        self._report.lost += 1
        self._events.lost(Verdict(lease, lifecycle.RELEASE))
        self._in_flight.remove(lease)

    def cancel(self, lease: Lease[Any]) -> bool:
        """Cancel the handler of a lease that is gone, if it can be cancelled. Return False if it has not begun."""
        task = self._tasks.get(lease)
        if task is not None and not self._handler.threaded and self._handler.batch is None:
            task.cancel()
        return task is not None

    @property
    def overdue(self) -> bool:
        """Whether the thread of this slot still runs a row past its time-out."""
        return self._runner.overdue

    async def wait_for_overdue_thread(self) -> None:
        """Wait for the thread of this slot if it still runs a row past its time-out."""
        await self._runner.wait_for_overdue_thread()

    async def close(self, seconds: float) -> None:
        """After the grace period, give back rows whose handlers can't be stopped; their late results are refused. A
        `settling()` block that is committing gets `seconds` to finish."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while any(lease.phase is Phase.COMMITTING for lease in self._tasks):
                    await asyncio.sleep(COMMIT_POLL)
        for lease in self._tasks:
            if not lease.lost and lease.take_verdict():
                self.give_back(lease)
        self._runner.close()

    @property
    def left_behind(self) -> int:
        """The number of handlers that still run, in threads or in spite of a cancellation."""
        return max(self._runner.threads_at_work, len(self._tasks))
