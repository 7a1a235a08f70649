"""A handler that publishes events to a broker, outside any transaction."""

import random
import time
from collections.abc import Callable

from rowmill.model.errors import ProviderDown
from rowmill.outbox.event import Event
from rowmill.outbox.message import Publisher, Subject, message_of

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Bounds, in seconds, of the pause after a broker was unreachable."""


class BrokerPause:
    """Circuit breaker for a broker: after a failure, further events are refused at once for a while.

    Without it, every due event would wait for its own timeout and block a slot that other events could use.
    """

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
        """Open the breaker. Failures of publishes that were already under way do not extend the pause."""
        if self._clock() >= self._closed_until:
            self._wait = min(max(self._wait * 2, FIRST_WAIT), LONGEST_WAIT)
            self._closed_until = self._clock() + self._wait
        return ProviderDown(str(error), retry_after=self._spread(self._wait), code=error.code)

    def passed(self) -> None:
        self._wait = 0.0

    def _spread(self, wait: float) -> float:
        """Add jitter, so that not all events retry at the same moment."""
        return wait + self._wait * self._chance()


class Relay:
    """Publishes each event. The event is done once the broker has confirmed it."""

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
