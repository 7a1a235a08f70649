"""What happens to a claimed event: its handler, or, where none knows its type, a wait."""

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
"""The code on an event that waits for somebody who knows its type."""
SOONEST, LATEST = 10.0, 900.0
"""Seconds after which such an event is looked at again: as many as it is old, between these."""


class Dispatch:
    """The handler of the queue, where every route is quick to call."""

    def __init__(
        self, columns: EventColumns, routes: Routes, events: Events, chance: Callable[[], float] = random.random
    ) -> None:
        self._columns, self._routes, self._events, self._chance = columns, routes, events, chance

    async def __call__(self, lease: Lease[Any]) -> Any:
        event = self._columns.event(lease)
        route = self._routes.find(event.type)
        return self.park(event) if route is None else await route.call(event)

    def park(self, event: Event) -> RetryLater:
        """Nobody here knows this type: perhaps a newer version of the application does. The event costs no attempt,
        and holds up its own aggregate alone. Young ones are looked at often, as a deploy takes minutes; old ones
        seldom, as each look is a claim and an entry in the history."""
        self._events.unknown_type(event.lease.queue.name, event.type)
        claimed = as_moment(event.lease.claimed_at)
        known = claimed is not None and event.created_at is not None
        age = (claimed - event.created_at).total_seconds() if known else LATEST  # type: ignore[operator]
        wait = min(max(age, SOONEST), LATEST) * (0.75 + self._chance() / 2)
        return RetryLater(wait, UNKNOWN, "no handler of this application knows its type", count_attempt=False)


class ThreadedDispatch(Dispatch):
    """The same, called in a thread, where some handlers are plain functions. What an async one returns is awaited
    on the loop by the runner."""

    def __call__(self, lease: Lease[Any]) -> Any:
        event = self._columns.event(lease)
        route = self._routes.find(event.type)
        return self.park(event) if route is None else route.call(event)
