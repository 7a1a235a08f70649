"""The outbox: add events, handle them by type, relay them, count them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, overload

from sqlalchemy import Connection, String
from sqlalchemy.ext.asyncio import AsyncConnection

from rowmill.mill_port import MillPort
from rowmill.model.declare import undecorated
from rowmill.model.outcome import Answer
from rowmill.model.queue import Handler, QueueSpec
from rowmill.operator.filters import Filter
from rowmill.outbox import dead_events, queries
from rowmill.outbox.dispatch import UNKNOWN, Dispatch, ThreadedDispatch
from rowmill.outbox.event import Event, EventColumns
from rowmill.outbox.insert import AnySession, EventInserter
from rowmill.outbox.message import Publisher, Subject
from rowmill.outbox.queries import EventView, OutboxStats
from rowmill.outbox.relay import Relay
from rowmill.outbox.routes import Routes
from rowmill.outbox.table import OutboxColumns
from rowmill.store.own import schema

Answered = TypeVar("Answered", bound=Awaitable[Answer] | Answer)


class Outbox:
    """Stores events in the transaction of the change that they describe. Made by `Mill.outbox`.

    `outbox.queue` is an ordinary queue, in order per aggregate.
    """

    def __init__(
        self,
        mill: MillPort,
        queue: QueueSpec[Any],
        columns: OutboxColumns,
        *,
        concurrency: int = 10,
        source: str | None = None,
        log_messages: bool = True,
    ) -> None:
        self.queue = queue
        self.source = source or queue.name
        """Name of this application in messages, for consumers that read events of several applications."""
        self._mill = mill
        self._names = columns
        self.columns = EventColumns(queue, columns)
        self._concurrency = concurrency
        self._routes = Routes(queue.name)
        self._inserter = EventInserter(queue)
        self._publishers: list[Publisher] = []
        self._as_text = isinstance(undecorated(self.columns.aggregate_id), String)
        queue.dead_row_listener = dead_events.dead_row_listener(
            queue, self.columns, mill.events, log_messages=log_messages
        )

    @overload
    def add(
        self, into: "AnySession | Connection", event_type: str, *, aggregate_id: Any, payload: Any = None, **more: Any
    ) -> None: ...
    @overload
    def add(
        self, into: AsyncConnection, event_type: str, *, aggregate_id: Any, payload: Any = None, **more: Any
    ) -> Awaitable[None]: ...
    def add(
        self,
        into: "AnySession | Connection | AsyncConnection",
        event_type: str,
        *,
        aggregate_id: Any,
        payload: Any = None,
        **more: Any,
    ) -> Awaitable[None] | None:
        """Write an event together with your own changes. It exists once they are committed, and not if they are rolled
        back.

        A session, sync or async, inserts it with its next flush. A sync connection inserts it at once. With an async
        connection, await the returned value. Events with the same `aggregate_id` are handled one after another; events
        without one (None) are independent. `more` sets columns of your own.
        """
        if self._as_text and aggregate_id is not None:
            aggregate_id = str(aggregate_id)
        values = {self._names.event_type: event_type, self._names.aggregate_id: aggregate_id, **more}
        if payload is not None:
            values[self._names.payload] = payload
        return self._inserter.add(into, self._mill.store.sql(self.queue), values)

    def on(self, *types: str) -> Callable[[Callable[[Event], Answered]], Callable[[Event], Answered]]:
        """Register a handler for events of these types: async on the loop, sync in threads. A type may be a pattern
        such as `document.*`. An exact type takes precedence over patterns."""

        def register(call: Callable[[Event], Answered]) -> Callable[[Event], Answered]:
            self._route(types, call)
            return call

        return register

    def relay(self, publisher: Publisher, *, types: Sequence[str] = ("*",), subject: Subject = None) -> None:
        """Publish events of these types to a broker. By default: all types without a handler. An event is processed
        once the broker has confirmed it. While the broker is unreachable, events wait and no attempt is counted."""
        self._route(tuple(types), Relay(publisher, self.source, subject))
        self._publishers.append(publisher)

    async def stats(self) -> OutboxStats:
        """Return the current counts. See `OutboxStats`."""
        return await self._mill.run(self.stats_on, write=False)

    def stats_on(self, connection: Connection) -> OutboxStats:
        """Like `stats`, on your own connection."""
        schema.check_version(connection)
        return queries.stats(connection, self._mill.store.sql(self.queue), UNKNOWN)

    def list_events(
        self,
        connection: Connection,
        wanted: Filter,
        limit: int,
        *,
        event_type: str | None = None,
        aggregate_id: str | None = None,
    ) -> list[EventView]:
        """List events in the order of their ids, without payloads."""
        sql, named = self._mill.store.sql(self.queue), (self.columns.event_type, self.columns.aggregate_id)
        return queries.list_events(
            connection, sql, named, wanted, limit, event_type=event_type, aggregate_id=aggregate_id
        )

    async def close(self) -> None:
        """Close the connections to brokers. A worker does this when it stops."""
        for publisher in self._publishers:
            await publisher.close()

    def _route(self, types: tuple[str, ...], call: Callable[[Event], Any]) -> None:
        self._routes.add(types, call)
        step = self.queue.step()
        kind = ThreadedDispatch if self._routes.threaded else Dispatch
        dispatch = kind(self.columns, self._routes, self._mill.events)
        self.queue.handlers[step.name] = Handler(dispatch, self._concurrency, None, step.timeout, self._routes.threaded)

    def __repr__(self) -> str:
        return f"<Outbox {self.queue.name}>"
