"""Writes verdicts, many in one statement."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from sys import getsizeof
from typing import Any

from rowmill.model import judge
from rowmill.model.death import Death, facts_of, mourn
from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease, SettlingBlock
from rowmill.model.lifecycle import DIE, DONE, RELEASE
from rowmill.model.outcome import Outcome
from rowmill.observe.events import Events
from rowmill.store.fetching import fetch
from rowmill.store.port import Store
from rowmill.store.settling import Settling
from rowmill.work.hand import Hand
from rowmill.work.report import Report

MOST = 1000
"""Verdicts in one flush."""
WAITING = 5000
"""Verdicts that may wait for a flush before handlers have to wait with them."""


class Settler:
    """Takes verdicts from the slots and flushes what has gathered while the last flush was under way."""

    def __init__(self, store: Store, hand: Hand, report: Report, events: Events, chance: Callable[[], float]) -> None:
        self._store = store
        self._hand = hand
        self._report = report
        self._events = events
        self._chance = chance
        self._pending: list[Verdict] = []
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._flushing = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.on_settled: Callable[[Verdict], None] = lambda verdict: None

    @property
    def idle(self) -> bool:
        return not self._pending and not self._flushing.locked()

    def put(self, verdict: Verdict) -> None:
        if verdict.values:  # they lie here until they are written, beside the row
            self._hand.grow(verdict.lease, sum(map(getsizeof, verdict.values.values())))
        self._pending.append(verdict)
        self._work.set()
        if len(self._pending) >= WAITING:
            self._room.clear()

    async def room(self) -> None:
        """Wait while too much waits to be written."""
        await self._room.wait()

    def settling(self, lease: Lease[Any], outcome: Outcome | None) -> SettlingBlock:
        return Settling(
            self._store,
            lambda: judge.judge(lease, outcome, self._chance()),
            self._written,
        )

    async def fetch(self, lease: Lease[Any], column: str) -> Any:
        """Read a column that was left out of a claim. See `Lease.fetch`."""
        value, weight = await fetch(self._store, lease, column)
        if weight:
            self._hand.grow(lease, weight)
        return value

    def fetch_sync(self, lease: Lease[Any], column: str) -> Any:
        """The same for a handler in a thread, while the loop goes on."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            assert self._loop is not None
            return asyncio.run_coroutine_threadsafe(self.fetch(lease, column), self._loop).result()
        raise RuntimeError(f"this handler runs on the loop. Write: await lease.fetch({column!r})")

    def _written(self, verdict: Verdict) -> None:
        """A handler settled its row itself, perhaps in a thread: what follows belongs on the loop."""
        verdict.lease.settled = True
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            with suppress(RuntimeError):  # the loop is gone: so is who wanted to know
                assert self._loop is not None
                self._loop.call_soon_threadsafe(self._tell, [verdict])
        else:
            self._tell([verdict])

    def _tell(self, verdicts: list[Verdict]) -> None:
        """Whoever wants to know: nobody, of most successes."""
        for move, rows in Counter([verdict.move.name for verdict in verdicts]).items():
            self._report.count(move, rows)
        watched = self._events.watched
        for verdict in verdicts:
            if watched or verdict.move is not DONE or verdict.lease.queue.per is not None:
                self._events.settled(verdict)
                self.on_settled(verdict)
                if verdict.move is DIE:
                    mourn(verdict.lease.queue, [_death(verdict)])

    async def run(self) -> None:
        """Flush until cancelled."""
        self._loop = asyncio.get_running_loop()
        while True:
            await self._work.wait()
            await self.flush()

    async def finish(self) -> None:
        """Return when nothing waits to be written any more."""
        while not self.idle:
            await self.flush()

    async def flush(self) -> None:
        """Write what is pending now."""
        async with self._flushing:
            self._work.clear()
            batch, self._pending = self._pending[:MOST], self._pending[MOST:]
            if self._pending:
                self._work.set()
            if len(self._pending) < WAITING:
                self._room.set()
            if batch:
                await self._write(batch)

    async def _write(self, batch: list[Verdict]) -> None:
        settled = await self._store.settle(batch)
        missing = set()
        for verdict in settled.lost:
            missing.add(id(verdict))
            verdict.lease.lost = True
            self._report.lost += 1
            self._events.lost(verdict)
            self._hand.put_down(verdict.lease)
        for verdict, reason in settled.refused:
            missing.add(id(verdict))
            self._refused(verdict, reason)
        written = [verdict for verdict in batch if id(verdict) not in missing] if missing else batch
        self._hand.put_down(*[verdict.lease for verdict in written])
        self._tell(written)

    def _refused(self, verdict: Verdict, reason: str) -> None:
        """The values are wrong, or else the table refuses the move itself, as a unique key over open rows may: the
        row is dead then. If it can't even be that, or be given back, only the end of its lease helps."""
        self._report.refused += 1
        if verdict.values:
            second = judge.refuse(verdict.lease, "value_refused", f"the database refused the values: {reason}")
        elif verdict.move not in (DIE, RELEASE):
            second = judge.refuse(
                verdict.lease, "move_refused", f"the table refuses the move {verdict.move.name}: {reason}"
            )
        else:
            self._events.stuck(verdict, reason)
            self._hand.put_down(verdict.lease)
            return
        second.ran = verdict.ran
        self.put(second)


def _death(verdict: Verdict) -> Death:
    lease = verdict.lease
    facts = facts_of(lease.queue, lambda: lease.row)
    return Death(lease.key, lease.attempt, verdict.code, verdict.message, facts)
