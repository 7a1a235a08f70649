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
        return _connect(self.server)

    def template(self, prepare: Prepare) -> str:
        """Return the name of a database that `prepare(url)` has filled. It runs once; later calls find its database."""
        if prepare not in self._templates:
            name = _create(self._connection, EMPTY)
            prepare(_url(self.server, name))
            # Autovacuum keeps away as well: a database that somebody is connected to can't be copied.
            _run(self._connection, "ALTER DATABASE {} ALLOW_CONNECTIONS false", name)
            self._templates[prepare] = name
        return self._templates[prepare]

    @contextmanager
    def fresh(self, template: str = EMPTY) -> Iterator[str]:
        """The URL of a copy of a template, dropped afterwards even if connections are left open."""
        name = _create(self._connection, template)
        try:
            yield _url(self.server, name)
        finally:
            _drop(self._connection, name)

    def close(self) -> None:
        for name in self._templates.values():
            _drop(self._connection, name)
        self._templates.clear()
        if "_connection" in self.__dict__:
            self.__dict__.pop("_connection").close()


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
    """The URL of an empty database, dropped afterwards even if connections are left open. The server may be away in
    between."""
    with _connect(server) as connection:
        name = _create(connection, EMPTY)
    try:
        yield _url(server, name)
    finally:
        with _connect(server) as connection:
            _drop(connection, name)


def _connect(server: str) -> Connection:
    return psycopg.connect(server, autocommit=True)


def _create(connection: Connection, template: str) -> str:
    """Returns its name."""
    name = f"rowmill_test_{secrets.token_hex(8)}"
    strategy = " STRATEGY file_copy" if connection.info.server_version >= STRATEGIES else ""
    _run(connection, "CREATE DATABASE {} TEMPLATE {}" + strategy, name, template)
    return name


def _drop(connection: Connection, name: str) -> None:
    _run(connection, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


def _run(connection: Connection, statement: str, *names: str) -> None:
    connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def _url(server: str, name: str) -> str:
    return _plain(make_url(server).set(database=name))


def _plain(url: URL) -> str:
    """Without a driver's name: postgresql+asyncpg:// becomes postgresql://, which libpq reads as well."""
    return url.set(drivername="postgresql").render_as_string(hide_password=False)
