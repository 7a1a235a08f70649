"""Messages that consumers have handled: one row each, in the transaction of what they did."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Table

from rowmill.model.errors import DeclarationError
from rowmill.model.option_names import checks_options
from rowmill.store.dialect_insert import insert_of
from rowmill.store.moment import moment
from rowmill.store.schema import own_tables


@checks_options
@dataclass(frozen=True, slots=True)
class InboxColumns:
    """Which column of an inbox holds what. Without `expires_at`, rows stay until you delete them."""

    consumer: str = "consumer"
    message_id: str = "message_id"
    received_at: str | None = "received_at"
    expires_at: str | None = "expires_at"


@dataclass(frozen=True, slots=True)
class InboxTable:
    """A table that serves as an inbox."""

    table: Table
    consumer: "Column[Any]"
    message_id: "Column[Any]"
    received_at: "Column[Any] | None"
    expires_at: "Column[Any] | None"


def own(dialect: str) -> InboxTable:
    """Rowmill's own."""
    return inbox_table(own_tables(dialect).inbox, InboxColumns())


def inbox_table(table: Table, columns: InboxColumns) -> InboxTable:
    """A table as an inbox, checked."""
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
def note(inbox: InboxTable, dialect: str, consumer: str, message_id: str, keep: float) -> Any:
    """An INSERT that returns a row only the first time. A second transaction with the same message waits until the
    first has committed, and finds it there, or has rolled back, and is the first itself."""
    values: dict[Any, Any] = {inbox.consumer: consumer, inbox.message_id: message_id}
    if inbox.received_at is not None:
        values[inbox.received_at] = moment(dialect)
    if inbox.expires_at is not None:
        values[inbox.expires_at] = moment(dialect, keep)
    put = insert_of(dialect)(inbox.table).values(values)
    return put.on_conflict_do_nothing(index_elements=[inbox.consumer, inbox.message_id]).returning(inbox.message_id)


# served by: the unique key
def forget(inbox: InboxTable, consumer: str, message_id: str) -> "sa.Delete":
    return sa.delete(inbox.table).where(inbox.consumer == consumer, inbox.message_id == message_id)


# served by: the index on expires_at
def prune(connection: Connection, inbox: InboxTable, most: int) -> int:
    """Delete a batch of what has been kept for long enough; answers how many."""
    if inbox.expires_at is None:
        return 0
    old = (
        sa.select(inbox.consumer, inbox.message_id)
        .where(inbox.expires_at < moment(connection.dialect.name))
        .order_by(inbox.expires_at)
        .limit(most)
    )
    gone = connection.execute(sa.delete(inbox.table).where(sa.tuple_(inbox.consumer, inbox.message_id).in_(old)))
    return int(gone.rowcount)
