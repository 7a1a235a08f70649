"""Keep PostgreSQL's planner to the indexes."""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

SWITCHES = ("enable_bitmapscan", "enable_seqscan", "enable_sort")


@contextmanager
def index_plans(connection: sa.Connection) -> Iterator[None]:
    """Let statements in the block read their rows in the order of an index.

    Before the first ANALYZE, as after a burst of inserts, the planner takes the queue for a few hundred rows, and would
    sort all of it. The settings of the caller's transaction are as before afterwards.
    """
    if connection.dialect.name != "postgresql":
        yield
        return
    asked = ", ".join(f"current_setting('{name}')" for name in SWITCHES)
    before = connection.exec_driver_sql(f"SELECT {asked}").one()
    _switch(connection, ["off"] * len(SWITCHES))
    yield
    _switch(connection, list(before))  # after an error, the end of the transaction does it


def _switch(connection: sa.Connection, values: list[str]) -> None:
    settings = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in zip(SWITCHES, values, strict=True))
    connection.exec_driver_sql(f"SELECT {settings}")
