"""Files are a queue: attempts, times, and a lease.

Only what is NULL is written. What is queued becomes available now; a backoff that is there stays. What is in processing
gets started now, unless it has a start, and a lease of INTAKE_WORKER_STALE_SECONDS from its start on.

Every column that is added may be NULL or has a default, so a worker of before, which does not know them, works on.
"""

from typing import Any

import sqlalchemy as sa
from alembic import context, op

from rowmill.systems.revisions import indexes_of, missing_columns, missing_indexes
from rowmill_systems.intake.settings import IntakeSettings

revision = "intake_2"
down_revision = "intake_1"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
COLUMNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "processing_attempts": (sa.Integer, {"nullable": False, "server_default": "0"}),
    "processing_started_at": (MOMENT, {}),
    "processing_available_at": (MOMENT, {}),
    "file_hash": (sa.String(64), {}),
    "lease": (sa.BigInteger, {}),
    "leased_until": (MOMENT, {}),
}
INDEXES = {
    "ix_project_files_queued": (["processing_available_at", "created_at"], "processing_status = 'queued'"),
    "ix_project_files_processing": (["processing_started_at"], "processing_status = 'processing'"),
}


def upgrade() -> None:
    for name in missing_columns(op.get_bind(), "project_files", COLUMNS):
        type_, options = COLUMNS[name]
        op.add_column("project_files", sa.Column(name, type_, **options))
    fill()
    for name in missing_indexes(op.get_bind(), "project_files", INDEXES):
        columns, where = INDEXES[name][0], sa.text(INDEXES[name][1])
        op.create_index(name, "project_files", columns, postgresql_where=where, sqlite_where=where)


def fill() -> None:
    names = ("processing_status", "processing_available_at", "processing_started_at", "leased_until")
    files = sa.table("project_files", *(sa.column(name) for name in names))
    available, started, until = files.c.processing_available_at, files.c.processing_started_at, files.c.leased_until
    queued, processing = (files.c.processing_status == word for word in ("queued", "processing"))
    op.execute(sa.update(files).where(queued, available.is_(None)).values({available: sa.func.now()}))
    op.execute(sa.update(files).where(processing, started.is_(None)).values({started: sa.func.now()}))
    op.execute(sa.update(files).where(processing, until.is_(None)).values({until: after(started)}))


def after(started: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """The end of a lease that began then."""
    given = context.config.attributes.get("stale_seconds")
    seconds = float(IntakeSettings().worker_stale_seconds if given is None else given)
    if op.get_context().dialect.name == "sqlite":
        return sa.func.datetime(started, f"{seconds:+} seconds")
    return started + sa.literal_column(f"{seconds!r} * interval '1 second'")


def downgrade() -> None:
    for index in indexes_of(op.get_bind(), "project_files"):
        # Those of Rowmill's too, which `rowmill migrate` made: SQLite drops no column that an index names.
        if index["name"] in INDEXES or str(index["name"]).startswith("rowmill_"):
            op.drop_index(str(index["name"]), "project_files")
    for name in reversed(COLUMNS):
        op.drop_column("project_files", name)
