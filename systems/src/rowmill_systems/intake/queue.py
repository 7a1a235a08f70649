"""The table of files, declared as a queue."""

import rowmill as rm
from rowmill_systems.intake.models import ProjectFile
from rowmill_systems.intake.settings import MAX_PROCESSING_ATTEMPTS

STALE_REQUEUED = "stale_processing_requeued"
STALE_FAILED = "stale_processing_max_attempts"


def declare(mill: rm.Mill, stale_seconds: float) -> rm.Queue[ProjectFile]:
    return mill.queue(
        ProjectFile,
        columns=rm.Columns(
            state="processing_status",
            attempts="processing_attempts",
            available_at="processing_available_at",
            error="processing_error",
            started_at="processing_started_at",
            finished_at="processed_at",
            created_at="created_at",
        ),
        states=rm.States(ready="queued", running="processing", done="completed", dead="failed"),
        order=rm.Order(by=("created_at",)),
        retry=rm.Retry(attempts=MAX_PROCESSING_ATTEMPTS, backoff=rm.exponential(30, cap=600)),
        lease=stale_seconds,
        crash_codes=rm.CrashCodes(STALE_REQUEUED, STALE_FAILED),
    )
