"""The worker: claim, run, settle, renew."""

from rowmill.worker.report import Report
from rowmill.worker.settings import WorkerSettings
from rowmill.worker.worker import Worker

__all__ = ["Report", "Worker", "WorkerSettings"]
