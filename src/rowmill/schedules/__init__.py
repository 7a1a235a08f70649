"""Schedules: the rows of their runs (ticks), the service that inserts them, and commands for operators."""

from rowmill.model.schedule import Tick

__all__ = ["Tick"]
