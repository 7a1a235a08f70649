"""What Alembic runs."""

from rowmill_systems.entities.migrations import revisions_of, shape_given
from rowmill_systems.entities.models import EntitiesBase, tables_of

shape = shape_given()
revisions_of(shape).run([EntitiesBase.metadata, tables_of(shape).metadata])
