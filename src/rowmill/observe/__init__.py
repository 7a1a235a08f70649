"""Events of the engine, the log that is made of them, and alerts."""

from rowmill.model.alerts import Alerts

__all__ = ["Alerts"]
