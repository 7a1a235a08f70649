"""The Alembic revisions of a system's tables, run on a connection that the caller provides."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command, context
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.engine.interfaces import ReflectedIndex

from rowmill.integrations import alembic as rowmill_alembic


class Revisions:
    """The revisions in `folder`, with a version table of their own beside that of your application.

    `lock` is the number of the advisory lock that keeps two processes from upgrading at once. Revisions find
    `attributes` in Alembic's `context.config.attributes`.
    """

    def __init__(
        self, folder: Path, version_table: str, lock: int, attributes: Mapping[str, Any] | None = None
    ) -> None:
        self.folder, self.version_table, self.lock = folder, version_table, lock
        self.attributes = dict(attributes or {})

    def upgrade(self, connection: sa.Connection, revision: str = "heads", **attributes: Any) -> None:
        """Upgrade the tables to a revision in the transaction of this connection, one process at a time."""
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(self.lock)))
        command.upgrade(self._config(connection, **attributes), revision)

    def downgrade(self, connection: sa.Connection, revision: str) -> None:
        command.downgrade(self._config(connection), revision)

    def current(self, connection: sa.Connection) -> set[str]:
        """Return the revisions that the database is at."""
        if not sa.inspect(connection).has_table(self.version_table):
            return set()
        versions = sa.table(self.version_table, sa.column("version_num", sa.Text))
        return set(connection.scalars(sa.select(versions.c.version_num)))

    def heads(self) -> set[str]:
        """Return the revisions that this version of the system needs."""
        return set(ScriptDirectory(str(self.folder)).get_heads())

    def run(self, metadata: sa.MetaData | list[sa.MetaData]) -> None:
        """Run the revisions on the configured connection. For Alembic's env.py."""
        context.configure(
            connection=context.config.attributes["connection"],
            target_metadata=metadata,
            version_table=self.version_table,
            include_name=rowmill_alembic.include_name,  # type: ignore[arg-type]
            include_object=rowmill_alembic.include_object,
        )
        context.run_migrations()

    def _config(self, connection: sa.Connection, **attributes: Any) -> Config:
        config = Config(attributes={**self.attributes, **attributes, "connection": connection})
        config.set_main_option("script_location", str(self.folder))
        config.set_main_option("path_separator", "os")
        return config


def missing_columns(connection: sa.Connection, table: str, columns: Mapping[str, Any]) -> Iterator[str]:
    """Return the names of `columns` that the table lacks. For revisions of tables that a team had before."""
    existing = {column["name"] for column in sa.inspect(connection).get_columns(table)}
    return (name for name in columns if name not in existing)


def missing_indexes(connection: sa.Connection, table: str, indexes: Mapping[str, Any]) -> Iterator[str]:
    """Return the names of `indexes` that the table lacks."""
    existing = {index["name"] for index in indexes_of(connection, table)}
    return (name for name in indexes if name not in existing)


def indexes_of(connection: sa.Connection, table: str) -> "list[ReflectedIndex]":
    """Return the indexes of a table as SQLAlchemy reflects them: on SQLite without those on expressions."""
    with expression_indexes_ignored():
        return sa.inspect(connection).get_indexes(table)


@contextmanager
def expression_indexes_ignored() -> Iterator[None]:
    """Keep SQLAlchemy from warning that it can't reflect the indexes on expressions of SQLite."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Skipped unsupported reflection of expression-based index")
        yield
