"""What Alembic runs."""

from alembic import context

from rowmill_systems.companies.migrations import revisions
from rowmill_systems.companies.models import tables_of

revisions.run(tables_of(context.config.attributes["connection"].dialect.name).metadata)
