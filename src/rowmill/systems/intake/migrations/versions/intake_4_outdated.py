"""Analyses can be outdated: kept, to be shown, until the bytes were analysed anew."""

import sqlalchemy as sa
from alembic import op

revision = "intake_4"
down_revision = "intake_3"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("file_analyses", sa.Column("outdated", sa.Boolean, nullable=False, server_default=sa.false()))


def downgrade() -> None:
    op.drop_column("file_analyses", "outdated")
