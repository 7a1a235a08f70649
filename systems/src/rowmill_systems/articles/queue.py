"""The two queues of articles: sources that are fetched, and articles that are classified.

Sources come back again and again, so their good end is `idle`: a schedule puts a source back to `due` when its
`next_sync_at` has passed. A fetch that fails is no failed row: the handler answers Done, and sets a later
`next_sync_at`. Only a source whose fetch kills workers, or whose handler breaks, becomes `failed`. `retired` (410) is
an end like `idle` that no schedule looks at: the engine reads it as done, `retire_gone` writes it, and a person may put
such a source back like any other.
"""

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.articles.models import ClassificationRequest, FeedSource
from rowmill_systems.articles.settings import MAX_ATTEMPTS, ArticlesSettings
from rowmill_systems.parts.clock import now

BACKOFF = rm.exponential(30, cap=600)
"""Waits between tries. A service that is down for a minute costs no article its three tries."""
GONE = 410


def declare_sources(mill: rm.Mill, settings: ArticlesSettings) -> rm.Queue[FeedSource]:
    """Declare the queue of sources: due → fetching → idle, and due again when it is time. One at a time per host."""
    return mill.queue(
        FeedSource,
        columns=rm.Columns(state="status", created_at="created_at", updated_at="updated_at"),
        states=rm.States(ready="due", running="fetching", done=("idle", "retired"), dead="failed", cancelled="paused"),
        order_per_key=rm.OrderPerKey(per="host", on_dead="skip"),
        retry=rm.Retry(attempts=MAX_ATTEMPTS, backoff=BACKOFF),
        lease=settings.lease_seconds,
    )


def declare_requests(mill: rm.Mill, settings: ArticlesSettings) -> rm.Queue[ClassificationRequest]:
    """Declare the queue of articles to classify: the highest priority first, then the oldest.

    New rows have no `available_at`, so their `created_at` decides; those that wait for another try come after them.
    """
    return mill.queue(
        ClassificationRequest,
        columns=rm.Columns(
            state="status",
            attempts="retry_count",
            error="error_message",
            finished_at="processed_at",
            created_at="created_at",
            updated_at="updated_at",
        ),
        states=rm.States(ready="pending", running="processing", done="completed", dead="failed", cancelled="cancelled"),
        order=rm.Order(priority="priority", by=("created_at",)),
        retry=rm.Retry(attempts=MAX_ATTEMPTS, backoff=BACKOFF),
        lease=settings.lease_seconds,
        counts="failures",
    )


# served by: ix_sources_next_sync
def retire_gone(connection: sa.Connection) -> int:
    """Retire the sources whose server said 410 and that have no next sync. Return how many. Idempotent.

    A handler can't write the word itself: its answer Done writes `idle`. It leaves `next_sync_at` NULL and
    `last_status` 410, and calls this afterwards. If the process dies in between, the next call does it.
    """
    gone = sa.update(FeedSource).where(
        FeedSource.status == sa.literal_column("'idle'"),
        FeedSource.next_sync_at.is_(None),
        FeedSource.last_status == GONE,
    )
    changed = connection.execute(gone.values(status="retired", updated_at=now(connection.dialect.name)))
    return changed.rowcount
