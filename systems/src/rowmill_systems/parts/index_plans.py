"""Keep PostgreSQL's planner to the indexes of a table."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import sqlalchemy as sa

SWITCHES = ("enable_bitmapscan", "enable_seqscan", "enable_sort")


def index_order(connection: sa.Connection) -> AbstractContextManager[None]:
    """Make statements in the block read rows in the order of an index. On SQLite, nothing is changed.

    Until the first ANALYZE after a burst of inserts, the planner believes that the queue is small, and sorts it. The
    caller's settings are restored at the end of the block, or by the rollback that follows an error.
    """
    return _switched_off(connection, SWITCHES)


def any_index(connection: sa.Connection) -> AbstractContextManager[None]:
    """Make statements in the block find rows by an index of any kind, in any order. On SQLite, nothing is changed."""
    return _switched_off(connection, ("enable_seqscan",))


@contextmanager
def _switched_off(connection: sa.Connection, switches: Sequence[str]) -> Iterator[None]:
    if connection.dialect.name != "postgresql":
        yield
        return
    before = connection.execute(sa.select(*(sa.func.current_setting(name) for name in switches))).one()
    _switch(connection, dict.fromkeys(switches, "off"))
    yield
    _switch(connection, dict(zip(switches, before, strict=True)))


def _switch(connection: sa.Connection, values: dict[str, str]) -> None:
    connection.execute(sa.select(*(sa.func.set_config(name, value, True) for name, value in values.items())))
