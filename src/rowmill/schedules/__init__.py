"""Schedules: the rows of their runs, the service that makes them, and what operators do."""

from rowmill.model.schedule import Tick

__all__ = ["Tick"]
