"""The events of the outbox and what each does. `OutboxStats` says how many there are of each sort."""

from rowmill.outbox import OutboxStats
from rowmill_systems.knowledge.events.dispatching import dispatch_event, handle

__all__ = ["OutboxStats", "dispatch_event", "handle"]
