"""The classification queue under the method names that callers already use.

    async with AsyncSession(engine) as session:
        queue = ClassificationQueueService(session)
        items = await queue.dequeue_batch(10)
        await session.commit()
        for item in items:
            await queue.mark_completed(item.id, ["technology.ai"])
        await session.commit()

It is made from an AsyncSession or an AsyncConnection, whose transaction the caller commits, or from an AsyncEngine:
then each call is a transaction of its own. Commit what `dequeue_batch` took before you call a model.

Workers of Rowmill may run beside it: a row is taken by one of them, and a mark counts only for the one that has it. A
mark needs the token of the row's last `dequeue_batch`. The item that it returned has it; for a bare id, this process
remembers it.
"""

import json
import secrets
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from types import SimpleNamespace
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

import rowmill as rm
from rowmill_systems.articles.classifying.answers import checked_score, checked_topic
from rowmill_systems.articles.classifying.port import TopicScore
from rowmill_systems.articles.models import CONTENTS, QUEUE
from rowmill_systems.articles.queue import BACKOFF
from rowmill_systems.articles.settings import MAX_ATTEMPTS
from rowmill_systems.parts.clock import MOMENT, now
from rowmill_systems.parts.database import in_utc, upsert_into
from rowmill_systems.parts.index_plans import index_order
from rowmill_systems.parts.values import storable

T = TypeVar("T")
STATUSES = ("pending", "processing", "completed", "failed", "cancelled")
LEASE_SECONDS = 900.0
"""Nobody renews a lease of this queue's callers: after this time, their rows go to somebody else."""
LEVELS = 8
"""Priorities that are looked at one by one. A table with more is sorted."""
CAP = 20_000
"""Rows of one status that are counted in a big table. Beyond, PostgreSQL estimates, and SQLite says "at least"."""
SMALL_BYTES = 64 * 1024 * 1024
"""A table of this size is counted in a fraction of a second, as `Queue.counts()` does it."""
SMALL_ROWS = 1_000_000
"""The same on SQLite, by the span of its row numbers."""
LONGEST_ERROR = 1000
USED_UP = "attempts_used_up"
TOKEN_BITS = 62
REMEMBERED = 100_000
"""Tokens that this process remembers."""

# As literals, so that the partial indexes serve them under every plan.
PENDING: sa.ColumnClause[str] = sa.literal_column("'pending'", sa.String)
PROCESSING: sa.ColumnClause[str] = sa.literal_column("'processing'", sa.String)
COMPLETED: sa.ColumnClause[str] = sa.literal_column("'completed'", sa.String)
FAILED: sa.ColumnClause[str] = sa.literal_column("'failed'", sa.String)

CLAIM_INDEX = "rowmill_classification_queue_work_ready"
bare = SimpleNamespace(
    id=sa.column("id", sa.Uuid),
    priority=sa.column("priority", sa.Integer),
    created_at=sa.column("created_at", MOMENT),
    available_at=sa.column("available_at", MOMENT),
)
"""Columns without their table: the statement names that itself, on SQLite together with the index."""

GivenTopics = Sequence[str] | Sequence[TopicScore] | Mapping[str, float]
"""Keys of topics, or topics with scores."""


@dataclass(frozen=True, slots=True)
class QueuedArticle:
    """A row that was taken from the queue."""

    id: uuid.UUID
    content_id: uuid.UUID
    priority: int
    retry_count: int
    """Tries that failed before this one."""
    created_at: datetime
    token: int
    """Proves that the row is ours. Another `dequeue_batch` of the same row gets another one."""


class StatusCounts(dict[str, int]):
    """Rows by status. Where `exact` is False, the table is big, and some numbers are estimates."""

    exact: bool = True


