"""A mill: a database and its queues. An application declares it, and a worker runs it."""

from rowmill.mill.mill import Mill
from rowmill.mill.queue import Queue

__all__ = ["Mill", "Queue"]
