"""Writes verdicts to the database, many in one statement, each queue by itself."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from sys import getsizeof
from time import monotonic
from typing import Any

from rowmill.model import judge
from rowmill.model.batch_size import BatchSize
from rowmill.model.dead_rows import DeadRow, facts_of, notify_dead
from rowmill.model.errors import PermanentError
from rowmill.model.judge import Failure, Verdict
from rowmill.model.lease import BatchBlock, Lease, Outcomes, SettlingBlock
from rowmill.model.lifecycle import DIE, DONE, RELEASE
from rowmill.model.outcome import Answer, Outcome
from rowmill.model.settle_lag import SettleLag
from rowmill.observe.events import Events
from rowmill.store.port import Delay, Store
from rowmill.store.rows import fetch
from rowmill.worker.changed_rows import ChangedRows
from rowmill.worker.in_flight import InFlight
from rowmill.worker.report import Report

WAITING = 5000
"""Verdicts of one queue that may wait to be written before its handlers have to wait, too."""
TRIES_ALONE = 3
"""How often the statement of a single verdict may be cancelled before its row is given up."""
RETRY_FIRST, RETRY_MOST = 0.1, 2.0
"""Seconds until delayed verdicts are tried again."""
NOTICE_SECONDS = 3.0
"""How long a finished row may stay unwritten before it is reported."""
REMIND_SECONDS = 60.0
SMALL_RESULT = 1024
"""Bytes of a verdict's values that are not counted: at most WAITING verdicts are held."""


