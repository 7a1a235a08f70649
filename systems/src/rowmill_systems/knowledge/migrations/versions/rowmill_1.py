"""Rowmill's own tables."""

from alembic import op

from rowmill.integrations import alembic as rowmill_alembic

revision = "rowmill_1"
down_revision = None
branch_labels = ("rowmill",)
depends_on = None


def upgrade() -> None:
    rowmill_alembic.upgrade(op)  # type: ignore[arg-type]


def downgrade() -> None:
    rowmill_alembic.downgrade(op)  # type: ignore[arg-type]
