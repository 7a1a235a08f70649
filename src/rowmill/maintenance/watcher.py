"""Watches queues from outside the workers, so that a dead fleet is noticed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from types import MappingProxyType
from typing import Any

from sqlalchemy.exc import DBAPIError

from rowmill.model.alerts import UNREACHABLE, Alert, Alerts, AlertSeverity, alerts_of, alerts_of_run
from rowmill.model.errors import DatabaseUnreachable
from rowmill.model.queue import QueueSpec
from rowmill.observe.events import Events
from rowmill.operator.activity import observe_queue
from rowmill.reconcile import runs
from rowmill.store.own.schema import check_version
from rowmill.store.port import Disconnected, Store

LEVELS = {
    AlertSeverity.WARNING: logging.WARNING,
    AlertSeverity.ERROR: logging.ERROR,
    AlertSeverity.CRITICAL: logging.CRITICAL,
}
Hook = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Called with the fields of every alert."""


class Watcher:
    """Reports an alert when a condition begins, again every `remind` seconds while it lasts, and when it is over."""

    def __init__(
        self,
        store: Store,
        queues: Sequence[tuple[QueueSpec[Any], Alerts]],
        events: Events,
        hooks: Sequence[Hook] = (),
        *,
        reconciliations: Mapping[str, int] = MappingProxyType({}),
        remind: float = 3600.0,
    ) -> None:
        """`reconciliations` maps each name to the number of findings that is usual."""
        self._store, self._queues, self._events, self._hooks = store, queues, events, hooks
        self._reconciliations = reconciliations
        self._remind = remind
        self._open: dict[tuple[str, str, str], tuple[Alert, float]] = {}
        """The alerts that hold, and when each was last reported."""
        self._sees = False

    async def look(self) -> list[Alert]:
        """Return the alerts that hold now. If the database can't be read, the alerts of the last look still hold."""
        try:
            if not self._sees:
                await self._store.open()
                await self._store.run(check_version, write=False)
                self._sees = True
            found = [alert for queue, limits in self._queues for alert in await self._look_at(queue, limits)]
            return found + [alert for one in self._reconciliations.items() for alert in await self._look_at_runs(*one)]
        except (Disconnected, DatabaseUnreachable, OSError):
            return [*(alert for alert, _ in self._open.values() if alert.place != UNREACHABLE.place), UNREACHABLE]

    async def _look_at(self, queue: QueueSpec[Any], limits: Alerts) -> list[Alert]:
        sql = self._store.sql(queue)
        try:
            seen = await self._store.run(partial(observe_queue, sql=sql, limits=limits), write=False)
        except DBAPIError:
            unseen = Alert("QUEUE_NOT_SEEN", AlertSeverity.ERROR, queue.name)
            before = [alert for alert, _ in self._open.values() if alert.queue == queue.name]
            return [*(alert for alert in before if alert.place != unseen.place), unseen]
        return list(alerts_of(queue.name, limits, seen))

    async def _look_at_runs(self, name: str, above: int) -> list[Alert]:
        last = await self._store.run(partial(runs.last_ended, name=name), write=False)
        return [] if last is None else list(alerts_of_run(name, above, last.findings, last.outcome))

    async def tell(self, found: Sequence[Alert]) -> None:
        """Report alerts that began, that still last after a while, and that are over."""
        now = asyncio.get_running_loop().time()
        holding = {alert.place: alert for alert in found}
        for place, alert in holding.items():
            before = self._open.get(place)
            if before is None:
                await self._say(alert, "firing")
            elif now - before[1] >= self._remind:
                await self._say(alert, "still")
            said = now if before is None or now - before[1] >= self._remind else before[1]
            self._open[place] = (alert, said)
        for place in [place for place in self._open if place not in holding]:
            alert, _ = self._open.pop(place)
            await self._say(alert, "over")

    async def run(self, every: float = 30.0) -> None:
        while True:
            await self.tell(await self.look())
            await asyncio.sleep(every)

    async def _say(self, alert: Alert, status: str) -> None:
        fields = {**asdict(alert), "severity": str(alert.severity), "status": status}
        self._events.emit(logging.INFO if status == "over" else LEVELS[alert.severity], "alert", **fields)
        for hook in self._hooks:
            try:
                await hook(fields)
            except Exception as error:
                self._events.emit(logging.ERROR, "unsent", alert=alert.alert, reason=type(error).__name__)
