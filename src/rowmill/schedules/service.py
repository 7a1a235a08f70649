"""The service that inserts ticks, and wakes the worker when one is due.

Every worker runs one, and no leader is needed: the row of a schedule stores up to when its ticks are inserted, and the
unique key of a tick prevents duplicates. The database's clock decides what is due; ours only decides when to ask.
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
"""Seconds after which an unanswered pass is given up."""
MARGIN = 0.002
"""Seconds added to the time when a tick is due, so that it is due by the database's clock too."""
DRIFT = 0.05
UPKEEP = "schedules"


class Scheduler:
    """Inserts the upcoming ticks of these schedules."""

    def __init__(self, store: Store, schedules: Sequence[Schedule], events: Events, *, heartbeat: float) -> None:
        self._store = store
        self._schedules = schedules
        self._events = events
        self._heartbeat = heartbeat
        self._ahead = max(ticks.AHEAD, heartbeat * 10)
        self.soon = heartbeat * 3 + 1.0
        """Seconds ahead for which wake-ups are scheduled: longer than the time until the next pass."""
        self.wake: Callable[[], None] = lambda: None
        """Called when there may be ticks to claim."""
        self._timers: dict[datetime, asyncio.TimerHandle] = {}
        self._overruled: set[str] = set()

    def start(self, connection: Connection) -> None:
        """Run the first pass while the worker registers. From then on, our declarations are in effect."""
        self.report(ticks.make_ticks(connection, self._schedules, soon=self.soon, ahead=self._ahead, starting=True))

    async def run(self) -> None:
        try:
            while True:
                try:
                    async with asyncio.timeout(PASS_SECONDS):
                        await self.make()
                    self._events.back(who=UPKEEP)
                    self._events.maintenance_succeeded(UPKEEP)
                except DBAPIError as error:
                    self._events.maintenance_failed(UPKEEP, type(error.orig).__name__)
                except (Disconnected, OSError) as error:
                    self._events.away(type(error).__name__, who=UPKEEP)
                await asyncio.sleep(self._heartbeat * (0.75 + random.random() / 2))
        finally:
            for timer in self._timers.values():
                timer.cancel()

    async def make(self) -> None:
        """Run one pass: insert upcoming ticks, and schedule a wake-up for each that is due before the next pass."""
        made = await self._store.run(
            lambda connection: ticks.make_ticks(connection, self._schedules, soon=self.soon, ahead=self._ahead)
        )
        self.report(made)
        for at in made.due:
            self._set_alarm(at, (at - made.now).total_seconds() + MARGIN)

    def report(self, made: ticks.TicksMade) -> None:
        """Emit events for schedules that changed, and for schedules that another version of the application
        overrides."""
        for schedule in made.changed:
            self._events.rescheduled(schedule.name, schedule.timing.text, schedule.timing.zone)
        overruled = {schedule.name for schedule in made.overruled}
        for name in sorted(overruled - self._overruled):
            self._events.overruled(name)
        self._overruled = overruled

    def _set_alarm(self, at: datetime, seconds: float) -> None:
        """Schedule a wake-up. An existing one stays, unless the clocks have drifted apart and it would come too
        late."""
        loop = asyncio.get_running_loop()
        known = self._timers.get(at)
        if known is not None:
            if abs(known.when() - loop.time() - seconds) < DRIFT:
                return
            known.cancel()
        self._timers[at] = loop.call_later(seconds, self._wake, at)

    def _wake(self, at: datetime) -> None:
        self._timers.pop(at, None)
        self.wake()
