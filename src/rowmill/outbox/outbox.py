"""The outbox itself: events are added, handled by type, and counted."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, overload

from sqlalchemy import Connection, String
from sqlalchemy.ext.asyncio import AsyncConnection

from rowmill.mill_port import MillPort
from rowmill.model.declare import undecorated
from rowmill.model.outcome import Answer
from rowmill.model.queue import Handler, QueueSpec
from rowmill.operator.filters import Filter
from rowmill.outbox import alert, queries
from rowmill.outbox.adding import Adding, AnySession
from rowmill.outbox.dispatch import UNKNOWN, Dispatch, ThreadedDispatch
from rowmill.outbox.event import Event, EventColumns
from rowmill.outbox.message import Publisher, Subject
from rowmill.outbox.queries import EventView, OutboxStats
from rowmill.outbox.relay import Relay
from rowmill.outbox.routes import Routes
from rowmill.outbox.table import OutboxColumns
from rowmill.store.own import schema

Answered = TypeVar("Answered", bound=Awaitable[Answer] | Answer)


class Outbox:
    """Events, written in the transaction of the change that they tell of. Made by `Mill.outbox`.

    It is a queue like any other, in order per aggregate: `outbox.queue`.
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
        """Where its events come from, for those who get events of several applications."""
        self._mill = mill
        self._names = columns
        self.columns = EventColumns(queue, columns)
        self._concurrency = concurrency
        self._routes = Routes(queue.name)
        self._adding = Adding(queue)
        self._publishers: list[Publisher] = []
        self._as_text = isinstance(undecorated(self.columns.aggregate_id), String)
        queue.dead_row_listener = alert.dead_row_listener(queue, self.columns, mill.events, log_messages=log_messages)

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
        """Write an event with your own changes: it is there when they are committed, and not if they are rolled back.

        A session, sync or async, inserts it with its next flush; a sync connection at once; what an async connection
        answers has to be awaited. Events of one `aggregate_id` are handled one after another; those without one (None)
        wait for nobody. `more` is for columns of your own.
        """
        if self._as_text and aggregate_id is not None:
            aggregate_id = str(aggregate_id)
        values = {self._names.event_type: event_type, self._names.aggregate_id: aggregate_id, **more}
        if payload is not None:
            values[self._names.payload] = payload
        return self._adding.add(into, self._mill.store.sql(self.queue), values)

    def on(self, *types: str) -> Callable[[Callable[[Event], Answered]], Callable[[Event], Answered]]:
        """Register the handler of events of these types: async on the loop, sync in threads. A type may be a pattern,
        such as `document.*`; the handler of a type itself goes before those of patterns."""

        def register(call: Callable[[Event], Answered]) -> Callable[[Event], Answered]:
            self._route(types, call)
            return call

        return register

    def relay(self, publisher: Publisher, *, types: Sequence[str] = ("*",), subject: Subject = None) -> None:
        """Publish events of these types (all that have no handler of their own) to a broker. An event is processed when
        the broker has confirmed it; while the broker is away, events wait, at no cost of an attempt."""
        self._route(tuple(types), Relay(publisher, self.source, subject))
        self._publishers.append(publisher)

    async def stats(self) -> OutboxStats:
        """How it stands: see `OutboxStats`."""
        return await self._mill.run(self.counted, write=False)

    def counted(self, connection: Connection) -> OutboxStats:
        """The same on a connection of yours."""
        schema.check_version(connection)
        return queries.stats(connection, self._mill.store.sql(self.queue), UNKNOWN)

    def listed(
        self,
        connection: Connection,
        wanted: Filter,
        limit: int,
        *,
        event_type: str | None = None,
        aggregate_id: str | None = None,
    ) -> list[EventView]:
        """Events, without their payloads, in the order of their ids."""
        sql, named = self._mill.store.sql(self.queue), (self.columns.event_type, self.columns.aggregate_id)
        return queries.list_events(
            connection, sql, named, wanted, limit, event_type=event_type, aggregate_id=aggregate_id
        )

    async def close(self) -> None:
        """Let go of the brokers. A worker does it when it ends."""
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
