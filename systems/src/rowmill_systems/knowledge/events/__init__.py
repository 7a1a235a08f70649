"""The events of the outbox and what each does. `OutboxStats` is how many there are of each sort, by `outbox.stats()`."""

from rowmill.outbox import OutboxStats
from rowmill_systems.knowledge.events.dispatching import dispatch_event, handle

__all__ = ["OutboxStats", "dispatch_event", "handle"]
