"""Plans that do not depend on statistics, for statements that are not sent on a worker's own connections."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from rowmill.store.postgres_session import SESSION


@contextmanager
def index_plans(connection: Connection) -> Iterator[None]:
    """Within the block, statements are planned by their indexes, whatever the statistics say: those of a table that
    was empty a minute ago lead to a scan of all of it."""
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
