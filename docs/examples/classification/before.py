"""Topics of articles, found in the background: as a team wrote it by hand."""

import os
import uuid
from collections.abc import Callable
from enum import IntEnum

import sqlalchemy as sa

engine = sa.create_engine(os.environ["DATABASE_URL"])
queue = sa.Table(
    "classification_queue",
    sa.MetaData(),
    sa.Column("id", sa.Uuid(as_uuid=False) if engine.dialect.name == "postgresql" else sa.String(36), primary_key=True),
    sa.Column("title", sa.Text),
    sa.Column("topics", sa.Text),
    sa.Column("status", sa.Integer),
    sa.Column("priority", sa.Integer),
    sa.Column("retry_count", sa.Integer),
    sa.Column("error_message", sa.Text),
    sa.Column("created_at", sa.DateTime(timezone=True)),
    sa.Column("processed_at", sa.DateTime(timezone=True)),
)


class Status(IntEnum):
    PENDING = 0
    PROCESSING = 1
    COMPLETED = 2
    FAILED = 3
    CANCELLED = 4


def enqueue(title: str, priority: int = 0) -> None:
    with engine.begin() as connection:
        connection.execute(sa.insert(queue).values(id=str(uuid.uuid4()), title=title, priority=priority))


def cancel(title: str) -> None:
    with engine.begin() as connection:
        waiting = sa.and_(queue.c.title == title, queue.c.status == Status.PENDING)
        connection.execute(sa.update(queue).where(waiting).values(status=Status.CANCELLED))


def process_batch(classify: Callable[[str], str], size: int = 10) -> None:
    """A failure is tried again at once, with the next batch: three in a minute, and the row is given up."""
    with engine.begin() as connection:
        rows = connection.execute(
            sa.select(queue)
            .where(queue.c.status == Status.PENDING)
            .order_by(queue.c.priority.desc(), queue.c.created_at)
            .limit(size)
            .with_for_update(skip_locked=True)
        ).all()
        keys = [row.id for row in rows]
        connection.execute(sa.update(queue).where(queue.c.id.in_(keys)).values(status=Status.PROCESSING))
    for row in rows:
        try:
            topics = classify(row.title)
        except Exception as error:
            retries = (row.retry_count or 0) + 1
            status = Status.FAILED if retries >= 3 else Status.PENDING
            settle(row.id, status=status, retry_count=retries, error_message=str(error))
        else:
            settle(row.id, status=Status.COMPLETED, topics=topics, processed_at=sa.func.now())


def settle(key: str, **values: object) -> None:
    with engine.begin() as connection:
        connection.execute(sa.update(queue).where(queue.c.id == key).values(**values))
