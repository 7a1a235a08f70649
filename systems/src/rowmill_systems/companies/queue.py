"""The table of requests, declared as a queue."""

import rowmill as rm
from rowmill_systems.companies.models import CompaniesTables
from rowmill_systems.companies.settings import RETRY_MINUTES, CompaniesSettings

STALE_REQUEUED = "stale_processing_requeued"
STALE_FAILED = "stale_processing_max_attempts"


def declare(mill: rm.Mill, tables: CompaniesTables, settings: CompaniesSettings) -> rm.Queue[rm.Record]:
    """Declare the queue. A retry stays `pending`, with its time in `next_retry_at`; NULL there means due."""
    return mill.queue(
        tables.requests,
        columns=rm.Columns(
            state="status",
            attempts="attempts",
            available_at="next_retry_at",
            error="last_error",
            finished_at="finished_at",
            created_at="created_at",
            updated_at="updated_at",
        ),
        states=rm.States(ready="pending", running="processing", done="done", dead="failed"),
        retry=rm.Retry(attempts=settings.enrichment_max_attempts, backoff=backoff()),
        lease=rm.minutes(settings.enrichment_stale_minutes),
        crash_codes=rm.CrashCodes(STALE_REQUEUED, STALE_FAILED),
    )


def backoff() -> rm.steps:
    """Return the waits between tries; the last one repeats."""
    return rm.steps(*map(rm.minutes, RETRY_MINUTES))
