"""Transactions on SQLAlchemy's engines: our own, and those of `settling()` blocks.

The engines have async drivers, and are run by `greenlet_spawn`, as `sqlalchemy.ext.asyncio` does. That package imports
the ORM, 6 MB which a worker on a `Table` does without: it is imported when somebody asks for an async engine or for a
session.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine, event
from sqlalchemy.util import greenlet_spawn

from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease
from rowmill.store.port import Settled

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

T = TypeVar("T")
BLOCK = "rowmill_block"
"""The key in a connection's `info` under which its block is kept."""
Execution = Callable[[Any, Any], Awaitable[Any] | None]
"""Executes a statement with its values directly on the driver; returns None if it can't."""
Check = Callable[[Settled], None]
"""Raises if what was settled may not be committed."""
SettleWithin = Callable[[Connection, Sequence[Verdict]], Settled]
LockWithin = Callable[[Connection, Sequence[Lease[Any]]], list[Lease[Any]]]


async def run_in_transaction(engine: Engine, work: Callable[[Connection], T], **options: Any) -> T:
    """Run a function in a transaction of an engine with an async driver. `options` are execution options of the
    connection."""

    def run() -> T:
        with engine.connect() as connection, connection.execution_options(**options).begin():
            return work(connection)

    return await greenlet_spawn(run)


def async_proxy(engine: Engine) -> "AsyncEngine":
    """Return SQLAlchemy's async engine for an engine with an async driver. It shares the connections."""
    from sqlalchemy.ext.asyncio import AsyncEngine

    return AsyncEngine(engine)


def guard(target: Engine | Connection) -> None:
    """Call the block before SQLAlchemy commits or rolls back its transaction."""

    @event.listens_for(target, "commit")
    def on_commit(connection: Connection) -> None:
        block = connection.info.get(BLOCK)
        if block is not None:
            block.on_commit()

    @event.listens_for(target, "rollback")
    def on_rollback(connection: Connection) -> None:
        if connection.invalidated:  # it broke, and what was written on it is gone
            return
        block = connection.info.get(BLOCK)
        if block is not None:
            block.on_rollback()


def set_block(connection: Connection, block: Any) -> None:
    """Set the block that is called before a commit or rollback; None when it is over. A broken or closed connection has
    forgotten it already."""
    if not connection.invalidated and not connection.closed:
        connection.info[BLOCK] = block


class AsyncTransaction(Protocol):
    """An open transaction of an async handler."""

    @property
    def connection(self) -> "AsyncConnection":
        """The connection on which SQLAlchemy runs statements."""

    @property
    def execution(self) -> Execution | None:
        """The function that executes statements directly on the driver. See `AsyncBlockSession`."""

    def attach(self, block: Any) -> None:
        """Set the block that is called before SQLAlchemy ends its transaction; None when it is over."""

    @property
    def ended(self) -> bool:
        """Whether the handler ended the transaction through its connection, or tried to."""

    async def lock(self, leases: Sequence[Lease[Any]]) -> list[Lease[Any]]:
        """Lock the rows of these leases; return the leases that are gone."""

    async def finish(self, verdicts: Sequence[Verdict], check: Check) -> None:
        """Settle, check, commit."""

    def on_commit(self, verdicts: Sequence[Verdict], check: Check) -> None:
        """Settle and check before SQLAlchemy commits. Runs in a greenlet."""

    async def close(self) -> None:
        """Roll back what was not committed, and give the connection back."""


class SyncTransaction(Protocol):
    """An open transaction of a sync handler. See `AsyncTransaction`."""

    connection: Connection

    @property
    def ended(self) -> bool: ...

    def lock(self, leases: Sequence[Lease[Any]]) -> list[Lease[Any]]: ...

    def finish(self, verdicts: Sequence[Verdict], check: Check) -> None: ...

    def on_commit(self, verdicts: Sequence[Verdict], check: Check) -> None: ...

    def close(self) -> None: ...


class SyncSqlTransaction:
    """A transaction of a sync handler that SQLAlchemy begins and ends. Its engine is guarded."""

    ended = False

    def __init__(self, connection: Connection, settle: SettleWithin, lock: LockWithin) -> None:
        self.connection = connection
        self._settle, self._lock = settle, lock

    def lock(self, leases: Sequence[Lease[Any]]) -> list[Lease[Any]]:
        return self._lock(self.connection, leases)

    def finish(self, verdicts: Sequence[Verdict], check: Check) -> None:
        """Commit. SQLAlchemy calls `on_commit` before it does."""
        if not self.connection.in_transaction():  # there would be nothing to commit, and the row would not be settled
            self.connection.begin()
        self.connection.commit()

    def on_commit(self, verdicts: Sequence[Verdict], check: Check) -> None:
        check(self._settle(self.connection, verdicts))

    def close(self) -> None:
        """Roll back what was not committed, and give the connection back."""
        try:
            undo(self.connection)
        finally:
            self.connection.close()


def undo(connection: Connection) -> None:
    """Roll back on the driver. SQLAlchemy takes a transaction whose commit failed for ended, and would leave it
    open."""
    if not connection.invalidated:
        connection.connection.rollback()


class AsyncSqlTransaction:
    """A transaction of an async handler that SQLAlchemy begins and ends, while it is our turn to write."""

    ended = False
    execution = None

    def __init__(
        self,
        connection: "AsyncConnection",
        settle: SettleWithin,
        lock: LockWithin,
        turn: AbstractAsyncContextManager[None],
    ) -> None:
        self.connection = connection
        self._settle, self._lock, self._turn = settle, lock, turn

    @classmethod
    async def begin(
        cls, engine: "AsyncEngine", settle: SettleWithin, lock: LockWithin, turn: AbstractAsyncContextManager[None]
    ) -> "AsyncSqlTransaction":
        await turn.__aenter__()
        try:
            return cls(await engine.connect(), settle, lock, turn)
        except BaseException:
            await turn.__aexit__(None, None, None)
            raise

    @property
    def sync_connection(self) -> Connection:
        found = self.connection.sync_connection
        assert found is not None
        return found

    def attach(self, block: Any) -> None:
        set_block(self.sync_connection, block)

    async def lock(self, leases: Sequence[Lease[Any]]) -> list[Lease[Any]]:
        return await self.connection.run_sync(self._lock, leases)

    async def finish(self, verdicts: Sequence[Verdict], check: Check) -> None:
        if not self.connection.in_transaction():
            await self.connection.begin()
        await self.connection.commit()

    def on_commit(self, verdicts: Sequence[Verdict], check: Check) -> None:
        check(self._settle(self.sync_connection, verdicts))

    async def close(self) -> None:
        try:
            try:
                await self.connection.run_sync(undo)
            finally:
                await self.connection.close()
        finally:
            await self._turn.__aexit__(None, None, None)
