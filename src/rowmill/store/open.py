"""Opens the store for a database URL, and explains URLs that can't be used."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy.engine import URL

from rowmill.model.errors import DatabaseUnreachable
from rowmill.store import dsn
from rowmill.store.port import CONNECTIONS, Disconnected, Store

VARIABLES = ("ROWMILL_DATABASE_URL", "DATABASE_URL")
EXAMPLES = "Write sqlite:///file.db or postgresql://user@host/name"


def url_from_environment() -> str | None:
    """Return the URL in the environment; None if it has none. Raise for a variable that is set and empty: the rows
    would be looked for in another database."""
    for name in VARIABLES:
        if found := os.environ.get(name, "").strip():
            return found
    for name in VARIABLES:
        if name in os.environ:
            raise DatabaseUnreachable(f"{name} is set, but empty. {EXAMPLES}, or unset it")
    return None


def parse_url(text: str) -> URL:
    """Return a database URL as people write it, with or without a driver."""
    if not text.strip():
        raise DatabaseUnreachable(f"the database URL is empty. {EXAMPLES}")
    try:
        url = sa.make_url(text.replace("postgres://", "postgresql://", 1))
    except (sa.exc.ArgumentError, ValueError):
        # Not raised from the error, which may quote the password: one with a / or an @ is taken for another part.
        raise DatabaseUnreachable(
            f"not a database URL. {EXAMPLES}, with / and @ in a password as %2F and %40"
        ) from None
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise DatabaseUnreachable(f"Rowmill works on PostgreSQL and SQLite, not on {url.get_backend_name()}")
    if url.get_backend_name() == "sqlite" and url.host:
        path = f"{url.host}/{url.database}" if url.database else url.host
        raise DatabaseUnreachable(
            f"a SQLite URL has three slashes before the path, or four if it begins at the root. Write sqlite:///{path}"
        )
    if url.get_backend_name() == "sqlite" and in_memory(url):
        raise DatabaseUnreachable(
            "a SQLite database in memory belongs to one connection, and a worker has several. "
            "Use a file: sqlite:///file.db"
        )
    return url


def in_memory(url: URL) -> bool:
    return not url.database or ":memory:" in url.database or url.query.get("mode") == "memory"


def open_store(url: URL, connections: int = CONNECTIONS, pooled: URL | None = None) -> Store:
    """Return the store for a URL, not yet connected. `connections` are for the transactions of handlers, which go
    through the pooler if there is one. Only the module of this store is imported, which makes a worker start faster."""
    if pooled is not None and {url.get_backend_name(), pooled.get_backend_name()} != {"postgresql"}:
        raise DatabaseUnreachable("pooled_url is for PostgreSQL: it leads to the same database as url, by a pooler")
    if url.get_backend_name() == "sqlite":
        from rowmill.store.sqlite.store import SqliteStore

        return SqliteStore(url)
    try:
        from rowmill.store.postgres.store import PostgresStore
    except ImportError as error:
        raise DatabaseUnreachable("PostgreSQL needs asyncpg. Run: pip install 'rowmill[postgres]'") from error
    return PostgresStore(url, connections, pooled)


@contextmanager
def reachable(url: URL) -> Iterator[None]:
    """Turn the errors of an unreachable database into DatabaseUnreachable with a reason, for code outside of a worker,
    which does not wait for the database."""
    try:
        yield
    except Disconnected as error:
        raise DatabaseUnreachable(f"the database at {dsn.shown(url)} can't be used: {error}") from error
