"""The queue of requests under the method names that callers already use.

    with engine.begin() as connection:
        queue = LookupQueue(connection)
        queue.enqueue("Acme Ltd.")
        for request in queue.dequeue(100):
            queue.mark_done(request, company_id)

Everything happens in the caller's transaction, and the caller commits. Workers of Rowmill may run beside it: a request
is taken by one of them, and a mark counts only for the one that has it.
"""

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

import rowmill as rm
from rowmill_systems.companies.answered_requests import LONGEST_ANSWERER
from rowmill_systems.companies.company_ids import checked_id
from rowmill_systems.companies.index_plans import index_plans
from rowmill_systems.companies.logs import EventLog
from rowmill_systems.companies.mappings import CachedAnswer, CompanyMappingRepository
from rowmill_systems.companies.models import INTERNAL, PERSON, CompaniesTables, tables_of
from rowmill_systems.companies.queue import STALE_FAILED, STALE_REQUEUED, backoff
from rowmill_systems.companies.salts import Salts, check_salts, find_salts
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.companies.temp_ids import LONGEST_RAW_NAME, normalize_for_temp_id
from rowmill_systems.companies.write_back import write_back
from rowmill_systems.parts.clock import now
from rowmill_systems.parts.database import in_utc, upsert_into
from rowmill_systems.parts.values import storable

STATUSES = ("pending", "processing", "done", "failed")
CAP = 20_000
"""Rows of one status that are counted. Beyond, PostgreSQL estimates, and SQLite says "at least"."""
INSERT_BATCH = 1000
LONGEST_ERROR = 1000
ATTEMPTS_USED_UP = "attempts_used_up"
SOURCE = "lookup_queue"
"""Who resolved a name, unless the caller says."""
TOKEN_BITS = 62

# As literals, so that the partial indexes serve them under every plan.
PENDING: sa.ColumnClause[str] = sa.literal_column("'pending'", sa.String)
PROCESSING: sa.ColumnClause[str] = sa.literal_column("'processing'", sa.String)
DONE: sa.ColumnClause[str] = sa.literal_column("'done'", sa.String)
FAILED: sa.ColumnClause[str] = sa.literal_column("'failed'", sa.String)
OPEN = sa.text("status IN ('pending', 'processing')")


@dataclass(frozen=True, slots=True)
class LookupRequest:
    """A request that was taken from the queue."""

    id: int
    raw_name: str
    normalized_name: str
    temp_id: str | None
    attempts: int
    """Tries so far, this one included."""
    created_at: datetime
    token: int
    """Proves that the request is ours. Another `dequeue` of the same request gets another one."""


