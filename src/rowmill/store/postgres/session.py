"""Session settings for connections to PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

ALIVE = {
    "application_name": "rowmill",
    # A worker whose machine vanished must not keep rows locked for hours.
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    # Words stand in statements as literals. Where it is off, a backslash at the end of one would swallow its quote.
    "standard_conforming_strings": "on",
}
"""The settings of every session, also of handlers' transactions."""
IMPATIENT = {
    **ALIVE,
    # Our own transactions take milliseconds. Of a process that is frozen in the middle of one, the server waits no
    # longer than this for the rest.
    "idle_in_transaction_session_timeout": "60000",
}
SESSION = {
    # A worker's plans must not depend on statistics: a table that was empty when a plan was cached and is
    # full now would be scanned from end to end for every claim. With these, only index plans are left.
    "enable_seqscan": "off",
    "enable_sort": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    # A stricter one, as a database or a role may have it, ends in errors where another worker was faster.
    "default_transaction_isolation": "read committed",
    # Compiling a statement of a millisecond takes longer than running it.
    "jit": "off",
    **IMPATIENT,
}


@contextmanager
def index_plans(connection: Connection) -> Iterator[None]:
    """Make the planner use indexes inside the block, whatever the statistics say. After a table was filled, stale
    statistics lead to a full scan."""
    if connection.dialect.name != "postgresql":
        yield
        return
    names = [name for name in SESSION if name.startswith("enable_") or name == "jit"]
    reads = ", ".join(f"current_setting('{name}')" for name in names)
    before = connection.exec_driver_sql(f"SELECT {reads}").one()
    _set(connection, dict.fromkeys(names, "off"))
    yield
    _set(connection, dict(zip(names, before, strict=True)))


def _set(connection: Connection, settings: dict[str, str]) -> None:
    # For this transaction alone.
    calls = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
    connection.exec_driver_sql(f"SELECT {calls}")
