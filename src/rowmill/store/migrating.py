"""A database is made ready: Rowmill's own tables, and what the declared queues need in theirs."""

from collections.abc import Sequence

from sqlalchemy import Connection

from rowmill.store import indexes, presence, schema
from rowmill.store.terms import Terms


def migrate(connection: Connection, queues: Sequence[Terms], *, tables: bool) -> list[int]:
    """Bring Rowmill's own tables to this version, and the queues' indexes and triggers into place; answers the steps
    taken. With `tables`, create the queues' own tables that are missing too."""
    steps = schema.migrate(connection)
    for terms in queues:
        table = terms.queue.table
        if tables:
            presence.make_schema(connection, table)
            table.create(connection, checkfirst=True)
        if not presence.has_table(connection, table):
            continue
        for index in indexes.queue_indexes(terms):
            connection.exec_driver_sql(index.create(terms.table))
        if connection.dialect.name == "postgresql" and not indexes.has_wake_trigger(connection, terms):
            for statement in indexes.wake_trigger(terms):
                connection.exec_driver_sql(statement)
    return steps
