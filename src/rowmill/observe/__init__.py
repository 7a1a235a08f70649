"""What the engine says of itself: events, the log made of them, alerts."""

from rowmill.model.alerts import Alerts

__all__ = ["Alerts"]
