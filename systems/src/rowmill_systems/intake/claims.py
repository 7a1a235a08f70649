"""Claim and sweep files from a loop and a session of your own.

    with Session(engine) as db:
        file = claim_next_file(db)
        db.commit()

Both functions take a Session, or an AsyncSession and are awaited then. Each is one statement, uses the database's
clock, and leaves the commit to you. Workers of Rowmill may run beside them: no file is taken twice.
"""

from collections.abc import Awaitable
from typing import Any, overload

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from rowmill_systems.intake.models import ProjectFile
from rowmill_systems.intake.queue import STALE_FAILED, STALE_REQUEUED
from rowmill_systems.intake.settings import MAX_PROCESSING_ATTEMPTS, IntakeSettings

# As literals, so that the partial indexes serve them under every plan.
QUEUED: sa.ColumnClause[str] = sa.literal_column("'queued'")
PROCESSING: sa.ColumnClause[str] = sa.literal_column("'processing'")
FAILED: sa.ColumnClause[str] = sa.literal_column("'failed'")
ATTEMPTS = sa.func.coalesce(ProjectFile.processing_attempts, 0)
UNSYNCHRONIZED = {"synchronize_session": False, "populate_existing": True}


@overload
def claim_next_file(db: Session, *, lease_seconds: float | None = None) -> ProjectFile | None: ...
@overload
def claim_next_file(db: AsyncSession, *, lease_seconds: float | None = None) -> Awaitable[ProjectFile | None]: ...
def claim_next_file(db: Session | AsyncSession, *, lease_seconds: float | None = None) -> Any:
    """Take the oldest file that is due and has attempts left, or return None.

    It is `processing` then, with one attempt more and its error cleared. After `lease_seconds`,
    INTAKE_WORKER_STALE_SECONDS by default, a sweep takes it for abandoned.
    """
    seconds = IntakeSettings().worker_stale_seconds if lease_seconds is None else lease_seconds
    return db.run_sync(_claim, seconds) if isinstance(db, AsyncSession) else _claim(db, seconds)


@overload
def requeue_stale_processing_files(db: Session, stale_after_seconds: float, limit: int) -> int: ...
@overload
def requeue_stale_processing_files(db: AsyncSession, stale_after_seconds: float, limit: int) -> Awaitable[int]: ...
def requeue_stale_processing_files(db: Session | AsyncSession, stale_after_seconds: float, limit: int) -> Any:
    """Give up to `limit` files back that have been in processing for too long; return how many.

    They become `queued` with the error `stale_processing_requeued`, or, with no attempts left, `failed` with
    `stale_processing_max_attempts`. A file whose lease a worker of Rowmill still renews is not stale.
    """
    if isinstance(db, AsyncSession):
        return db.run_sync(_requeue, stale_after_seconds, limit)
    return _requeue(db, stale_after_seconds, limit)


def _claim(db: Session, seconds: float) -> ProjectFile | None:
    dialect, file = db.get_bind().dialect.name, ProjectFile
    due = (
        sa.select(file.id)
        .where(file.processing_status == QUEUED, ATTEMPTS < MAX_PROCESSING_ATTEMPTS)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    # One after the other: together, sorted NULLs first, no index would serve them.
    at_once = due.where(file.processing_available_at.is_(None)).order_by(file.created_at, file.id)
    waited = due.where(file.processing_available_at <= now(dialect)).order_by(
        file.processing_available_at, file.created_at, file.id
    )
    claim = (
        sa.update(file)
        .where(file.id == sa.func.coalesce(at_once.scalar_subquery(), waited.scalar_subquery()))
        .values(
            processing_status=PROCESSING,
            processing_attempts=ATTEMPTS + 1,
            processing_started_at=now(dialect),
            processing_error=None,
            lease=None,
            leased_until=now(dialect, seconds),
        )
        .returning(file)
    )
    return db.scalars(claim, execution_options=UNSYNCHRONIZED).one_or_none()


def _requeue(db: Session, stale_after_seconds: float, limit: int) -> int:
    dialect, file = db.get_bind().dialect.name, ProjectFile
    given_up = sa.or_(file.lease.is_(None), file.leased_until.is_(None), file.leased_until < now(dialect))
    stale = (
        sa.select(file.id)
        .where(file.processing_status == PROCESSING, given_up)
        .where(sa.func.coalesce(file.processing_started_at, file.created_at) < now(dialect, -stale_after_seconds))
        .order_by(file.processing_started_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    # As an array, which is made once: PostgreSQL may run a joined sub-query again, and change more than the limit.
    chosen = file.id == sa.any_(sa.func.array(stale.scalar_subquery()))
    spent = ATTEMPTS >= MAX_PROCESSING_ATTEMPTS
    change = (
        sa.update(file)
        .where(chosen if dialect == "postgresql" else file.id.in_(stale))
        .values(
            processing_status=sa.case((spent, FAILED), else_=QUEUED),
            processing_error=sa.case((spent, STALE_FAILED), else_=STALE_REQUEUED),
            processing_available_at=sa.case((spent, file.processing_available_at), else_=now(dialect)),
            processed_at=sa.case((spent, now(dialect)), else_=file.processed_at),
            lease=None,
            leased_until=None,
        )
    )
    changed: int = db.execute(change, execution_options={"synchronize_session": False}).rowcount  # type: ignore[attr-defined]
    return changed


def now(dialect: str, seconds: float = 0.0) -> sa.ColumnElement[Any]:
    """Return the database's time, so many seconds from now, also within a long transaction."""
    if dialect == "postgresql":
        return sa.func.statement_timestamp() + sa.literal_column(f"{float(seconds)!r} * interval '1 second'")
    return sa.func.strftime("%Y-%m-%d %H:%M:%f000", "now", f"{float(seconds):+} seconds")
