"""One stage at work: it claims, holds what is claimed, and feeds its slots."""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from sqlalchemy.exc import DBAPIError

from rowmill.model import lifecycle
from rowmill.model.judge import Verdict, refuse
from rowmill.model.lease import Lease
from rowmill.model.queue import Handler, Queue
from rowmill.model.words import Step
from rowmill.observe.events import Events
from rowmill.store import rescuing
from rowmill.store.port import Disconnected, Store
from rowmill.work.hand import Hand
from rowmill.work.pace import Pace
from rowmill.work.report import Report
from rowmill.work.runner import Runner
from rowmill.work.settings import WorkerSettings
from rowmill.work.settler import Settler

BREATH = 10
"""Rows that a slot runs before it lets the rest of the loop have a turn, if no handler waited for anything."""
STALE = 2.0
"""Seconds that a claimed row may lie ready here while every slot is taken, before it is given to others."""
BUSY = 1.0
"""Seconds of work without a pause after which producers need not wake us any more."""
SPREAD = 2.0
"""Seconds over which suspects that wait for their turn alone are spread."""
WARY = 5.0
"""Seconds after a suspect in which we claim only what can begin at once: all of it goes back for the next one."""


class Station:
    """The claimer and the slots of one stage of one queue."""

    def __init__(
        self,
        store: Store,
        queue: Queue[Any],
        step: Step,
        handler: Handler,
        hand: Hand,
        settler: Settler,
        report: Report,
        events: Events,
        settings: WorkerSettings,
    ) -> None:
        self.queue, self.step, self.handler = queue, step, handler
        self._store, self._hand, self._settler = store, hand, settler
        self._report, self._events, self._settings = report, events, settings
        overdue = partial(events.overdue, queue.name, step.name, handler.concurrency)
        self._runner = Runner(handler, random.random, overdue)
        self._pace = Pace(handler.concurrency, handler.batch)
        self._waiting: deque[Lease[Any]] = deque()
        self._since = 0.0
        self._slept_at = 0.0
        self._running = 0
        self._slots: dict[Lease[Any], asyncio.Task[None]] = {}
        self._fed = asyncio.Event()
        self._needed = asyncio.Event()
        self._woken = asyncio.Event()
        self.claimer: asyncio.Task[None] | None = None
        self.alone: asyncio.Task[None] | None = None
        """The suspect that runs alone, if there is one."""
        self._wary_until = 0.0
        hand.not_begun.append(self._return_waiting)
        self.stopping = False
        self.paused: Callable[[], bool] = lambda: False
        self._empty_at = -1.0
        """When a claim last found nothing, on the loop's clock; reset by rows."""
        self._woken_at = 0.0
        self.ran_at = 0.0
        """When a handler last came to its end, on the loop's clock: it may have put rows into any queue."""
        self._owes_until = -1.0
        """When the last of the suspects that we gave back can be claimed again, on the loop's clock."""

    def wake(self) -> None:
        """There may be rows: claim now."""
        self._woken_at = asyncio.get_running_loop().time()
        self._woken.set()

    def owe(self, at: float) -> None:
        """A row that we gave back can be claimed again at this time: until then, the queue is not empty."""
        self._owes_until = max(self._owes_until, at)

    def look_again(self, since: float) -> None:
        """Somebody waits to hear that nothing is left: no reason to sleep before the claim that finds nothing."""
        if not self.busy and not self.empty(since) and asyncio.get_running_loop().time() > self._owes_until:
            self._woken.set()

    def empty(self, since: float) -> bool:
        """A claim after this time found nothing, and nothing that we know of has come after it."""
        return self._empty_at > max(since, self._woken_at, self._owes_until)

    @property
    def busy(self) -> bool:
        return bool(self._running or self._waiting or (self.alone and not self.alone.done()))

    def tasks(self) -> list[asyncio.Task[None]]:
        name = f"{self.queue.name}/{self.step.name}"
        slots = [asyncio.create_task(self._slot(), name=f"{name} slot {n}") for n in range(self.handler.concurrency)]
        self.claimer = asyncio.create_task(self._claim(), name=f"{name} claimer")
        return [self.claimer, *slots]

    async def _claim(self) -> None:
        loop = asyncio.get_running_loop()
        pause = self._settings.poll_base
        while True:
            await self._hand.opened()
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
            wanted = self._pace.wanted(len(self._waiting), self._running * (self.handler.batch or 1))
            if loop.time() < self._wary_until:
                wanted = min(wanted, self._pace.width)
            if not wanted:
                await self._until(self._needed, STALE / 2)
                continue
            self._woken.clear()
            try:
                asked = loop.time()
                async with self._hand.claiming():
                    leases = await self._store.claim(self.queue, self.step, wanted)
                    self._hand.take(leases)
                self._events.back(who="claim")
            except Disconnected as error:
                self._events.away(str(error), who="claim")
                await self._until(self._woken, pause * (0.5 + random.random()))
                pause = min(pause * 2, self._settings.poll_max)
                continue
            if leases:
                pause = self._settings.poll_base
                self._empty_at = -1.0
                await self._take(leases)
            if len(leases) == wanted:
                if asked - self._slept_at > BUSY:
                    await self._store.busy([self.queue])
            else:
                if not leases:
                    self._empty_at = asked
                await self._idle(pause)
                self._slept_at = loop.time()
                if not leases:
                    pause = min(pause * 1.5, self._settings.poll_max)

    async def _idle(self, pause: float) -> None:
        """Sleep until rows may have come, or a slot here made some."""
        if self.stopping or self._woken.is_set():
            return
        woken = asyncio.ensure_future(self._woken.wait())
        called = asyncio.ensure_future(self._store.wait([self.queue], pause * (0.75 + random.random() / 2), self))
        try:
            await asyncio.wait({woken, called}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
            called.cancel()
            [answer] = await asyncio.gather(called, return_exceptions=True)
        if isinstance(answer, Exception):
            # Waking up is a convenience. Without it we look now and then, and no more often than that.
            self._events.deaf(self.queue.name, type(answer).__name__)
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
        leases = await self._without_suspects(leases)
        if self.stopping or self._hand.closed or self.paused():
            for lease in leases:
                self._give_back(lease)
            return
        if leases:
            if not self._waiting:
                self._since = asyncio.get_running_loop().time()
            self._waiting.extend(leases)
            self._fed.set()

    async def _without_suspects(self, leases: list[Lease[Any]]) -> list[Lease[Any]]:
        """A row whose last attempt ended with the death of its worker may have killed it. Its last chance it
        gets alone, so that it can't take others with it; one at a time, the rest come back a little later."""
        last = [lease for lease in leases if lease.last_attempt and self.step.retry.attempts > 1]
        if not last:
            return leases
        try:
            keys = await self._store.crashed(self.queue, last)
        except Disconnected:
            keys = set()
        suspects = [lease for lease in last if lease.key in keys]
        if not suspects:
            return leases
        self._wary_until = asyncio.get_running_loop().time() + WARY
        if not self.stopping and (self.alone is None or self.alone.done()) and self._hand.close():
            name = f"{self.queue.name}/{self.step.name} suspect"
            self.alone = asyncio.create_task(self._run_alone(suspects.pop(0)), name=name)
            self.alone.add_done_callback(lambda _: self._woken.set())
        for lease in suspects:
            self._give_back(lease, random.random() * SPREAD)
        return [lease for lease in leases if lease.key not in keys]

    async def _run_alone(self, lease: Lease[Any]) -> None:
        task, waits = asyncio.current_task(), True
        assert task is not None
        try:
            async with self._hand.alone(lease):
                waits = False
                if self.stopping:
                    self._give_back(lease)
                elif await self._on_trial(lease):
                    await self._work([lease], task)
                    self.ran_at = asyncio.get_running_loop().time()
                await self._hand.settled(lease)
        except asyncio.CancelledError:
            if waits:
                self._give_back(lease)
            raise
        await self._runner.rested()

    async def _on_trial(self, lease: Lease[Any]) -> bool:
        """Note that it begins: only a row that had begun, alone, is to blame for the death of its worker. One that
        can't be noted must not begin: it would be acquitted, and kill workers for ever."""
        try:
            terms = self._store.terms(self.queue)
            noted = await self._store.run(partial(rescuing.on_trial, terms=terms, lease=lease))
        except DBAPIError as error:
            if rescuing.is_refusal(error):
                why = f"the table does not let its last attempt be noted: {type(error.orig).__name__}"
                self._settler.put(refuse(lease, "move_refused", why))
            else:
                self._give_back(lease, random.random() * SPREAD)
            return False
        except Disconnected:
            self._give_back(lease)
            return False
        except BaseException:
            self._give_back(lease)
            raise
        if not noted:
            self._lose(lease)
        return noted

    def _return_stale(self, now: float) -> None:
        """Rows that lie here while long handlers hold every slot, and none moves, go back for others to take."""
        full = self._running >= self.handler.concurrency
        if self._waiting and full and now - self._since > STALE:
            self._pace.ran(STALE * self._pace.width)
            self._return_waiting()

    def _return_waiting(self) -> None:
        while self._waiting:
            self._give_back(self._waiting.popleft())

    def _give_back(self, lease: Lease[Any], wait: float = 0.0) -> None:
        self._settler.put(Verdict(lease, lifecycle.RELEASE, wait))

    async def _slot(self) -> None:
        turns, now, task = 0, asyncio.get_running_loop().time, asyncio.current_task()
        assert task is not None
        while True:
            while not self._waiting:
                if self.stopping:
                    return
                self._needed.set()
                self._fed.clear()
                await self._fed.wait()
            batch = [self._waiting.popleft() for _ in range(min(self.handler.batch or 1, len(self._waiting)))]
            if len(self._waiting) <= self._pace.low:
                self._needed.set()
            self._running += 1
            self._since = now()
            try:
                await self._work(batch, task)
                if self.handler.threaded:
                    await self._runner.rested()
            finally:
                self._running -= 1
                self.ran_at = now()
            turns += 1
            if turns % BREATH == 0:
                await self._settler.room()
                await asyncio.sleep(0)

    async def _work(self, batch: list[Lease[Any]], task: "asyncio.Task[Any]") -> None:
        for lease in batch:
            self._slots[lease] = task
        began = time.perf_counter()
        try:
            if self.handler.batch is None:
                verdict = await self._runner.one(batch[0])
                verdicts = [] if verdict is None else [verdict]
            else:
                verdicts = await self._runner.many(batch)
        except asyncio.CancelledError as error:
            self._cut_short(batch, error)
            if self.stopping:
                raise
            return
        finally:
            for lease in batch:
                self._slots.pop(lease, None)
            # A cancellation was for these rows alone: if it stayed counted, the next handler would suffer from it.
            while task.cancelling() and not self.stopping:
                task.uncancel()
        ran = (time.perf_counter() - began) / len(batch)
        self._pace.ran(ran)
        for verdict in verdicts:
            verdict.ran = ran
            self._settler.put(verdict)
        if len(verdicts) < len(batch):
            settled = {verdict.lease for verdict in verdicts}
            for lease in batch:
                if lease not in settled:
                    self._lose(lease) if lease.lost and not lease.settled else self._hand.put_down(lease)

    def _cut_short(self, batch: list[Lease[Any]], error: asyncio.CancelledError) -> None:
        """A handler was cancelled: because its lease is gone, because we stop, or by its own doing, which is a
        failure like any other. Given back instead, such a row would come again at once, for ever."""
        for lease in batch:
            if lease.settled:
                self._hand.put_down(lease)
            elif lease.lost:
                self._lose(lease)
            elif self.stopping:
                self._give_back(lease)
            else:
                self._settler.put(self._runner.judge(lease, error))

    def _lose(self, lease: Lease[Any]) -> None:
        """Nothing is written for a row that somebody else holds."""
        self._report.lost += 1
        self._events.lost(Verdict(lease, lifecycle.RELEASE))
        self._hand.put_down(lease)

    def cut(self, lease: Lease[Any]) -> None:
        """The lease is gone: stop its handler, whose result nobody will take."""
        task = self._slots.get(lease)
        if task is not None and not self.handler.threaded and self.handler.batch is None:
            task.cancel()
        elif task is None:
            try:
                self._waiting.remove(lease)
            except ValueError:
                return
            self._lose(lease)

    def stop(self) -> None:
        """Claim no more; what has not begun goes back."""
        self.stopping = True
        self._return_waiting()
        self._woken.set()
        self._needed.set()
        self._fed.set()

    def close(self) -> None:
        """After the grace period: rows whose handlers can't be stopped go back; late results will be refused."""
        for lease in self._slots:
            if not lease.settled and not lease.lost:
                self._give_back(lease)
        self._runner.close()

    @property
    def left_behind(self) -> int:
        """Handlers that still run, in threads or in spite of a cancellation."""
        return max(self._runner.threads_at_work, len(self._slots))
