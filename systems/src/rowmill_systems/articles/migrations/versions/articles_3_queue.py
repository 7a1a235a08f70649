"""The classification queue: one row per article. A table that is there gets what it lacks, and its rows go on.

What is in processing and has no lease gets one from its last change on, so that it comes back if nobody works on it.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from rowmill_systems.articles.migrations.taking_over import (
    MOMENT,
    IndexToMake,
    TableToTakeOver,
    by_name,
    fill_defaults,
    key,
    make_indexes,
    make_or_complete,
    moment,
    take_back,
)

revision = "articles_3"
down_revision = "articles_2"
branch_labels = None
depends_on = None

STATES = ("pending", "processing", "completed", "failed", "cancelled")
LEASE_MINUTES = 15
"""A worker of before may need so long for what it has begun."""


def table() -> TableToTakeOver:
    content = sa.ForeignKey("contents.id", ondelete="CASCADE")
    return TableToTakeOver(
        "classification_queue",
        by_name(
            key(),
            sa.Column("content_id", sa.Uuid, content, nullable=False),
            sa.Column("status", sa.String(20), nullable=False, server_default="pending"),
            sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
            sa.Column("retry_count", sa.Integer, nullable=False, server_default="0"),
            sa.Column("error_message", sa.Text),
            moment("created_at"),
            moment("updated_at"),
            sa.Column("processed_at", MOMENT),
            sa.Column("available_at", MOMENT),
            sa.Column("lease", sa.BigInteger),
            sa.Column("leased_until", MOMENT),
        ),
        needed={"id": "a uuid", "content_id": "the key of the article"},
        indexes={
            "uq_classification_queue_content": IndexToMake(["content_id"], unique=True),
            "idx_queue_status_created": IndexToMake(["status", "created_at"]),
            "idx_queue_priority": IndexToMake([sa.text("priority DESC"), "created_at"]),
        },
        constraints=[
            sa.CheckConstraint(f"status IN ({', '.join(map(repr, STATES))})", name="ck_classification_queue_status")
        ],
        states=STATES,
    )


def upgrade() -> None:
    connection = op.get_bind()
    wanted = table()
    if make_or_complete(connection, wanted) is not None:
        fill_defaults(connection, wanted)
        require_priority(connection)
        fill(connection)
    make_indexes(connection, wanted)


def require_priority(connection: sa.Connection) -> None:
    """Let every row have a priority: one without would have no place in the order of claims."""
    found = {column["name"]: column for column in sa.inspect(connection).get_columns("classification_queue")}
    if found["priority"]["nullable"]:
        with op.batch_alter_table("classification_queue") as batch:  # SQLite copies the table for it
            batch.alter_column("priority", existing_type=sa.Integer(), nullable=False, server_default="0")


def fill(connection: sa.Connection) -> None:
    """Give what is in processing a lease, and what is finished the time of its end."""
    rows = sa.table("classification_queue", *(sa.column(n, each.type) for n, each in table().columns.items()))
    c = rows.c
    running = sa.update(rows).where(c.status == "processing", c.leased_until.is_(None))
    connection.execute(running.values(leased_until=after(connection.dialect.name, c.updated_at)))
    finished = sa.update(rows).where(c.status.in_(("completed", "failed", "cancelled")), c.processed_at.is_(None))
    connection.execute(finished.values(processed_at=c.updated_at))


def after(dialect: str, since: "sa.ColumnElement[Any]") -> "sa.ColumnElement[Any]":
    """Return the end of a lease that began then."""
    if dialect == "sqlite":
        return sa.func.strftime("%Y-%m-%d %H:%M:%f000", since, f"+{LEASE_MINUTES} minutes")
    return since + sa.literal_column(f"interval '{LEASE_MINUTES} minutes'")


def downgrade() -> None:
    take_back(op.get_bind(), table())
