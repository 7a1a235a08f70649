"""What Alembic runs."""

from rowmill_systems.intake.migrations import revisions
from rowmill_systems.intake.models import IntakeBase

revisions.run(IntakeBase.metadata)
