"""The events of the outbox and what each does."""

from rowmill_systems.knowledge.events.dispatching import dispatch_event, handle

__all__ = ["dispatch_event", "handle"]
