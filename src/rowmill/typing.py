"""Types for the signatures of handlers."""

from rowmill.mill.queue import BatchAnswer
from rowmill.model.outcome import Answer

__all__ = ["Answer", "BatchAnswer"]
