"""The service beside a worker's stations that makes ticks, and wakes the worker when one is due.

Every worker has one. They need no leader: the row of a schedule says how far its ticks are made, and the key of a tick
lets it be made once. The database's clock says what is due; ours only when to ask.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from datetime import datetime

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from rowmill.model.schedule import Schedule
from rowmill.observe.events import Events
from rowmill.schedules import ticks
from rowmill.store.port import Disconnected, Store

PASS_SECONDS = 60.0
"""After which a connection that does not answer is given up."""
MARGIN = 0.002
"""Seconds after a tick is due by our reckoning, so that the database thinks so too."""
DRIFT = 0.05
UPKEEP = "schedules"


class Scheduler:
    """Makes the coming ticks of these schedules."""

    def __init__(self, store: Store, schedules: Sequence[Schedule], events: Events, *, heartbeat: float) -> None:
        self._store = store
        self._schedules = schedules
        self._events = events
        self._heartbeat = heartbeat
        self._ahead = max(ticks.AHEAD, heartbeat * 10)
        self.soon = heartbeat * 3 + 1.0
        """Seconds until which the worker is to be woken for what becomes due: beyond the next pass."""
        self.wake: Callable[[], None] = lambda: None
        """There may be ticks to claim."""
        self._timers: dict[datetime, asyncio.TimerHandle] = {}
        self._overruled: set[str] = set()

    def start(self, connection: Connection) -> None:
        """The first pass, with a worker's signing up: from now on our declarations count."""
        self.heard(ticks.keep(connection, self._schedules, soon=self.soon, ahead=self._ahead, starting=True))

    async def run(self) -> None:
        try:
            while True:
                try:
                    async with asyncio.timeout(PASS_SECONDS):
                        await self.make()
                    self._events.back(who=UPKEEP)
                    self._events.kept(UPKEEP)
                except DBAPIError as error:
                    self._events.maintenance_failed(UPKEEP, type(error.orig).__name__)
                except (Disconnected, OSError) as error:
                    self._events.away(type(error).__name__, who=UPKEEP)
                await asyncio.sleep(self._heartbeat * (0.75 + random.random() / 2))
        finally:
            for timer in self._timers.values():
                timer.cancel()

    async def make(self) -> None:
        """One pass: make what comes next, and set the alarm for what becomes due before the next pass."""
        kept = await self._store.run(
            lambda connection: ticks.keep(connection, self._schedules, soon=self.soon, ahead=self._ahead)
        )
        self.heard(kept)
        for at in kept.due:
            self._set_alarm(at, (at - kept.now).total_seconds() + MARGIN)

    def heard(self, kept: ticks.TicksMade) -> None:
        """Tell what became of our declarations."""
        for schedule in kept.changed:
            self._events.rescheduled(schedule.name, schedule.timing.text, schedule.timing.zone)
        overruled = {schedule.name for schedule in kept.overruled}
        for name in sorted(overruled - self._overruled):
            self._events.overruled(name)
        self._overruled = overruled

    def _set_alarm(self, at: datetime, seconds: float) -> None:
        """One that is set already stays, unless the clocks have drifted apart: a new one might come too late."""
        loop = asyncio.get_running_loop()
        known = self._timers.get(at)
        if known is not None:
            if abs(known.when() - loop.time() - seconds) < DRIFT:
                return
            known.cancel()
        self._timers[at] = loop.call_later(seconds, self._ring, at)

    def _ring(self, at: datetime) -> None:
        self._timers.pop(at, None)
        self.wake()
