"""A transaction of the user's that ends with the fenced outcome of its rows."""

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, NoReturn

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session
from sqlalchemy.util import greenlet_spawn

from rowmill.model.errors import PermanentError, TransactionMisused
from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease
from rowmill.store.port import Settled, Store
from rowmill.store.transactions import BLOCK, AsyncTransaction, SyncTransaction

NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


class BlockSession(Session):
    """The session of a block. The block alone begins and ends its transaction; savepoints are the user's."""

    def __init__(self, bind: Connection, **options: Any) -> None:
        super().__init__(bind, expire_on_commit=False, join_transaction_mode="control_fully", **options)
        self._connected = bind

    def execute(
        self,
        statement: Any,
        params: Any = None,
        *,
        execution_options: Any = NO_OPTIONS,
        bind_arguments: Any = None,
        **private: Any,
    ) -> Any:
        """A statement of Core goes to the connection at once, past what the session does for objects."""
        if bind_arguments or private or not self._is_core(statement):
            return super().execute(
                statement, params, execution_options=execution_options, bind_arguments=bind_arguments, **private
            )
        return self._connected.execute(statement, params, execution_options=execution_options)

    def _is_core(self, statement: Any) -> bool:
        attributes = getattr(statement, "_propagate_attrs", None)
        return (
            attributes is not None
            and attributes.get("compile_state_plugin") != "orm"
            and not self.dispatch.do_orm_execute
        )

    def commit(self) -> NoReturn:
        raise TransactionMisused(
            "tx.commit() inside settling(): the block commits by itself when it ends, together with the row. "
            "Leave the call out"
        )

    def rollback(self) -> NoReturn:
        raise TransactionMisused(
            "tx.rollback() inside settling(): to undo everything, raise an exception out of the block; "
            "for a part that may fail: async with tx.begin_nested()"
        )

    def close(self) -> NoReturn:
        raise TransactionMisused(
            "tx.close() inside settling(): the block closes its session when it ends. Leave the call out"
        )

    def reset(self) -> NoReturn:
        self.close()

    def invalidate(self) -> NoReturn:
        self.close()

    def begin(self, nested: bool = False) -> Any:
        if nested:
            return super().begin(nested=True)
        raise TransactionMisused(
            "tx.begin() inside settling(): the block has begun the transaction already. Leave it out; "
            "for a part that may fail: tx.begin_nested()"
        )

    def finish(self) -> None:
        """Flush and commit. The fence is the last statement before the commit: see `guard`."""
        super().commit()

    def end(self) -> None:
        super().close()


class AsyncBlockSession(AsyncSession):
    """The same for async handlers."""

    sync_session_class = BlockSession
    sync_session: BlockSession


class Settling:
    """`async with` for async handlers, `with` for sync ones. See `Lease.settling`.

    The fence is the last statement before the commit: it holds the row for the shortest time, and whatever
    was written before it goes away with it if the lease is gone.
    """

    def __init__(
        self,
        store: Store,
        lease: Lease[Any],
        judged: Callable[[], Verdict],
        written: Callable[[list[Verdict]], None],
    ) -> None:
        self._store = store
        self._lease = lease
        self._judged = judged
        self._written = written
        self._verdicts: list[Verdict] | None = None
        """What is to be settled, once the block ends."""
        self._fenced = False
        self._rolled_back = False
        self._async: tuple[AsyncTransaction, AsyncBlockSession] | None = None
        self._sync: tuple[SyncTransaction, BlockSession] | None = None

    async def __aenter__(self) -> AsyncSession:
        self._enter()
        try:
            transaction = await self._store.begin()
            self._async = transaction, AsyncBlockSession(transaction.connection)
        except BaseException:
            self._leave(settled=False)
            raise
        transaction.sync_connection.info[BLOCK] = self
        return self._async[1]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await self._close_async(settled=False)
            return
        # A cancellation, as by a time-out, waits for the end: nobody could say what became of half a commit.
        ending = asyncio.ensure_future(self._end_async())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait({ending})
            if not ending.cancelled():
                ending.exception()
            raise

    async def _end_async(self) -> None:
        assert self._async is not None
        transaction, session = self._async
        settled = False
        try:
            verdicts = self._decide(transaction)
            if session.in_transaction():  # it may have objects to write
                transaction.guard()
                await greenlet_spawn(session.sync_session.finish)
            if not self._fenced:
                await transaction.finish(verdicts, self._check)
            settled = True
        finally:
            await self._close_async(settled=settled)
        self._written(verdicts)

    async def _close_async(self, *, settled: bool) -> None:
        assert self._async is not None
        transaction, session = self._async
        transaction.sync_connection.info.pop(BLOCK, None)
        try:
            if session.in_transaction():
                await greenlet_spawn(session.sync_session.end)
        finally:
            try:
                await transaction.close()
            finally:
                self._leave(settled=settled)

    def __enter__(self) -> Session:
        self._enter()
        try:
            transaction = self._store.begin_sync()
            self._sync = transaction, BlockSession(transaction.connection)
        except BaseException:
            self._leave(settled=False)
            raise
        transaction.connection.info[BLOCK] = self
        return self._sync[1]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._sync is not None
        transaction, session = self._sync
        settled = False
        try:
            if error is None:
                verdicts = self._decide(transaction)
                if session.in_transaction():
                    transaction.guard()
                    session.finish()
                if not self._fenced:
                    transaction.finish(verdicts, self._check)
                settled = True
        finally:
            transaction.connection.info.pop(BLOCK, None)
            try:
                session.end()
            finally:
                try:
                    transaction.close()
                finally:
                    self._leave(settled=settled)
        if settled:
            self._written(verdicts)

    def _enter(self) -> None:
        self._lease.enter_block()

    def _leave(self, *, settled: bool) -> None:
        self._lease.leave_block(settled=settled)

    def _decide(self, transaction: AsyncTransaction | SyncTransaction) -> list[Verdict]:
        """The block came to its end: from here on, it decides about the row, unless a verdict was given before."""
        if self._rolled_back or transaction.ended:
            raise TransactionMisused(
                "the transaction was ended inside settling(), by commit() or rollback() of its connection or by a "
                "statement like COMMIT; the row is not settled. Leave that to the block: it commits when it ends, and "
                "rolls back if an exception leaves it. For a part that may fail: tx.begin_nested()"
            )
        verdict = self._judged()
        if not self._lease.begin_commit():
            raise self._lease.gone()
        self._verdicts = [verdict]
        return self._verdicts

    def on_commit(self) -> None:
        """SQLAlchemy is about to commit."""
        if self._verdicts is None:
            raise TransactionMisused(
                "commit() on the connection of a settling() block: the block commits by itself when it ends, together "
                "with the row. Leave the call out"
            )
        held = self._async or self._sync
        assert held is not None
        held[0].on_commit(self._verdicts, self._check)

    def on_rollback(self) -> None:
        self._rolled_back = True

    def _check(self, settled: Settled) -> None:
        if settled.refused:
            raise PermanentError(f"the database refused the values: {settled.refused[0][1]}", code="value_refused")
        if settled.lost:
            for verdict in settled.lost:
                verdict.lease.lost = True
            raise settled.lost[0].lease.gone()
        self._fenced = True
