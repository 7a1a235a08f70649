"""What Alembic runs."""

from rowmill_systems.knowledge.migrations import revisions
from rowmill_systems.knowledge.models import KnowledgeModel

revisions.run(KnowledgeModel.metadata)
