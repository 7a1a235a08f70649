"""What Alembic runs."""

from rowmill.systems.entities.migrations import revisions
from rowmill.systems.entities.models import Base

revisions.run(Base.metadata)
