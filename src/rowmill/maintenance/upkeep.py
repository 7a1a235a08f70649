"""The service that keeps the fleet in order: heartbeats, leadership, rescue and cleanup.

Leadership is one row with an end, renewed while its holder lives. It saves work, nothing else: two leaders at
once do no harm, since every rescue is guarded in its own statement.
"""

import asyncio
import math
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from rowmill.maintenance import cleanup
from rowmill.model.batch_size import BatchSize
from rowmill.model.dead_rows import notify_dead
from rowmill.model.lease import worker_of
from rowmill.model.queue import QueueSpec
from rowmill.model.settle_lag import SettleLag, as_text
from rowmill.observe.events import Events
from rowmill.store import rescue as rescuing
from rowmill.store.own import fleet
from rowmill.store.port import Disconnected, Store
from rowmill.worker.settings import WorkerSettings

SHARE = 0.02
"""The share of time that sweeps over everything may take."""
LONGEST = 60.0
MARGIN = 10.0
"""Seconds before the last sweep that the next one looks at again: a row may have been locked, or its claim not yet
committed."""


class SweepReach:
    """How far back sweeps of one stage look. They look at everything while that is cheap; where it is expensive, they
    do so now and then, and otherwise only at leases that expired since the last sweep.

    The index of running rows is ordered by the end of their leases. While an old transaction is open, its entries of
    rows that were settled long ago can't be removed, and a sweep that starts with the oldest has to read all of them.
    """

    def __init__(self) -> None:
        self._everything_at = self._last = float("-inf")

    def back(self, now: float) -> float | None:
        """Return how many seconds to look back; None for everything. It grows in steps, so that sweeps share prepared
        statements."""
        if now >= self._everything_at:
            return None
        return MARGIN * (2 + (now - self._last) // MARGIN)

    def swept(self, began: float, ended: float, back: float | None, *, left: bool) -> None:
        """Learn from a sweep that looked `back` so far. `left` says that it stopped at its limit of rows."""
        self._last = began
        if left:
            self._everything_at = ended
        elif back is None:
            self._everything_at = ended + min((ended - began) / SHARE, LONGEST)


GRACE = 5.0
"""Seconds between the two looks, or the length of a shorter lease."""
SILENT_BEATS = 3
"""A living worker sends at least one heartbeat in this number of intervals, unless the database is away."""


class SecondLook:
    """Lets the worker of an expired lease renew it: a row is rescued at the second look, not at the first. The
    process's own clock decides only when to look again.

    A lease can expire while its worker lives: the database stalled for everybody, or somebody had locked the row and
    the renewal passed over it. To rescue the row would throw finished work away. It is rescued at once only if its
    worker has signed off, or sent no heartbeat while others did.
    """

    def __init__(self, heartbeat: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._silence = heartbeat * SILENT_BEATS
        self._answered_at = self._healthy_since = float("-inf")
        self._due: defaultdict[tuple[str, str], dict[tuple[int, str], float]] = defaultdict(dict)
        """By queue and stage: when a row that was seen expired may be rescued, by its token and key."""

    def answered(self) -> None:
        """Note that the database has answered. After a stall, it takes a while until heartbeats of all living workers
        have arrived."""
        now = self._clock()
        if now - self._answered_at > self._silence:
            self._healthy_since = now
        self._answered_at = now

    def sparing(self, queue: str, stage: str) -> set[int]:
        """Return the tokens of this stage whose first look was a moment ago."""
        now = self._clock()
        return {token for (token, _), due in self._due[queue, stage].items() if now < due}

    def waits_for(self, queue: str, stage: str) -> bool:
        """Return whether rows of this stage wait for their second look."""
        return bool(self._due[queue, stage])

    def wait(self) -> float | None:
        """Return the seconds until the next second look is due; None if none is."""
        due = [at for rows in self._due.values() for at in rows.values()]
        return max(min(due) - self._clock(), 0.0) if due else None

    def ready(self, connection: Connection, rows: Sequence[Any], *, queue: str, stage: str, lease: float) -> list[Any]:
        """Return the rows that may be rescued now. `rows` are all rows of the stage that are expired, unlocked and not
        spared; `held` of each is its token."""
        now, before = self._clock(), self._due[queue, stage]
        # Those that are due and not among these were renewed, or are locked again.
        due = self._due[queue, stage] = {row: at for row, at in before.items() if now < at}
        holders = {worker_of(row.held) for row in rows if row.held}
        # This very sweep may have waited for the end of a stall.
        heard_all = now - self._healthy_since >= self._silence >= now - self._answered_at
        living = fleet.living(connection, holders, within=self._silence if heard_all else None)
        found = []
        for row in rows:
            about = (row.held, repr(tuple(row)))
            if not row.held or worker_of(row.held) not in living or before.get(about, math.inf) <= now:
                found.append(row)
            else:
                due.setdefault(about, now + min(lease, GRACE))
        return found


TIDY_EVERY = 60.0
STATEMENT_CANCELLED = "57014"
"""The SQLSTATE of a statement that took longer than statement_timeout."""
TICK_SECONDS = 60.0
"""Seconds after which a connection that does not answer is given up."""


class Upkeep:
    """Heartbeats and leadership of one worker; as the leader, rescue, roll-up of throughput, and cleanup."""

    def __init__(
        self,
        store: Store,
        worker: int,
        queues: Sequence[QueueSpec[Any]],
        events: Events,
        settings: WorkerSettings,
        paused: set[tuple[str, str]] | None = None,
    ) -> None:
        self._store = store
        self.worker = worker
        """The number of this worker in the fleet."""
        self._queues = queues
        # A leader keeps the queues that it knows: other applications on this database have their own.
        self._leadership = f"upkeep of {', '.join(sorted(queue.name for queue in queues))}"
        self._events = events
        self._settings = settings
        self.leading = False
        """Whether this worker does the upkeep for the fleet."""
        self._paused = paused or set()
        self.holding: Callable[[], Collection[int]] = lambda: ()
        """Returns the tokens of the rows that this process holds."""
        self.settle_lags: Callable[[], Mapping[str, SettleLag]] = dict
        """Returns what this process has finished and could not write for a while."""
        self._second_look = SecondLook(settings.heartbeat, time.monotonic)
        self._sizes: defaultdict[tuple[str, str], BatchSize] = defaultdict(lambda: BatchSize(settings.rescue_most))
        self._reaches: defaultdict[tuple[str, str], SweepReach] = defaultdict(SweepReach)
        self._rescue_at = 0.0
        self._tidy_at = 0.0

    def paused(self, queue: str, stage: str) -> bool:
        return (queue, "") in self._paused or (queue, stage) in self._paused

    async def run(self) -> None:
        """Send heartbeats, and do the upkeep beside them, so that a table that can't be swept does not make this worker
        look dead."""
        upkeep: asyncio.Task[None] | None = None
        try:
            while True:
                now = asyncio.get_running_loop().time()
                if await self._reports(self.beat(), now) and self.leading and (upkeep is None or upkeep.done()):
                    if upkeep is not None:
                        upkeep.result()
                    upkeep = asyncio.create_task(self._keep_up(now), name="upkeep")
                await asyncio.sleep(self._settings.heartbeat * (0.75 + random.random() / 2))
        finally:
            if upkeep is not None:
                upkeep.cancel()
                await asyncio.gather(upkeep, return_exceptions=True)

    async def _keep_up(self, now: float) -> None:
        await self._reports(self.keep_up(now), now)

    async def _reports(self, work: Awaitable[None], now: float) -> bool:
        """Run a piece of work; return whether it went well. An error of the database becomes an event."""
        try:
            async with asyncio.timeout(TICK_SECONDS):
                await work
        except DBAPIError as error:
            self._events.maintenance_failed("", type(error.orig).__name__)
            return False
        except (Disconnected, OSError) as error:
            self._events.away(type(error).__name__, who="upkeep")
            self.leading = False
            # Leases that ran out meanwhile may belong to workers that live: let them renew first.
            self._rescue_at = now + self._settings.rescue_every
            return False
        self._events.back(who="upkeep")
        self._events.maintenance_succeeded("")
        return True

    async def tick(self, now: float) -> None:
        """Send one heartbeat and, as the leader, do what is due."""
        await self.beat()
        if self.leading:
            await self.keep_up(now)

    async def beat(self) -> None:
        """Send one heartbeat, and try to become or stay the leader."""
        lag = as_text(self.settle_lags())
        beat = await self._store.heartbeat(self.worker, self._leadership, self._settings.heartbeat * 5, lag)
        self._second_look.answered()
        if beat is None:
            self.leading = False
            await self._join_again()
        else:
            self._paused, self.leading = beat.paused, beat.leading

    async def keep_up(self, now: float) -> None:
        """Do what is due, as the leader."""
        if now >= self._rescue_at:
            self._rescue_at = now + self._settings.rescue_every
            await self.rescue()
        if now >= self._tidy_at:
            self._tidy_at = now + TIDY_EVERY
            await self._store.run(cleanup.roll_up)
            gone = await self._store.run(
                lambda c: cleanup.tidy(c, self._settings.keep_history, ages=self._settings.ages)
            )
            gone = max(gone, await self._store.run(lambda c: cleanup.tidy_ticks(c, self._settings.keep_ticks)))
            if gone >= cleanup.TIDY_MOST:  # more is left, and may come faster than once a minute takes it away
                self._tidy_at = now

    async def _join_again(self) -> None:
        sql = [self._store.sql(queue) for queue in self._queues]
        number = await self._store.run(lambda c: fleet.join(c, sql))
        self._events.forgotten(self.worker, number)
        if self._store.worker == self.worker:
            self._store.worker = number
        self.worker = number

    async def rescue(self) -> rescuing.Rescued:
        """Sweep every stage once, up to a limit of rows. A queue that can't be swept holds up no other."""
        returned = buried = 0
        for queue in self._queues:
            try:
                found = await self._rescue(queue)
            except DBAPIError as error:
                self._events.maintenance_failed(queue.name, type(error.orig).__name__)
                continue
            self._events.maintenance_succeeded(queue.name)
            returned += found.returned
            buried += found.buried
            if found.returned:
                await self._store.notify_workers([queue])
        return rescuing.Rescued(returned, buried)

    async def _rescue(self, queue: QueueSpec[Any]) -> rescuing.Rescued:
        returned = buried = 0
        sql, clock = self._store.sql(queue), asyncio.get_running_loop().time
        for step in queue.steps:
            reach, size, began = self._reaches[queue.name, step.name], self._sizes[queue.name, step.name], clock()
            # Rows that wait for their second look may have expired long ago.
            back = None if self._second_look.waits_for(queue.name, step.name) else reach.back(began)
            most = size.rows
            sweep = partial(
                rescuing.rescue, sql=sql, step=step, most=most, back=back, retry_alone=True,
                # A process that was frozen finds its own leases expired, and their handlers alive.
                sparing={*self.holding(), *self._second_look.sparing(queue.name, step.name)},
                ready=partial(
                    self._second_look.ready, queue=queue.name, stage=step.name, lease=step.lease
                ),
            )  # fmt: skip
            try:
                found = await self._store.run(sweep)
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) == STATEMENT_CANCELLED:
                    size.cut(clock() - began, most)
                raise
            size.took(clock() - began, most)
            wait = self._second_look.wait()
            if wait is not None:
                self._rescue_at = min(self._rescue_at, clock() + wait)
            reach.swept(began, clock(), back, left=found.returned + found.buried + found.refused >= most)
            if found.returned or found.buried:
                self._events.rescued(queue.name, step.name, found.returned, found.buried)
                self._store.forget(queue)
                notify_dead(queue, found.deaths)
            if found.refused:
                self._events.unrescued(queue.name, step.name, found.refused)
            returned += found.returned
            buried += found.buried
        return rescuing.Rescued(returned, buried)
