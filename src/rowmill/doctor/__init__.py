"""An audit of a database and its queues, or of a table that is none yet: each finding with its fix."""

from rowmill.doctor.checks import audit, audit_table
from rowmill.doctor.finding import DoctorFinding, FindingSeverity, Thresholds
from rowmill.doctor.unadopted import TableGuess

__all__ = ["DoctorFinding", "FindingSeverity", "TableGuess", "Thresholds", "audit", "audit_table"]