class Settler:
    """Takes verdicts from the slots and hands each to the lane of its queue. A slow queue holds up no other."""

    def __init__(
        self,
        store: Store,
        in_flight: InFlight,
        report: Report,
        events: Events,
        chance: Callable[[], float],
        changed_rows: ChangedRows,
    ) -> None:
        self.changed_rows = changed_rows
        self._store = store
        self._in_flight = in_flight
        self._report = report
        self._events = events
        self._chance = chance
        self._lanes: dict[str, SettleLane] = {}
        self._new_lane = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.on_settled: Callable[[Verdict], None] = lambda verdict: None

    @property
    def idle(self) -> bool:
        return all(lane.idle for lane in self._lanes.values())

    @property
    def progress(self) -> int:
        """A number that grows while verdicts are written, or tried in smaller statements."""
        return sum(lane.progress for lane in self._lanes.values())

    def lane(self, queue: str) -> "SettleLane":
        lane = self._lanes.get(queue)
        if lane is None:
            lane = self._lanes[queue] = SettleLane(self, self._store, self._in_flight)
            self._new_lane.set()
        return lane

    def put(self, verdict: Verdict) -> None:
        self.lane(verdict.lease.queue.name).put(verdict)

    def lags(self) -> dict[str, SettleLag]:
        """Return, by queue, what is finished and could not be written for a while, and how slow statements are."""
        return {name: lag for name, lane in self._lanes.items() if (lag := lane.lag()) is not None}

    # The modules of blocks are imported by the first block: sessions need the ORM, which takes 6 MB.

    def settling(self, lease: Lease[Any], outcome: Outcome | None) -> SettlingBlock:
        from rowmill.model.transaction import AsyncBlockSession, BlockSession
        from rowmill.worker.settling import Settling

        def judged(leases: Sequence[Lease[Any]]) -> list[Verdict]:
            return [self._judged(lease, outcome)]

        return Settling(self._store, [lease], (AsyncBlockSession, BlockSession), judged, self._written)

    def settling_batch(self, leases: Sequence[Lease[Any]], outcomes: Outcomes) -> BatchBlock:
        from rowmill.model.transaction import AsyncBatchTransaction, BatchTransaction
        from rowmill.worker.settling import BatchSettling

        def judged(held: Sequence[Lease[Any]]) -> list[Verdict]:
            answers = judge.spread(leases, outcomes)
            return [self._judged(lease, answers.get(lease.key)) for lease in held]

        sessions = AsyncBatchTransaction, BatchTransaction
        return BatchSettling(self._store, leases, sessions, judged, self._written)

    def _judged(self, lease: Lease[Any], answer: Answer | BaseException) -> Verdict:
        """Return the verdict of a `settling()` block. Raises if a strict worker refuses it, so that the block is rolled
        back."""
        verdict = judge.judge(lease, answer, self._chance())
        checked = self.changed_rows.check(verdict)
        if checked is not verdict:
            raise PermanentError(checked.message, code=checked.code)
        return verdict

    async def fetch(self, lease: Lease[Any], column: str) -> Any:
        """Read a column that was left out of a claim. See `Lease.fetch`."""
        value, weight = await fetch(self._store, lease, column)
        if weight:
            self._in_flight.grow(lease, weight)
        return value

    def fetch_sync(self, lease: Lease[Any], column: str) -> Any:
        """`fetch` for a handler in a thread: the loop does the reading."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            assert self._loop is not None
            return asyncio.run_coroutine_threadsafe(self.fetch(lease, column), self._loop).result()
        raise RuntimeError(f"this handler runs on the loop. Write: await lease.fetch({column!r})")

    def _written(self, verdicts: list[Verdict]) -> None:
        """Report rows that a handler settled itself. It may have done so in a thread: the reporting belongs on the
        loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            with suppress(RuntimeError):  # the loop is gone: so is who wanted to know
                assert self._loop is not None
                self._loop.call_soon_threadsafe(self.report_written, verdicts)
        else:
            self.report_written(verdicts)

    def report_written(self, verdicts: list[Verdict]) -> None:
        """Count verdicts that were written, and report them. Most successes interest no observer, and are only
        counted."""
        for move, rows in Counter([verdict.move.name for verdict in verdicts]).items():
            self._report.count(move, rows)
        watched = self._events.watched
        for verdict in verdicts:
            if watched or verdict.move is not DONE or verdict.lease.queue.per is not None:
                self._events.settled(verdict)
                self.on_settled(verdict)
                if verdict.move is DIE:
                    notify_dead(verdict.lease.queue, [_death(verdict)])

    async def run(self) -> None:
        """Write until cancelled. An error in one lane ends all of them."""
        self._loop = asyncio.get_running_loop()
        tasks = {asyncio.create_task(self._report_lags(), name="settler lags")}
        started: set[str] = set()
        try:
            while True:
                self._new_lane.clear()
                for name, lane in self._lanes.items():
                    if name not in started:
                        started.add(name)
                        tasks.add(asyncio.create_task(lane.run(), name=f"settler {name}"))
                        tasks.add(asyncio.create_task(lane.run_delayed(), name=f"settler {name} delayed"))
                new = asyncio.create_task(self._new_lane.wait(), name="settler new lane")
                try:
                    done, _ = await asyncio.wait({new, *tasks}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    new.cancel()
                for task in done - {new}:
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _report_lags(self) -> None:
        """Report when finished rows could not be written for a while, again while it lasts, and when it is over."""
        said: dict[str, float] = {}
        now = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(NOTICE_SECONDS / 4)
            late = {name: lag for name, lag in self.lags().items() if lag.rows}
            for name, lag in late.items():
                if now() - said.get(name, float("-inf")) >= REMIND_SECONDS:
                    said[name] = now()
                    self._events.settle_delayed(name, lag.rows, lag.seconds, lag.reason)
            for name in set(said) - set(late):
                del said[name]
                self._events.settle_resumed(name)

    async def finish(self, stalled: float) -> bool:
        """Write what is left, for as long as there is progress. Return False if there was none for `stalled`
        seconds."""
        now = asyncio.get_running_loop().time
        moved, progress = now(), self.progress
        flushing = asyncio.gather(*(lane.finish() for lane in self._lanes.values()))
        try:
            while not flushing.done():
                await asyncio.wait({flushing}, timeout=0.05)
                if self.progress > progress:
                    moved, progress = now(), self.progress
                elif now() - moved > stalled:
                    return False
            await flushing
            return True
        finally:
            flushing.cancel()
            await asyncio.gather(flushing, return_exceptions=True)

    def lose(self, verdict: Verdict) -> None:
        verdict.lease.lost = True
        self._report.lost += 1
        self._events.lost(verdict)
        self._in_flight.remove(verdict.lease)

    def mark_written(self, verdicts: list[Verdict]) -> None:
        """Count verdicts that were written, and take their leases out of flight."""
        self._in_flight.remove(*[verdict.lease for verdict in verdicts])
        self.report_written(verdicts)

    def refuse(self, verdict: Verdict, reason: str, code: str = "") -> None:
        """Make a row dead whose verdict the database refused: for its values, or for the move itself, as a unique key
        over open rows may. If even that is refused, or it was a release, only the end of its lease helps."""
        self._report.refused += 1
        if verdict.values:
            reason = judge.reason_of_refusal(verdict, reason)
            second = judge.refuse(verdict.lease, code or "value_refused", f"the database refused the values: {reason}")
        elif verdict.move not in (DIE, RELEASE):
            second = judge.refuse(
                verdict.lease, code or "move_refused", f"the table refuses the move {verdict.move.name}: {reason}"
            )
        else:
            self._events.stuck(verdict, reason)
            self._in_flight.remove(verdict.lease)
            return
        second.ran, second.failure = verdict.ran, Failure(reason=reason)
        self.put(second)


class SettleLane:
    """The verdicts of one queue that wait to be written. Those that can't be written now, because a row is locked, are
    tried again beside the others, which do not wait for them."""

    def __init__(self, settler: Settler, store: Store, in_flight: InFlight) -> None:
        self._settler, self._store, self._in_flight = settler, store, in_flight
        self._pending: deque[Verdict] = deque()
        self._writing: list[Verdict] = []
        self._delayed: list[Verdict] = []
        """Verdicts that could not be written. They stay here while they are tried again."""
        self._size = BatchSize()
        self._retry = RETRY_FIRST
        self._has_pending = asyncio.Event()
        self._has_delayed = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._retrying = asyncio.Lock()
        self.room = asyncio.Event()
        self.room.set()
        self.progress = 0

    @property
    def idle(self) -> bool:
        return not self._pending and not self._delayed and not self._flushing.locked()

    def put(self, verdict: Verdict) -> None:
        """Add a verdict to be written."""
        lease = verdict.lease
        lease.take_verdict()
        if verdict.values and (size := sum(map(getsizeof, verdict.values.values()))) > SMALL_RESULT:
            self._in_flight.grow(lease, size)
        self._pending.append(verdict)
        pending = len(self._pending)
        if pending == 1:  # before that the event is set already
            self._has_pending.set()
        if pending + len(self._delayed) >= WAITING:
            self.room.clear()

    async def run(self) -> None:
        while True:
            await self._has_pending.wait()
            await self.flush()

    async def run_delayed(self) -> None:
        while True:
            await self._has_delayed.wait()
            await asyncio.sleep(self._retry)
            await self.flush_delayed()

    async def finish(self) -> None:
        """Wait until nothing is left to be written."""
        while not self.idle:
            await self.flush()
            if self._delayed:
                await self.flush_delayed()
                if self._delayed and not self._pending:
                    await asyncio.sleep(self._retry)

    async def flush(self) -> None:
        """Write pending verdicts, as many as one statement takes."""
        async with self._flushing:
            self._writing = self._take_pending(self._size.rows)
            self._update_events()
            if self._writing:
                # While some rows are known to be locked, more of them may be.
                delayed = await self._write(self._writing, skip_locked=bool(self._delayed))
                self._delayed += delayed  # by now: they may have been tried again, and written, meanwhile
                self._writing = []
                self._update_events()

    def _take_pending(self, most: int) -> list[Verdict]:
        if len(self._pending) > most:
            return [self._pending.popleft() for _ in range(most)]
        taken = list(self._pending)
        self._pending.clear()
        return taken

    async def flush_delayed(self) -> None:
        """Try once more what could not be written."""
        async with self._retrying:
            batch = self._delayed[: self._size.rows]
            if batch:
                still = await self._write(batch, skip_locked=True)
                self._delayed = self._delayed[len(batch) :] + still
                self._retry = RETRY_FIRST if len(still) < len(batch) else min(self._retry * 2, RETRY_MOST)
            self._update_events()

    def _update_events(self) -> None:
        for event, is_set in (
            (self._has_pending, bool(self._pending)),
            (self._has_delayed, bool(self._delayed)),
            (self.room, len(self._pending) + len(self._delayed) < WAITING),
        ):
            event.set() if is_set else event.clear()

    async def _write(self, batch: list[Verdict], *, skip_locked: bool) -> list[Verdict]:
        """Write verdicts; return those to try again after a while."""
        began = monotonic()
        settled = await self._store.settle(batch, skip_locked=skip_locked)
        took = monotonic() - began
        for verdict in settled.lost:
            self._settler.lose(verdict)
        for verdict, reason in settled.refused:
            self._settler.refuse(verdict, reason)
        for verdict, delay in settled.delayed:
            verdict.late = replace(verdict.late, delay=delay)
        cancelled = [verdict for verdict, delay in settled.delayed if delay is Delay.TIMEOUT]
        if cancelled:
            self._size.cut(took, len(batch))
        elif not settled.delayed:
            self._size.took(took, len(batch))
        missing = {id(verdict) for verdict in settled.lost}
        missing.update(id(verdict) for verdict, _ in (*settled.refused, *settled.delayed))
        self._settler.mark_written([verdict for verdict in batch if id(verdict) not in missing] if missing else batch)
        again = [verdict for verdict, delay in settled.delayed if delay is Delay.LOCKED]
        self.progress += len(batch) - len(again)
        if len(batch) == 1:
            again += [verdict for verdict in cancelled if not self._give_up(verdict)]
        else:
            self._pending.extendleft(reversed(cancelled))
        return again

    def _give_up(self, verdict: Verdict) -> bool:
        """Refuse a verdict whose own statement was cancelled too often. Return whether it was."""
        verdict.late = replace(verdict.late, cancelled_alone=verdict.late.cancelled_alone + 1)
        if verdict.late.cancelled_alone < TRIES_ALONE:
            return False
        self._settler.refuse(verdict, "its own statement was cancelled again and again", "settle_timeout")
        return True

    def lag(self) -> SettleLag | None:
        """Return what is late; None if nothing is and statements are quick."""
        now = monotonic()
        waiting = (*self._delayed, *self._writing, *self._pending)
        for verdict in waiting:
            if not verdict.late.since:
                verdict.late = replace(verdict.late, since=now)
        late = [verdict for verdict in waiting if verdict.late.since < now - NOTICE_SECONDS]
        if not late and not self._size.seconds_per_row:
            return None
        reasons = {verdict.late.delay or Delay.PENDING for verdict in late}
        return SettleLag(
            rows=len(late),
            seconds=round(now - min((verdict.late.since for verdict in late), default=now), 1),
            reason=next((reason for reason in Delay if reason in reasons), ""),
            keys=[verdict.lease.queue.key_text(verdict.lease.key) for verdict in late[: SettleLag.MOST_KEYS]],
            cancelled=self._size.cancelled,
            batch=self._size.rows,
            seconds_per_row=round(self._size.seconds_per_row, 6),
        )


def _death(verdict: Verdict) -> DeadRow:
    lease = verdict.lease
    facts = facts_of(lease.queue, lambda: lease.row)
    return DeadRow(lease.key, lease.attempt, verdict.code, verdict.message, facts)
