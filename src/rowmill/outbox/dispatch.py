"""Dispatch of a claimed event to the handler of its type."""

import random
from collections.abc import Callable
from typing import Any

from rowmill.model.lease import Lease
from rowmill.model.outcome import RetryLater
from rowmill.observe.events import Events
from rowmill.outbox.event import Event, EventColumns
from rowmill.outbox.routes import Routes
from rowmill.store.clock import as_moment

UNKNOWN = "unknown_type"
"""The error code of events whose type has no handler."""
SOONEST, LATEST = 10.0, 900.0
"""Bounds, in seconds, of the wait before an event without a handler is tried again. The wait grows with the age of the
event."""


class Dispatch:
    """The queue's handler: calls the route of the event's type. Used when all routes are async."""

    def __init__(
        self, columns: EventColumns, routes: Routes, events: Events, chance: Callable[[], float] = random.random
    ) -> None:
        self._columns, self._routes, self._events, self._chance = columns, routes, events, chance

    async def __call__(self, lease: Lease[Any]) -> Any:
        event = self._columns.event(lease)
        route = self._routes.find(event.type)
        return self.park(event) if route is None else await route.call(event)

    def park(self, event: Event) -> RetryLater:
        """Retry an event later if its type has no handler here: a newer version of the application may have one.

        No attempt is counted, and only the event's own aggregate waits. A young event is retried often, since a deploy
        takes minutes. An old one is retried seldom, since each retry is a claim and an entry in the history.
        """
        self._events.unknown_type(event.lease.queue.name, event.type)
        claimed = as_moment(event.lease.claimed_at)
        known = claimed is not None and event.created_at is not None
        age = (claimed - event.created_at).total_seconds() if known else LATEST  # type: ignore[operator]
        wait = min(max(age, SOONEST), LATEST) * (0.75 + self._chance() / 2)
        return RetryLater(wait, UNKNOWN, "no handler of this application knows its type", count_attempt=False)


class ThreadedDispatch(Dispatch):
    """Dispatch that runs in a thread. Used when some handlers are plain functions; the runner awaits the result of
    async ones on the loop."""

    def __call__(self, lease: Lease[Any]) -> Any:
        event = self._columns.event(lease)
        route = self._routes.find(event.type)
        return self.park(event) if route is None else route.call(event)
