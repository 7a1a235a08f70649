"""Fresh databases: on a PostgreSQL server, ours or the one that the environment names, and in SQLite files."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import psycopg
from psycopg import Connection, sql
from sqlalchemy import URL, make_url

VARIABLES = ("ROWMILL_TEST_DATABASE_URL", "DATABASE_URL")
EMPTY = "template0"
"""The template without tables. Nobody can be connected to it, which would make CREATE DATABASE fail."""
STRATEGIES = 15_00_00
"""The first server with a choice of how to copy a template. Older ones copy files."""
Prepare = Callable[[str], None]
"""Fills the empty database of a URL."""


def given_server() -> str | None:
    """The server that the environment names. A DATABASE_URL for another kind of database is not for us."""
    for variable in VARIABLES:
        value = os.environ.get(variable)
        if value and make_url(value).get_backend_name() in ("postgresql", "postgres"):
            return _plain(make_url(value))
    return None


class Databases:
    """Databases on one server, copied from templates.

    To copy a database with tables takes as long as to make an empty one, and much less than to create its tables.
    """

    def __init__(self, server: str) -> None:
        self.server = server
        self._templates: dict[Prepare, str] = {}

    @cached_property
    def _connection(self) -> Connection:
        return psycopg.connect(self.server, autocommit=True)

    def template(self, prepare: Prepare) -> str:
        """Return the name of a database that `prepare(url)` has filled. It runs once; later calls find its database."""
        if prepare not in self._templates:
            name = self._create(EMPTY)
            prepare(self._url(name))
            # Autovacuum keeps away as well: a database that somebody is connected to can't be copied.
            self._run("ALTER DATABASE {} ALLOW_CONNECTIONS false", name)
            self._templates[prepare] = name
        return self._templates[prepare]

    @contextmanager
    def fresh(self, template: str = EMPTY) -> Iterator[str]:
        """The URL of a copy of a template, dropped afterwards even if connections are left open."""
        name = self._create(template)
        try:
            yield self._url(name)
        finally:
            self._drop(name)

    def close(self) -> None:
        for name in self._templates.values():
            self._drop(name)
        self._templates.clear()
        if "_connection" in self.__dict__:
            self.__dict__.pop("_connection").close()

    def _create(self, template: str) -> str:
        name = f"rowmill_test_{secrets.token_hex(8)}"
        strategy = " STRATEGY file_copy" if self._connection.info.server_version >= STRATEGIES else ""
        self._run("CREATE DATABASE {} TEMPLATE {}" + strategy, name, template)
        return name

    def _drop(self, name: str) -> None:
        self._run("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def _run(self, statement: str, *names: str) -> None:
        self._connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def _url(self, name: str) -> str:
        return _plain(make_url(self.server).set(database=name))


class SqliteTemplates:
    """SQLite files, each prepared once and copied from then on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[Prepare, Path] = {}

    def copy(self, prepare: Prepare, target: Path) -> None:
        if prepare not in self._files:
            file = self._folder / f"{len(self._files)}.db"
            prepare(f"sqlite:///{file}")
            self._files[prepare] = file
        shutil.copyfile(self._files[prepare], target)


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """The URL of an empty database, dropped afterwards even if connections are left open."""
    databases = Databases(server)
    try:
        with databases.fresh() as url:
            yield url
    finally:
        databases.close()


def _plain(url: URL) -> str:
    """Without a driver's name: postgresql+asyncpg:// becomes postgresql://, which libpq reads as well."""
    return url.set(drivername="postgresql").render_as_string(hide_password=False)
