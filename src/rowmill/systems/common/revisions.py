"""The revisions of a system's tables: an Alembic environment of its own, on a connection that it is given."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command, context
from alembic.config import Config
from alembic.script import ScriptDirectory

from rowmill.integrations import alembic as rowmill_alembic


class Revisions:
    """The folder of revisions, the table that says which of them a database is at, beside that of the team's own, and
    the number of the lock that keeps two processes from upgrading at once. Revisions find `attributes` in Alembic's
    `context.config.attributes`."""

    def __init__(
        self, folder: Path, version_table: str, lock: int, attributes: Mapping[str, Any] | None = None
    ) -> None:
        self.folder, self.version_table, self.lock = folder, version_table, lock
        self.attributes = dict(attributes or {})

    def upgrade(self, connection: sa.Connection, revision: str = "heads", **settings: Any) -> None:
        """Bring the tables to a revision, within the transaction of this connection; one process at a time.
        Revisions find `settings` in the attributes of Alembic's configuration."""
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(self.lock)))
        command.upgrade(self._config(connection, **settings), revision)

    def downgrade(self, connection: sa.Connection, revision: str) -> None:
        command.downgrade(self._config(connection), revision)

    def current(self, connection: sa.Connection) -> set[str]:
        """The revisions that the database is at."""
        if not sa.inspect(connection).has_table(self.version_table):
            return set()
        versions = sa.table(self.version_table, sa.column("version_num", sa.Text))
        return set(connection.scalars(sa.select(versions.c.version_num)))

    def heads(self) -> set[str]:
        """The revisions that this version of the system needs."""
        return set(ScriptDirectory(str(self.folder)).get_heads())

    def run(self, metadata: sa.MetaData | list[sa.MetaData]) -> None:
        """What Alembic's env.py does: run the revisions on the connection that it is given."""
        context.configure(
            connection=context.config.attributes["connection"],
            target_metadata=metadata,
            version_table=self.version_table,
            include_name=rowmill_alembic.include_name,  # type: ignore[arg-type]
            include_object=rowmill_alembic.include_object,
        )
        context.run_migrations()

    def _config(self, connection: sa.Connection, **settings: Any) -> Config:
        found = Config(attributes={**self.attributes, **settings, "connection": connection})
        found.set_main_option("script_location", str(self.folder))
        found.set_main_option("path_separator", "os")
        return found
