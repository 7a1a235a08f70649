"""Alembic's environment for the tables of intake, and what runs it."""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

VERSION_TABLE = "intake_alembic_version"
"""Beside that of the team's own revisions, in the same database."""
LOCK = 0x1_7A4E


def config(connection: sa.Connection) -> Config:
    found = Config(attributes={"connection": connection})
    found.set_main_option("script_location", str(Path(__file__).parent))
    found.set_main_option("path_separator", "os")
    return found


def upgrade(connection: sa.Connection, revision: str = "heads") -> None:
    """Bring the tables to a revision, within the transaction of this connection; one process at a time."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
    command.upgrade(config(connection), revision)


def downgrade(connection: sa.Connection, revision: str) -> None:
    command.downgrade(config(connection), revision)


def current(connection: sa.Connection) -> set[str]:
    """The revisions that the database is at."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return set()
    return set(connection.scalars(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")))  # noqa: S608


def heads() -> set[str]:
    """The revisions that this version of intake needs."""
    return set(ScriptDirectory(str(Path(__file__).parent)).get_heads())