@dataclass(frozen=True, slots=True)
class EnqueuedName:
    """What became of a name."""

    raw_name: str
    normalized_name: str
    temp_id: str | None
    """None for a name that names nothing: it gets no id and no request."""
    created: bool
    """Whether a request was made. Otherwise one was open already, or the name names nothing."""


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Requests by status. Where `exact` is False, the table is big, and some numbers are estimates."""

    pending: int
    processing: int
    done: int
    failed: int
    exact: bool = True

    @property
    def total(self) -> int:
        return self.pending + self.processing + self.done + self.failed


class QueueDepth(int):
    """A number of requests, and how it was counted: `exact`, `capped` (there are more) or `estimated`."""

    how: str

    def __new__(cls, rows: int, how: str = "exact") -> "QueueDepth":
        made = super().__new__(cls, rows)
        made.how = how
        return made

    @property
    def exact(self) -> bool:
        return self.how == "exact"


def calculate_next_retry_at(attempts: int, now: datetime | None = None) -> datetime:
    """Return when a request is tried again after this number of attempts: 1, 5, 15 minutes later; the last repeats."""
    return (now or datetime.now(UTC)) + timedelta(seconds=backoff()(max(attempts, 1)))


class LookupQueue:
    """The queue, in the transaction of a connection or a session. `settings` are those of the environment, unless
    given."""

    calculate_next_retry_at = staticmethod(calculate_next_retry_at)

    def __init__(
        self,
        connection: sa.Connection | Session,
        settings: CompaniesSettings | None = None,
        *,
        salts: Salts | None = None,
    ) -> None:
        self._connection = connection.connection() if isinstance(connection, Session) else connection
        self._dialect = self._connection.dialect.name
        self._settings = settings or CompaniesSettings()
        self._tables: CompaniesTables = tables_of(self._dialect)
        self._requests = self._tables.requests
        self._given_salts, self._checked = salts, False
        self._log = EventLog(structlog=self._settings.structlog)
        self._tokens: dict[int, int] = {}

    @property
    def _salts(self) -> Salts:
        if self._given_salts is None:
            self._given_salts = find_salts(self._settings, self._connection.engine.url)
        if not self._checked:
            check_salts(self._connection, self._tables, self._given_salts)
            self._checked = True
        return self._given_salts

    def enqueue(self, name: str) -> EnqueuedName:
        """Ask for the company of a name, unless that is asked for already."""
        return self.enqueue_many([name])[0]

    # served by: uq_enrichment_requests_open
    def enqueue_many(self, names: Iterable[str]) -> list[EnqueuedName]:
        """Ask for the companies of names. Return what became of each, in their order.

        Several spellings of a name make one request. Blank and meaningless names make none.
        """
        pairs = [(name, normalize_for_temp_id(name)) for name in names]
        first: dict[str, str] = {}
        for name, normal in pairs:
            if normal:
                first.setdefault(normal, name)
        ids = {normal: self._salts.temp_id(normal) for normal in first}
        created: set[str] = set()
        wanted = sorted(first)  # in one order: two pipelines that ask for the same names do not lock each other out
        for start in range(0, len(wanted), INSERT_BATCH):
            created |= self._insert([(first[normal], normal, ids[normal]) for normal in wanted[start:][:INSERT_BATCH]])
        results = []
        for name, normal in pairs:
            # Of several spellings, the first one made the request.
            results.append(EnqueuedName(name, normal, ids.get(normal), normal in created))
            created.discard(normal)
        return results

    def _insert(self, rows: Sequence[tuple[str, str, str]]) -> set[str]:
        insert = upsert_into(self._connection, self._requests).values(
            [
                {
                    "raw_name": storable(raw)[:LONGEST_RAW_NAME],
                    "normalized_name": normal,
                    "temp_id": made,
                    "status": "pending",
                    "attempts": 0,
                    "next_retry_at": now(self._dialect),
                    "created_at": now(self._dialect),
                    "updated_at": now(self._dialect),
                }
                for raw, normal, made in rows
            ]
        )
        fresh = insert.on_conflict_do_nothing(index_elements=["normalized_name"], index_where=OPEN)
        return set(self._connection.scalars(fresh.returning(self._requests.c.normalized_name)))

    # served by: the claim index of the queue, (next_retry_at NULLS FIRST, id) of pending requests
    def dequeue(self, batch_size: int | None = None) -> list[LookupRequest]:
        """Take requests that are due, the longest waiting first. They are `processing` then, with one attempt more.

        A request that was put back although its attempts are used up is failed instead.
        """
        c = self._requests.c
        left = self._settings.enrichment_batch_size if batch_size is None else batch_size
        taken: list[LookupRequest] = []
        # One after the other: together, no index would serve them in their order.
        with index_plans(self._connection):
            for due in (c.next_retry_at.is_(None), c.next_retry_at <= now(self._dialect)):
                while left > len(taken):
                    found, looked_at = self._claim(due, left - len(taken))
                    taken += found
                    if not looked_at:
                        break
        self._tokens |= {request.id: request.token for request in taken}
        return taken

    def _claim(self, due: "sa.ColumnElement[bool]", most: int) -> tuple[list[LookupRequest], int]:
        c, token = self._requests.c, -secrets.randbits(TOKEN_BITS) - 1  # tokens of workers are above 0
        order = c.next_retry_at.nulls_first() if self._dialect == "postgresql" else c.next_retry_at
        some = (sa.select(c.id).where(c.status == PENDING, due).order_by(order, c.id).limit(most)).with_for_update(
            skip_locked=True
        )
        used_up = c.attempts >= self._settings.enrichment_max_attempts
        current = now(self._dialect)
        rows = self._connection.execute(
            sa.update(self._requests)
            # Without the status: they are locked, and an index over pending requests would be read to its end.
            .where(self._chosen(some))
            .values(
                status=sa.case((used_up, FAILED), else_=PROCESSING),
                attempts=sa.case((used_up, c.attempts), else_=c.attempts + 1),
                last_error=sa.case((used_up, ATTEMPTS_USED_UP), else_=None),
                lease=sa.case((used_up, None), else_=token),
                leased_until=sa.case(
                    (used_up, None), else_=now(self._dialect, self._settings.enrichment_stale_minutes * 60)
                ),
                finished_at=sa.case((used_up, current), else_=c.finished_at),
                updated_at=current,
            )
            .returning(
                c.id, c.raw_name, c.normalized_name, c.temp_id, c.attempts, c.created_at, c.status, c.next_retry_at
            )
        ).all()
        found = [
            LookupRequest(
                row.id, row.raw_name, row.normalized_name, row.temp_id, row.attempts, in_utc(row.created_at), token
            )
            for row in sorted(rows, key=lambda row: (str(row.next_retry_at or ""), row.id))  # RETURNING has no order
            if row.status == "processing"
        ]
        return found, len(rows)

    def _chosen(self, some: "sa.Select[Any]") -> "sa.ColumnElement[bool]":
        c = self._requests.c
        if self._dialect == "postgresql":
            # As an array, which is made once: PostgreSQL may run a joined sub-query again, and change more than the
            # limit.
            return c.id == sa.any_(sa.func.array(some.scalar_subquery()))
        return c.id.in_(some)

    def mark_done(
        self, request: LookupRequest | int, company_id: str, *, resolved_by: str = SOURCE, confidence: float = 1.0
    ) -> bool:
        """Resolve a request: it is done, the answer is remembered, and rows of target tables get the real id.

        Return False, with nothing changed, if somebody else has the request by now. Raises BadRequest if the id is
        none: a name that nobody knows is marked as failed. So it does for a `resolved_by` with another meaning.
        """
        company_id, resolved_by = checked_id(company_id), storable(resolved_by)[:LONGEST_ANSWERER] or SOURCE
        if resolved_by in (INTERNAL, PERSON):
            raise rm.errors.BadRequest(f"resolved_by can't be {resolved_by!r}, which stands for mappings of people")
        row = self._settle(
            request, status=DONE, resolved_company_id=company_id, resolved_by=resolved_by, confidence=confidence,
            outcome="accepted", last_error=None, finished_at=now(self._dialect),
        )  # fmt: skip
        if row is None:
            return False
        answer = CachedAnswer(row.normalized_name, company_id, resolved_by, confidence)
        CompanyMappingRepository(self._connection, self._settings).cache_answers([answer])
        ids = self._salts.temp_ids(row.normalized_name, row.temp_id)
        write_back(self._connection, self._tables, dict.fromkeys(ids, company_id), self._log)
        return True

    def mark_failed(self, request: LookupRequest | int, error: str | BaseException) -> bool:
        """Note a failure: the request is tried again after 1, 5, 15 minutes, or is failed if it was the last attempt.

        Return False, with nothing changed, if somebody else has the request by now.
        """
        c, waits = self._requests.c, backoff()
        is_last = c.attempts >= self._settings.enrichment_max_attempts
        attempts = range(1, self._settings.enrichment_max_attempts)
        later: Any = sa.case(
            *((c.attempts == made, now(self._dialect, waits(made))) for made in attempts),
            else_=now(self._dialect, waits(len(waits.waits))),
        )
        return self._settle(
            request,
            status=sa.case((is_last, FAILED), else_=PENDING),
            next_retry_at=sa.case((is_last, None), else_=later),
            finished_at=sa.case((is_last, now(self._dialect)), else_=None),
            last_error=_error_text(error),
        ) is not None  # fmt: skip

    # served by: the primary key
    def _settle(self, request: LookupRequest | int, **values: Any) -> Any:
        """Write the end of a try, if the request is still ours."""
        key, token = self._key_and_token(request)
        c = self._requests.c
        return self._connection.execute(
            sa.update(self._requests)
            .where(c.id == key, c.lease == token, c.status == PROCESSING)
            .values(**values, lease=None, leased_until=None, updated_at=now(self._dialect))
            .returning(c.normalized_name, c.temp_id)
        ).one_or_none()

    def _key_and_token(self, request: LookupRequest | int) -> tuple[int, int]:
        if isinstance(request, LookupRequest):
            return request.id, request.token
        if request not in self._tokens:
            raise rm.errors.BadRequest(
                f"request {request} was not dequeued by this LookupQueue. Pass the request that dequeue() returned"
            )
        return request, self._tokens[request]

    def get_queue_stats(self, *, at_most: int = CAP) -> QueueStats:
        """Count the requests by status. Takes milliseconds at any size: what is many is estimated."""
        depths = {status: self.get_queue_depth(status, at_most=at_most) for status in STATUSES}
        return QueueStats(**{k: int(v) for k, v in depths.items()}, exact=all(each.exact for each in depths.values()))

    # served by: ix_enrichment_requests_status_next_retry, and the claim index for pending requests
    def get_queue_depth(self, status: str | None = None, *, at_most: int = CAP) -> QueueDepth:
        """Count the requests of a status; without one, those that are open. Exact up to `at_most`: beyond, PostgreSQL
        estimates, and SQLite answers `at_most`. The answer is a number, and its `how` says which.
        """
        if status is None:
            parts = [self.get_queue_depth(each, at_most=at_most) for each in ("pending", "processing")]
            how = next((part.how for part in parts if not part.exact), "exact")
            return QueueDepth(sum(parts), how)
        if status not in STATUSES:
            raise rm.errors.BadRequest(f"there is no status {status!r}. There are: {', '.join(STATUSES)}")
        c = self._requests.c
        of_status = c.status == sa.literal_column(f"'{status}'", sa.String)
        some: sa.Select[Any] = sa.select(sa.literal_column("1").label("one")).where(of_status).limit(at_most + 1)
        if self._dialect == "postgresql" and status == "pending":
            # From the end of the index: claims leave dead entries at its beginning.
            some = some.order_by(c.next_retry_at.desc().nulls_last(), c.id.desc())
        with index_plans(self._connection):
            rows = self._connection.scalar(sa.select(sa.func.count()).select_from(some.subquery())) or 0
        if rows <= at_most:
            return QueueDepth(rows)
        if self._dialect != "postgresql":
            return QueueDepth(at_most, "capped")
        return QueueDepth(max(self._estimate(status), at_most), "estimated")

    # served by: the claim index of the queue
    def get_due_depth(self, *, at_most: int = CAP) -> QueueDepth:
        """Count the requests that are due now, up to `at_most`."""
        c, rows = self._requests.c, 0
        with index_plans(self._connection):
            for due in (c.next_retry_at.is_(None), c.next_retry_at <= now(self._dialect)):
                some = sa.select(c.id).where(c.status == PENDING, due).limit(at_most + 1)
                rows += self._connection.scalar(sa.select(sa.func.count()).select_from(some.subquery())) or 0
        return QueueDepth(min(rows, at_most), "exact" if rows <= at_most else "capped")

    def _estimate(self, status: str) -> int:
        """Return how many rows the planner expects: by the statistics of ANALYZE and the size of the table now."""
        plan = self._connection.exec_driver_sql(
            f"EXPLAIN (FORMAT JSON) SELECT 1 FROM {self._requests.fullname} WHERE status = '{status}'"  # noqa: S608
        ).scalar()
        found = json.loads(plan) if isinstance(plan, str) else plan
        return int(found[0]["Plan"]["Plan Rows"]) if found else 0

    # served by: the index on running requests, (leased_until)
    def reset_stale_processing(self, stale_minutes: float | None = None, *, of_workers: bool = True) -> int:
        """Put requests back that have been `processing` for so long and that nobody holds any more. Return how many.

        With no attempt left, they are failed. A request whose lease a worker still renews is not stale; without
        `of_workers`, those that a worker of Rowmill had are left to the next worker, which rescues them.
        """
        c, current = self._requests.c, now(self._dialect)
        given_up = sa.or_(c.lease.is_(None), c.lease < 0)  # nobody renews those
        if of_workers:
            given_up = sa.or_(given_up, c.leased_until.is_(None), c.leased_until < current)
        is_last = c.attempts >= self._settings.enrichment_max_attempts
        before = now(self._dialect, -self._stale_seconds(stale_minutes))
        changed = self._connection.execute(
            sa.update(self._requests)
            .where(c.status == PROCESSING, given_up, c.updated_at < before)
            .values(
                status=sa.case((is_last, FAILED), else_=PENDING),
                last_error=sa.case((is_last, STALE_FAILED), else_=STALE_REQUEUED),
                next_retry_at=sa.case((is_last, None), else_=current),
                finished_at=sa.case((is_last, current), else_=c.finished_at),
                lease=None,
                leased_until=None,
                updated_at=current,
            )
        )
        return changed.rowcount

    def _stale_seconds(self, minutes: float | None = None) -> float:
        """Return after how many seconds a request is taken for abandoned."""
        return 60.0 * (self._settings.enrichment_stale_minutes if minutes is None else minutes)


def _error_text(error: str | BaseException) -> str:
    """Return the code of an exception: its text may have a name in it. Text of the caller's is kept, up to a length."""
    if isinstance(error, rm.errors.WorkError):
        return storable(str(error.code))[:LONGEST_ERROR] or type(error).__name__
    return type(error).__name__ if isinstance(error, BaseException) else storable(error)[:LONGEST_ERROR]
