"""The revisions of the tables of entities."""

from pathlib import Path

from rowmill.systems.common.revisions import Revisions

revisions = Revisions(Path(__file__).parent, "entities_alembic_version", lock=0x1_7E47)
