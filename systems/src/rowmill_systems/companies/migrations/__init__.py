"""The revisions of the tables of companies."""

from pathlib import Path

from rowmill.systems.revisions import Revisions

revisions = Revisions(Path(__file__).parent, "companies_alembic_version", lock=0x1_7C09)
