"""Articles that a person deleted: their feeds may go on naming them."""

import sqlalchemy as sa
from alembic import op

from rowmill_systems.articles.migrations.taking_over import moment

revision = "articles_5"
down_revision = "articles_4"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "deleted_articles",
        sa.Column("source_id", sa.Uuid, sa.ForeignKey("sources.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("identity", sa.Text, primary_key=True),
        moment("deleted_at"),
    )


def downgrade() -> None:
    op.drop_table("deleted_articles")
