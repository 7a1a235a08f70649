"""A handler that publishes events to a broker, outside any transaction."""

import random
import time
from collections.abc import Callable

from rowmill.model.errors import ProviderDown
from rowmill.outbox.event import Event
from rowmill.outbox.message import Publisher, Subject, message_of

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds for which a broker that is away is left alone."""


class BrokerPause:
    """Closed for a while after a broker was found away: otherwise every event that is due would wait for a time-out of
    its own, and keep a slot meanwhile from events that go elsewhere."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, chance: Callable[[], float] = random.random
    ) -> None:
        self._clock, self._chance = clock, chance
        self._closed_until = 0.0
        self._wait = 0.0

    def check(self) -> None:
        left = self._closed_until - self._clock()
        if left > 0:
            raise ProviderDown("the broker was away a moment ago", retry_after=self._spread(left))

    def away(self, error: ProviderDown) -> ProviderDown:
        """Close. Those that were under way and failed as well do not close it for longer."""
        if self._clock() >= self._closed_until:
            self._wait = min(max(self._wait * 2, FIRST_WAIT), LONGEST_WAIT)
            self._closed_until = self._clock() + self._wait
        return ProviderDown(str(error), retry_after=self._spread(self._wait), code=error.code)

    def passed(self) -> None:
        self._wait = 0.0

    def _spread(self, wait: float) -> float:
        """Not all at once when it opens."""
        return wait + self._wait * self._chance()


class Relay:
    """Publishes each event, and is done with it when the broker has confirmed."""

    def __init__(
        self, publisher: Publisher, source: str, subject: Subject = None, gate: BrokerPause | None = None
    ) -> None:
        self.publisher = publisher
        self._source, self._subject = source, subject
        self._gate = gate or BrokerPause()

    async def __call__(self, event: Event) -> None:
        message = message_of(event, self._source, self._subject)
        self._gate.check()
        try:
            await self.publisher.publish(message)
        except ProviderDown as error:
            raise self._gate.away(error) from error
        self._gate.passed()
