"""An audit of a database and its queues, or of a table that is none yet: each finding with its fix."""

from rowmill.doctor.checks import audit, audit_table
from rowmill.doctor.finding import Finding, Limits, Severity
from rowmill.doctor.unadopted import Guess

__all__ = ["Finding", "Guess", "Limits", "Severity", "audit", "audit_table"]
