"""The revisions of the tables of articles."""

from pathlib import Path

from rowmill.systems.revisions import Revisions

revisions = Revisions(Path(__file__).parent, "articles_alembic_version", lock=0x1_7D16)
