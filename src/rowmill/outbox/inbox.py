"""The other end of an outbox: a consumer that is given a message twice acts on it once."""

from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol

from sqlalchemy import Connection, Table
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from rowmill.outbox.home import Home
from rowmill.store import inbox as store
from rowmill.store.inbox import InboxColumns, InboxTable

DAYS_30 = 30 * 86400.0
BATCH = 5000

Sync = Session | scoped_session[Any] | Connection
Async = AsyncSession | async_scoped_session[Any] | AsyncConnection


class OnceBlock(Protocol):
    """`async with` for what is async, `with` for what is not."""

    async def __aenter__(self) -> bool: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def __enter__(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Inbox:
    """Which messages were handled. Made by `Mill.inbox`."""

    def __init__(self, home: Home, table: Table | None, columns: InboxColumns, keep: float) -> None:
        self._home = home
        self._given = None if table is None else store.inbox_table(table, columns)
        self._keep = keep

    @property
    def table(self) -> InboxTable:
        return self._given or store.own(self._home.store.dialect.name)

    def once(self, into: Sync | Async, message_id: Any, *, consumer: str) -> OnceBlock:
        """Is this the first time that `consumer` sees the message? Noted in your own transaction, so that it is
        remembered if and only if what you do in the block is committed:

        async with inbox.once(session, message.id, consumer="billing") as first:
            if first:
                session.add(Invoice(...))

        A block that raises takes its note back.
        """
        return Once(self, into, str(message_id), consumer)

    def _note(self, consumer: str, message_id: str) -> Any:
        return store.note(self.table, self._home.store.dialect.name, consumer, message_id, self._keep)

    async def prune(self) -> int:
        """Delete what has been kept for long enough, in batches that commit by themselves; answers how many. Workers
        do it by themselves for the table of Rowmill's own."""
        total, table = 0, self.table
        while gone := await self._home.run(lambda connection: store.prune(connection, table, BATCH)):
            total += gone
        return total


class Once:
    """A note in the caller's transaction.

    Without a savepoint: on SQLite, where the driver handles transactions, the end of one that comes first would commit.
    A block that fails deletes its note instead, for callers who swallow the exception and commit.
    """

    def __init__(self, inbox: Inbox, into: Any, message_id: str, consumer: str) -> None:
        self._inbox, self._into = inbox, into
        self._message_id, self._consumer = message_id, consumer
        self._first = False

    async def __aenter__(self) -> bool:
        noted = await self._into.execute(self._inbox._note(self._consumer, self._message_id))
        self._first = noted.scalar_one_or_none() is not None
        return self._first

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._first:
            # A transaction that the database has given up can't be written to; nor can it be committed.
            with suppress(SQLAlchemyError):
                await self._into.execute(self._forgotten)

    def __enter__(self) -> bool:
        noted = self._into.execute(self._inbox._note(self._consumer, self._message_id))
        self._first = noted.scalar_one_or_none() is not None
        return self._first

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._first:
            with suppress(SQLAlchemyError):
                self._into.execute(self._forgotten)

    @property
    def _forgotten(self) -> Any:
        return store.forget(self._inbox.table, self._consumer, self._message_id)
