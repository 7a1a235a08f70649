"""An audit of a database and its queues: each finding with its fix."""

from rowmill.store.doctor.checks import audit
from rowmill.store.doctor.finding import Finding, Limits, Severity

__all__ = ["Finding", "Limits", "Severity", "audit"]
