"""Company names to company ids, in the background: as a team wrote it by hand."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

engine = sa.create_engine(os.environ["DATABASE_URL"])
TABLE = "enterprise.enrichment_requests" if engine.dialect.name == "postgresql" else "enrichment_requests"
MAX_ATTEMPTS = 3
WAITS = (60, 300, 900)


def enqueue(name: str) -> None:
    with engine.begin() as connection:
        connection.execute(
            sa.text(f"INSERT INTO {TABLE} (raw_name, normalized_name) VALUES (:name, lower(:name))"), {"name": name}
        )


def process_batch(resolve: Callable[[str], str], size: int = 100) -> None:
    """Two of these at once take the same rows; a crash leaves the rest of the batch in `processing`."""
    with engine.begin() as connection:
        rows = connection.execute(
            sa.text(
                f"SELECT id, raw_name, attempts FROM {TABLE} WHERE status = 'pending' "
                "AND (next_retry_at IS NULL OR next_retry_at <= :now) ORDER BY id LIMIT :size"
            ).bindparams(sa.bindparam("now", now(), sa.DateTime(timezone=True)), size=size)
        ).all()
        for row in rows:
            connection.execute(sa.text(f"UPDATE {TABLE} SET status = 'processing' WHERE id = :id"), {"id": row.id})
    for row in rows:
        try:
            company_id = resolve(row.raw_name)
        except Exception as error:
            failed(row.id, row.attempts + 1, error)
        else:
            done(row.id, company_id)


def done(row_id: int, company_id: str) -> None:
    with engine.begin() as connection:
        connection.execute(
            sa.text(f"UPDATE {TABLE} SET status = 'done', company_id = :company WHERE id = :id"),
            {"company": company_id, "id": row_id},
        )


def failed(row_id: int, attempts: int, error: Exception) -> None:
    status = "failed" if attempts >= MAX_ATTEMPTS else "pending"
    later = now() + timedelta(seconds=WAITS[min(attempts, len(WAITS)) - 1])
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                f"UPDATE {TABLE} SET status = :status, attempts = :attempts, last_error = :error, "
                "next_retry_at = :later WHERE id = :id"
            ).bindparams(
                sa.bindparam("later", later, sa.DateTime(timezone=True)),
                status=status,
                attempts=attempts,
                error=str(error)[:200],
                id=row_id,
            )
        )


def now() -> datetime:
    """The clock of whichever machine this runs on."""
    moment = datetime.now(UTC)
    return moment if engine.dialect.name == "postgresql" else moment.replace(tzinfo=None)
