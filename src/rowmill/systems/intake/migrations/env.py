"""What Alembic runs: on the connection that it is given."""

from alembic import context

from rowmill.integrations import alembic as rowmill_alembic
from rowmill.systems.intake.migrations import VERSION_TABLE
from rowmill.systems.intake.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    include_name=rowmill_alembic.include_name,  # type: ignore[arg-type]
    include_object=rowmill_alembic.include_object,
)
context.run_migrations()
