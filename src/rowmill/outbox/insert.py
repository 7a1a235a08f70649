"""Write an event in the caller's transaction, through a session or a connection."""

from collections.abc import Awaitable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Mapper, Session, configure_mappers, registry, scoped_session

from rowmill.model.queue import QueueSpec
from rowmill.store import enqueue
from rowmill.store.queue_sql import QueueSql

AnySession = Session | AsyncSession | scoped_session[Any] | async_scoped_session[Any]


class EventInserter:
    """Inserts events into one outbox. A session gets an ORM object, which its flush inserts, so there is nothing to
    await."""

    def __init__(self, queue: QueueSpec[Any]) -> None:
        self._queue = queue
        self._mapper = queue.mapper or _mapped(queue.table)

    def add(
        self, into: "AnySession | Connection | AsyncConnection", sql: QueueSql, values: Mapping[str, Any]
    ) -> Awaitable[None] | None:
        match into:
            case Session() | AsyncSession() | scoped_session() | async_scoped_session():
                into.add(self._instance(sql, values))
                return None
            case Connection():
                into.execute(enqueue.insert(sql, values, None)).close()
                return None
            case AsyncConnection():
                return _executed(into, enqueue.insert(sql, values, None))
        raise TypeError(
            f"an event is added to a session or connection of SQLAlchemy, not to {type(into).__name__}. "
            "With another driver, INSERT it: docs/guides/outbox.md has the statement"
        )

    def _instance(self, sql: QueueSql, values: Mapping[str, Any]) -> Any:
        """Build the ORM object without calling the class's own __init__, which may require arguments."""
        configure_mappers()  # instances need configured mappers; by now every class is defined
        instance = self._mapper.class_manager.new_instance()
        for key, value in enqueue.complete(sql, values).items():
            column = self._queue.table.columns[key]
            setattr(instance, self._mapper.get_property_by_column(column).key, value)
        return instance


async def _executed(connection: AsyncConnection, statement: "sa.Insert") -> None:
    await connection.execute(statement)


def _mapped(table: sa.Table) -> "Mapper[Any]":
    """Map a class to a table that has none."""
    made = type("OutboxEvent", (), {"__doc__": f"A row of {table.name}."})
    return registry().map_imperatively(made, table)
