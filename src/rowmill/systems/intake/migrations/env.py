"""What Alembic runs."""

from rowmill.systems.intake.migrations import revisions
from rowmill.systems.intake.models import Base

revisions.run(Base.metadata)
