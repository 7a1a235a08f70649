"""Fresh databases on a PostgreSQL server, ours or the one that the environment names."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql
from sqlalchemy import URL, make_url

VARIABLES = ("ROWMILL_TEST_DATABASE_URL", "DATABASE_URL")


def given_server() -> str | None:
    """The server that the environment names. A DATABASE_URL for another kind of database is not for us."""
    for variable in VARIABLES:
        value = os.environ.get(variable)
        if value and make_url(value).get_backend_name() in ("postgresql", "postgres"):
            return _plain(make_url(value))
    return None


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """The URL of an empty database, dropped afterwards even if connections are left open."""
    name = f"rowmill_test_{secrets.token_hex(8)}"
    identifier = sql.Identifier(name)
    # template0: nobody can be connected to it, which would make CREATE DATABASE fail.
    _run(server, sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(identifier))
    try:
        yield _plain(make_url(server).set(database=name))
    finally:
        _run(server, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(identifier))


def _run(server: str, statement: sql.Composed) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(statement)


def _plain(url: URL) -> str:
    """Without a driver's name: postgresql+asyncpg:// becomes postgresql://, which libpq reads as well."""
    return url.set(drivername="postgresql").render_as_string(hide_password=False)
