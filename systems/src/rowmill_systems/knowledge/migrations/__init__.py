"""The revisions of the tables of knowledge bases."""

from pathlib import Path

from rowmill.systems.revisions import Revisions

revisions = Revisions(Path(__file__).parent, "knowledge_alembic_version", lock=0x1_7D18)