class RememberedTokens:
    """The tokens of the last rows that this process took, by key."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, Lock()
        self._tokens: OrderedDict[uuid.UUID, int] = OrderedDict()

    def add(self, items: Sequence[QueuedArticle]) -> None:
        with self._lock:
            for item in items:
                self._tokens[item.id] = item.token
                self._tokens.move_to_end(item.id)
            while len(self._tokens) > self._most:
                self._tokens.popitem(last=False)

    def of(self, key: uuid.UUID) -> int | None:
        with self._lock:
            return self._tokens.get(key)


TOKENS = RememberedTokens(REMEMBERED)


class ClassificationQueueService:
    """The queue, in the transaction of a session or a connection, or with one transaction per call on an engine."""

    def __init__(self, database: AsyncSession | AsyncConnection | AsyncEngine) -> None:
        self._database = database

    async def enqueue(self, content_id: uuid.UUID, priority: int = 0) -> bool:
        """Put an article into the queue. Return False, with nothing changed, if it is there already, also as completed.

        Raises IntegrityError if there is no such article.
        """
        return await self._run(lambda connection: _enqueue(connection, content_id, priority))

    async def dequeue_batch(self, batch_size: int = 10) -> list[QueuedArticle]:
        """Take up to `batch_size` articles, the highest priority first, then the oldest. They are `processing` then.

        A row that was put back although its tries are used up is failed instead.
        """
        items = await self._run(lambda connection: _dequeue(connection, batch_size))
        TOKENS.add(items)
        return items

    async def mark_completed(self, queue_id: uuid.UUID | QueuedArticle, topics: GivenTopics) -> bool:
        """Write the topics of an article, and complete its row. Return False, with nothing changed, if somebody else
        has the row by now, if its text changed, or if the article was deleted."""
        key, token = _key_and_token(queue_id)
        names, scores = _topics(topics)
        return await self._run(lambda connection: _complete(connection, key, token, names, scores))

    async def mark_failed(self, queue_id: uuid.UUID | QueuedArticle, error: str | BaseException) -> bool:
        """Note a failure: the article is tried again later, or is failed if this was the third try. Return False, with
        nothing changed, if somebody else has the row by now.

        Of an exception, only its code or its type is kept: its text may have words of the article in it.
        """
        key, token = _key_and_token(queue_id)
        return await self._run(lambda connection: _fail(connection, key, token, _error_text(error)))

    async def get_queue_stats(self, *, at_most: int = CAP) -> StatusCounts:
        """Count the rows of every status: exactly, as `GET /admin/queue-stats`, unless the table is big. In a
        big table, at most `at_most` rows of a status are counted, and a larger number is an estimate."""
        return await self._run(lambda connection: _count(connection, at_most))

    async def _run(self, work: Callable[[sa.Connection], T]) -> T:
        match self._database:
            case AsyncEngine():
                async with self._database.begin() as connection:
                    return await connection.run_sync(work)
            case AsyncSession():
                return await (await self._database.connection()).run_sync(work)
            case AsyncConnection():
                return await self._database.run_sync(work)
        raise rm.errors.BadRequest(
            "ClassificationQueueService takes an AsyncSession, an AsyncConnection or an AsyncEngine, not "
            f"{type(self._database).__name__}"
        )


# served by: uq_classification_queue_content, the primary key of contents
def _enqueue(connection: sa.Connection, content_id: uuid.UUID, priority: int) -> bool:
    # From the article itself: on SQLite, an engine of the caller's own may not enforce foreign keys.
    current, of_article = now(connection.dialect.name), CONTENTS.c.id == content_id
    article = sa.select(CONTENTS.c.id, PENDING, sa.literal(priority, sa.Integer), current, current).where(of_article)
    insert = upsert_into(connection, QUEUE).from_select(
        ["content_id", "status", "priority", "created_at", "updated_at"], article, include_defaults=False
    )
    fresh = insert.on_conflict_do_nothing(index_elements=["content_id"]).returning(QUEUE.c.id)
    if connection.scalar(fresh) is not None:
        return True
    if connection.scalar(sa.select(CONTENTS.c.id).where(of_article)) is None:
        raise sa.exc.IntegrityError("enqueue", {}, LookupError("there is no such article"))
    return False


def _dequeue(connection: sa.Connection, most: int) -> list[QueuedArticle]:
    taken: list[QueuedArticle] = []
    dialect = connection.dialect.name
    # One stretch of the index after the other: together, no index would serve them in their order.
    with index_order(connection):
        for level in _levels(connection):
            for due in (bare.available_at.is_(None), bare.available_at <= now(dialect)):
                while most > len(taken):
                    found, looked_at = _claim(connection, sa.and_(level, due), most - len(taken))
                    taken += found
                    if not looked_at:
                        break
    return taken


# served by: the claim index of the queue, one descent per priority
def _levels(connection: sa.Connection) -> "list[sa.ColumnElement[bool]]":
    """Return a condition for each priority that waits, the highest first."""
    found = list[int]()
    while len(found) < LEVELS:
        below = _pending(connection, bare.priority).where(*(bare.priority < level for level in found[-1:]))
        level = connection.scalar(below.order_by(bare.priority.desc()).limit(1))
        if level is None:
            return [bare.priority == level for level in found]
        found.append(level)
    return [*(bare.priority == level for level in found), bare.priority < found[-1]]


def _pending(connection: sa.Connection, column: "sa.ColumnClause[Any]") -> "sa.Select[Any]":
    """Select a column of the rows that wait. SQLite would take one of the other indexes, and sort, or read what is
    finished."""
    index = f" INDEXED BY {CLAIM_INDEX}" if connection.dialect.name == "sqlite" else ""
    as_in_index = sa.text("status IN ('pending')")
    return sa.select(column).select_from(sa.text(f"classification_queue{index}")).where(as_in_index)


# served by: the claim index of the queue
def _claim(connection: sa.Connection, due: "sa.ColumnElement[bool]", most: int) -> tuple[list[QueuedArticle], int]:
    c, dialect = QUEUE.c, connection.dialect.name
    token = -secrets.randbits(TOKEN_BITS) - 1  # tokens of workers are above 0
    available = bare.available_at.nulls_first() if dialect == "postgresql" else bare.available_at
    some = (
        _pending(connection, bare.id)
        .where(due)
        .order_by(bare.priority.desc(), available, bare.created_at, bare.id)
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    # As an array, which is made once: PostgreSQL may run a joined sub-query again, and change more than the limit.
    chosen = c.id == sa.any_(sa.func.array(some.scalar_subquery())) if dialect == "postgresql" else c.id.in_(some)
    used_up, current = c.retry_count >= MAX_ATTEMPTS, now(dialect)
    rows = connection.execute(
        sa.update(QUEUE)
        .where(chosen)
        .values(
            status=sa.case((used_up, FAILED), else_=PROCESSING),
            retry_count=sa.case((used_up, c.retry_count), else_=c.retry_count + 1),
            error_message=sa.case((used_up, USED_UP), else_=None),
            lease=sa.case((used_up, None), else_=token),
            leased_until=sa.case((used_up, None), else_=now(dialect, LEASE_SECONDS)),
            processed_at=sa.case((used_up, current), else_=c.processed_at),
            updated_at=current,
        )
        .returning(c.id, c.content_id, c.priority, c.retry_count, c.created_at, c.available_at, c.status)
    ).all()
    # RETURNING has no order.
    ordered = sorted(rows, key=lambda row: (-row.priority, str(row.available_at or ""), row.created_at, row.id.hex))
    items = [
        QueuedArticle(row.id, row.content_id, row.priority, row.retry_count - 1, in_utc(row.created_at), token)
        for row in ordered
        if row.status == "processing"
    ]
    return items, len(rows)


# served by: the primary keys
def _complete(
    connection: sa.Connection, key: uuid.UUID, token: int, names: list[str], scores: dict[str, float] | None
) -> bool:
    # The article before the row, as a sync and the cascade of a DELETE do it.
    of_row = sa.select(CONTENTS.c.id).join(QUEUE, QUEUE.c.content_id == CONTENTS.c.id).where(QUEUE.c.id == key)
    content_id = connection.scalar(of_row.with_for_update(of=CONTENTS, key_share=True))
    if content_id is None:
        return False
    ended = _settle(
        connection, key, token, status=COMPLETED, error_message=None, processed_at=now(connection.dialect.name),
        retry_count=QUEUE.c.retry_count - 1,
    )  # fmt: skip
    if ended:
        article = sa.update(CONTENTS).where(CONTENTS.c.id == content_id)
        connection.execute(article.values(topics=names, topic_scores=scores))
    return ended


def _fail(connection: sa.Connection, key: uuid.UUID, token: int, error: str) -> bool:
    c, dialect = QUEUE.c, connection.dialect.name
    is_last = c.retry_count >= MAX_ATTEMPTS
    waits = ((c.retry_count == tries, now(dialect, BACKOFF(tries))) for tries in range(1, MAX_ATTEMPTS))
    return _settle(
        connection, key, token, status=sa.case((is_last, FAILED), else_=PENDING), error_message=error,
        available_at=sa.case((is_last, c.available_at), *waits, else_=now(dialect)),
        processed_at=sa.case((is_last, now(dialect)), else_=None),
    )  # fmt: skip


# served by: the primary key
def _settle(connection: sa.Connection, key: uuid.UUID, token: int, **values: Any) -> bool:
    """Write the end of a try, if the row is still ours."""
    c = QUEUE.c
    settled = connection.execute(
        sa.update(QUEUE)
        .where(c.id == key, c.lease == token, c.status == PROCESSING)
        .values(**values, lease=None, leased_until=None, updated_at=now(connection.dialect.name))
        .returning(c.id)
    ).first()
    return settled is not None


# served by: idx_queue_status_created
def _count(connection: sa.Connection, at_most: int) -> StatusCounts:
    counts = StatusCounts()
    if _is_small(connection):
        found = connection.execute(sa.select(QUEUE.c.status, sa.func.count()).group_by(QUEUE.c.status))
        by_status: dict[str, int] = {row[0]: row[1] for row in found}
        counts.update({status: by_status.get(status, 0) for status in STATUSES})
        return counts
    for status in STATUSES:
        of_status = QUEUE.c.status == sa.literal_column(f"'{status}'", sa.String)
        some: sa.Select[Any] = (
            sa.select(sa.literal_column("1").label("one")).select_from(QUEUE).where(of_status).limit(at_most + 1)
        )
        with index_order(connection):
            rows = connection.scalar(sa.select(sa.func.count()).select_from(some.subquery())) or 0
        if rows > at_most:
            counts.exact = False
            rows = max(_estimate(connection, status), at_most) if connection.dialect.name == "postgresql" else at_most
        counts[status] = rows
    return counts


def _is_small(connection: sa.Connection) -> bool:
    """Return whether the table is small enough to be counted from end to end."""
    if connection.dialect.name == "postgresql":
        return int(connection.scalar(sa.text("SELECT pg_relation_size('classification_queue')")) or 0) <= SMALL_BYTES
    # Each by itself: together they would read the whole table.
    first, last = connection.execute(
        sa.text(
            "SELECT (SELECT min(_rowid_) FROM classification_queue), (SELECT max(_rowid_) FROM classification_queue)"
        )
    ).one()
    return first is None or last - first < SMALL_ROWS


def _estimate(connection: sa.Connection, status: str) -> int:
    """Return how many rows the planner expects: by the statistics of ANALYZE and the size of the table now."""
    wanted = f"SELECT 1 FROM classification_queue WHERE status = '{status}'"  # noqa: S608
    plan = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {wanted}").scalar()
    found = json.loads(plan) if isinstance(plan, str) else plan
    return int(found[0]["Plan"]["Plan Rows"]) if found else 0


def _key_and_token(item: uuid.UUID | QueuedArticle) -> tuple[uuid.UUID, int]:
    if isinstance(item, QueuedArticle):
        return item.id, item.token
    token = TOKENS.of(item)
    if token is None:
        raise rm.errors.BadRequest(
            f"row {item} was not dequeued by this process. Pass the item that dequeue_batch() returned"
        )
    return item, token


def _topics(given: GivenTopics) -> tuple[list[str], dict[str, float] | None]:
    """Return topics as the table has them: their keys, and their scores if there are any."""
    if isinstance(given, str):
        raise rm.errors.BadRequest("topics are a list of keys, not one text")
    try:
        if isinstance(given, Mapping):
            scores = {checked_topic(key): checked_score(score) for key, score in given.items()}
            return list(scores), scores
        if any(isinstance(each, TopicScore) for each in given):
            every = [each if isinstance(each, TopicScore) else TopicScore("", 0.0) for each in given]
            scores = {checked_topic(each.topic): checked_score(each.score) for each in every}
            return list(scores), scores
        return list(dict.fromkeys(checked_topic(each) for each in given)), None
    except (TypeError, ValueError) as error:
        raise rm.errors.BadRequest(f"these are no topics: {error}. Nothing was written") from None


def _error_text(error: str | BaseException) -> str:
    if isinstance(error, rm.errors.WorkError):
        return str(storable(str(error.code)))[:LONGEST_ERROR]
    text: str = type(error).__name__ if isinstance(error, BaseException) else storable(error)
    return text[:LONGEST_ERROR]
