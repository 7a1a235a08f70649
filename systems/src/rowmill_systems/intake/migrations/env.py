"""What Alembic runs."""

from rowmill_systems.intake.migrations import revisions
from rowmill_systems.intake.models import Base

revisions.run(Base.metadata)
