"""Readers, and what each has read."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from rowmill_systems.articles.migrations.taking_over import moment

revision = "articles_4"
down_revision = "articles_3"
branch_labels = None
depends_on = None

JSON = sa.JSON().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "readers",
        sa.Column("id", sa.String(100), primary_key=True),
        sa.Column("topics", JSON, nullable=False),
        sa.Column("sources", JSON, nullable=False),
        moment("created_at"),
    )
    op.create_table(
        "read_marks",
        sa.Column("reader_id", sa.String(100), sa.ForeignKey("readers.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("content_id", sa.Uuid, sa.ForeignKey("contents.id", ondelete="CASCADE"), primary_key=True),
        moment("read_at"),
    )
    op.create_index("ix_read_marks_content", "read_marks", ["content_id"])


def downgrade() -> None:
    op.drop_table("read_marks")
    op.drop_table("readers")
