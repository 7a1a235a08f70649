"""Translates one PostgreSQL URL, as hosting services hand it out, for asyncpg, SQLAlchemy and psycopg."""

from typing import Any

from sqlalchemy.engine import URL

LIBPQ_ALONE = (
    "application_name", "channel_binding", "client_encoding", "connect_timeout", "fallback_application_name",
    "gssdelegation", "gssencmode", "keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval",
    "krbsrvname", "load_balance_hosts", "replication", "require_auth", "requirepeer", "sslcompression", "sslsni",
    "tcp_user_timeout",
)  # fmt: skip
"""Parameters of libpq that asyncpg would pass to the server, which does not know them."""

CACHES = ("statement_cache_size", "prepared_statement_cache_size")
"""Cache sizes for asyncpg and for SQLAlchemy, which a pooler between us and the server may need."""


def shown(url: URL) -> str:
    """Return the URL for a message, without passwords, which may stand among its parameters too."""
    secrets = [name for name in url.query if "password" in name]
    return url.difference_update_query(secrets).render_as_string(hide_password=True)


def for_asyncpg(url: URL) -> dict[str, Any]:
    """Return the arguments of `asyncpg.connect`. It reads sslmode, certificates and server settings from the URL."""
    plain = _with_sslmode(url).set(drivername="postgresql").difference_update_query((*LIBPQ_ALONE, *CACHES))
    size = url.query.get("statement_cache_size")
    given = {} if size is None else {"statement_cache_size": int(str(size))}
    return {"dsn": plain.render_as_string(hide_password=False), **given}


def for_engine(url: URL) -> dict[str, Any]:
    """Return the `connect_args` of an engine on asyncpg."""
    size = url.query.get("prepared_statement_cache_size")
    given = {} if size is None else {"prepared_statement_cache_size": int(str(size))}
    return for_asyncpg(url) | given


def for_psycopg(url: URL) -> URL:
    """Return the URL for a sync engine on psycopg."""
    return _with_sslmode(url).set(drivername="postgresql+psycopg").difference_update_query(CACHES)


def _with_sslmode(url: URL) -> URL:
    """Return the URL with `sslmode`, also where it says `ssl`, as URLs of SQLAlchemy for asyncpg do."""
    mode = url.query.get("ssl")
    return url if mode is None else url.difference_update_query(["ssl"]).update_query_dict({"sslmode": str(mode)})
