"""Inbox: a consumer that receives a message twice acts on it once."""

from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Table
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from rowmill.mill_port import MillPort
from rowmill.model.errors import DeclarationError
from rowmill.model.option_names import checks_options
from rowmill.store.clock import moment
from rowmill.store.expressions import delete_oldest, insert_of
from rowmill.store.own.schema import own_tables


@checks_options
@dataclass(frozen=True, slots=True)
class InboxColumns:
    """Maps the columns of an inbox. Without `expires_at`, rows stay until you delete them."""

    consumer: str = "consumer"
    message_id: str = "message_id"
    received_at: str | None = "received_at"
    expires_at: str | None = "expires_at"


@dataclass(frozen=True, slots=True)
class InboxTable:
    """An inbox table and its columns."""

    table: Table
    consumer: "Column[Any]"
    message_id: "Column[Any]"
    received_at: "Column[Any] | None"
    expires_at: "Column[Any] | None"


def own_inbox(dialect: str) -> InboxTable:
    """Return Rowmill's own inbox table."""
    return inbox_table(own_tables(dialect).inbox, InboxColumns())


def inbox_table(table: Table, columns: InboxColumns) -> InboxTable:
    """Check a table, and return it as an inbox. Raises DeclarationError."""
    problems = []

    def column(role: str) -> "Column[Any] | None":
        name = getattr(columns, role)
        if name is not None and name not in table.columns:
            problems.append(f"InboxColumns({role}=...) names column {name}, which table {table.name} does not have")
        return None if name is None else table.columns.get(name)

    consumer, message_id = column("consumer"), column("message_id")
    received_at, expires_at = column("received_at"), column("expires_at")
    if consumer is not None and message_id is not None:
        pair = {consumer, message_id}
        unique = [set(key.columns) for key in table.constraints if isinstance(key, sa.UniqueConstraint)]
        unique += [set(index.columns) for index in table.indexes if index.unique]
        if pair not in [set(table.primary_key.columns), *unique]:
            problems.append(
                f"nothing keeps ({consumer.name}, {message_id.name}) of table {table.name} from being there twice: "
                "make them its primary key, or unique"
            )
    if problems or consumer is None or message_id is None:
        raise DeclarationError(table.name, problems)
    return InboxTable(table, consumer, message_id, received_at, expires_at)


# served by: the unique key, which makes a second one wait for the first one's end
def insert_note(inbox: InboxTable, dialect: str, consumer: str, message_id: str, keep: float) -> Any:
    """Build an INSERT that returns a row only for a new message. A second transaction with the same message waits for
    the first one: if that commits, it gets no row; if that rolls back, it is the first itself."""
    values: dict[Any, Any] = {inbox.consumer: consumer, inbox.message_id: message_id}
    if inbox.received_at is not None:
        values[inbox.received_at] = moment(dialect)
    if inbox.expires_at is not None:
        values[inbox.expires_at] = moment(dialect, keep)
    put = insert_of(dialect)(inbox.table).values(values)
    return put.on_conflict_do_nothing(index_elements=[inbox.consumer, inbox.message_id]).returning(inbox.message_id)


# served by: the unique key
def delete_note(inbox: InboxTable, consumer: str, message_id: str) -> "sa.Delete":
    return sa.delete(inbox.table).where(inbox.consumer == consumer, inbox.message_id == message_id)


# served by: the index on expires_at
def prune(connection: Connection, inbox: InboxTable, most: int) -> int:
    """Delete one batch of expired rows. Return their number."""
    if inbox.expires_at is None:
        return 0
    key = (inbox.consumer, inbox.message_id)
    expired = delete_oldest(inbox.table, key, inbox.expires_at, moment(connection.dialect.name), most)
    return int(connection.execute(expired).rowcount)


BATCH = 5000

Sync = Session | scoped_session[Any] | Connection
Async = AsyncSession | async_scoped_session[Any] | AsyncConnection


class OnceBlock(Protocol):
    """A block that works with `async with` for async sessions and `with` for sync ones."""

    async def __aenter__(self) -> bool: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def __enter__(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Inbox:
    """Remembers which messages were handled. Made by `Mill.inbox`."""

    def __init__(self, mill: MillPort, table: Table | None, columns: InboxColumns, keep: float) -> None:
        self._mill = mill
        self._given = None if table is None else inbox_table(table, columns)
        self._keep = keep

    @property
    def table(self) -> InboxTable:
        return self._given or own_inbox(self._mill.store.dialect.name)

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
        return insert_note(self.table, self._mill.store.dialect.name, consumer, message_id, self._keep)

    async def prune(self) -> int:
        """Delete expired rows in batches, each in its own transaction. Return their number. Workers do this for
        Rowmill's own inbox table."""
        total, table = 0, self.table
        while gone := await self._mill.run(lambda connection: prune(connection, table, BATCH)):
            total += gone
        return total


class Once:
    """Records a message in the caller's transaction.

    It does not use a savepoint: with SQLite's driver, releasing a savepoint may commit the transaction. A failed block
    deletes its record instead, for callers that catch the exception and commit.
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
            # An aborted transaction accepts no statement, and can't be committed either.
            with suppress(SQLAlchemyError):
                await self._into.execute(self._delete_note)

    def __enter__(self) -> bool:
        noted = self._into.execute(self._inbox._note(self._consumer, self._message_id))
        self._first = noted.scalar_one_or_none() is not None
        return self._first

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._first:
            with suppress(SQLAlchemyError):
                self._into.execute(self._delete_note)

    @property
    def _delete_note(self) -> Any:
        return delete_note(self._inbox.table, self._consumer, self._message_id)
