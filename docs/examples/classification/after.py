"""Topics of articles, found in the background: the same table, on Rowmill. A batch is one call of the model."""

from enum import IntEnum

import sqlalchemy as sa

import rowmill as rm


class Status(IntEnum):
    PENDING = 0
    PROCESSING = 1
    COMPLETED = 2
    FAILED = 3
    CANCELLED = 4


Moment = sa.DateTime(timezone=True)

classification_queue = sa.Table(
    "classification_queue",
    sa.MetaData(),
    sa.Column("id", sa.String(36).with_variant(sa.Uuid(as_uuid=False), "postgresql"), primary_key=True),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("topics", sa.Text),
    sa.Column("status", sa.SmallInteger, nullable=False, server_default="0"),
    sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
    sa.Column("retry_count", sa.Integer),
    sa.Column("error_message", sa.Text),
    sa.Column("created_at", Moment, nullable=False, server_default=sa.func.now()),
    sa.Column("processed_at", Moment),
    sa.Column("available_at", Moment),
    sa.Column("lease", sa.BigInteger),
    sa.Column("leased_until", Moment),
)

mill = rm.Mill()
articles = mill.queue(
    classification_queue,
    columns=rm.Columns(
        state="status",
        attempts="retry_count",
        error="error_message",
        finished_at="processed_at",
        created_at="created_at",
    ),
    states=rm.States(
        ready=Status.PENDING,
        running=Status.PROCESSING,
        done=Status.COMPLETED,
        dead=Status.FAILED,
        cancelled=Status.CANCELLED,
    ),
    order=rm.Order(priority="priority", by=("created_at",)),
    retry=rm.Retry(attempts=3, backoff=rm.exponential(30, cap=600)),
    lease=rm.minutes(5),
)


def classify(titles: list[str]) -> list[str]:
    """One call for many. A stand-in for a model."""
    return ["sports" if "cup" in title else "news" for title in titles]


@articles.batch_handler(size=10)
def find_topics(batch: list[rm.Lease[rm.Record]]) -> list[dict[str, str]]:
    topics = classify([article.row.title for article in batch])
    return [{"topics": topic} for topic in topics]
