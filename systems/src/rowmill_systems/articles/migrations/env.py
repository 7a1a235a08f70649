"""What Alembic runs."""

from rowmill_systems.articles.migrations import revisions
from rowmill_systems.articles.models import ArticlesBase

revisions.run(ArticlesBase.metadata)
