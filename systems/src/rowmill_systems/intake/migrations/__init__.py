"""The revisions of intake's tables."""

from pathlib import Path

from rowmill.systems.revisions import Revisions

revisions = Revisions(Path(__file__).parent, "intake_alembic_version", lock=0x1_7A4E)
