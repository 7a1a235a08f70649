"""The revisions of the tables of entities."""

from pathlib import Path

from alembic import context

from rowmill.systems.revisions import Revisions
from rowmill_systems.entities.models import Shape


def revisions_of(shape: Shape) -> Revisions:
    """For a table of this shape."""
    return Revisions(Path(__file__).parent, "entities_alembic_version", lock=0x1_7E47, attributes={"shape": shape})


def shape_given() -> Shape:
    """The shape, for a revision that runs."""
    found: Shape = context.config.attributes["shape"]
    return found
