"""Audit a database and its queues, or a table that is not a queue yet. Each finding comes with its fix."""

from rowmill.doctor.checks import audit, audit_table
from rowmill.doctor.finding import DoctorFinding, FindingSeverity, Thresholds
from rowmill.doctor.unadopted import TableGuess

__all__ = ["DoctorFinding", "FindingSeverity", "TableGuess", "Thresholds", "audit", "audit_table"]
