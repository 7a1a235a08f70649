"""A mill: a database and its queues. What an application declares and a worker runs."""

from rowmill.mill.mill import Mill
from rowmill.mill.queue import Queue

__all__ = ["Mill", "Queue"]
