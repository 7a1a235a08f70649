"""The transaction of a `settling()` block: the handler's writes, then the fenced outcome of its rows."""

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar

from sqlalchemy.util import greenlet_spawn

from rowmill.model.errors import LeaseLost, TransactionMisused, ValuesRefused
from rowmill.model.judge import Verdict, reason_of_refusal
from rowmill.model.lease import Lease
from rowmill.model.transaction import AsyncBatchTransaction, AsyncBlockSession, BatchTransaction, BlockSession
from rowmill.store.port import Settled, Store
from rowmill.store.transactions import AsyncTransaction, SyncTransaction, set_block

SHOWN = 10
"""The most keys in a message."""
Async = TypeVar("Async", bound=AsyncBlockSession)
Sync = TypeVar("Sync", bound=BlockSession)


class Settling(Generic[Async, Sync]):
    """The block of `Lease.settling`: `async with` in async handlers, `with` in sync ones.

    The fence is the last statement before the commit: it holds the row for the shortest time, and whatever
    was written before it goes away with it if the lease is gone.
    """

    def __init__(
        self,
        store: Store,
        leases: Sequence[Lease[Any]],
        sessions: tuple[type[Async], type[Sync]],
        judged: Callable[[Sequence[Lease[Any]]], list[Verdict]],
        written: Callable[[list[Verdict]], None],
    ) -> None:
        self._store = store
        self._leases = list(leases)
        self._sessions = sessions
        self._judged = judged
        self._written = written
        self._verdicts: list[Verdict] | None = None
        """The verdicts to settle, once the block ends."""
        self._entered = self._fenced = False
        self._rolled_back = False
        self._async: tuple[AsyncTransaction, Async] | None = None
        self._sync: tuple[SyncTransaction, Sync] | None = None

    async def __aenter__(self) -> Async:
        self._enter()
        try:
            transaction = await self._store.begin()
            transaction.attach(self)
            session = self._sessions[0](lambda: transaction.connection, transaction.execution)
            self._async = transaction, session
        except BaseException:
            self._leave(settled=False)
            raise
        try:
            await self._prepare_async(transaction, session)
        except BaseException:
            await self._close_async(settled=False)
            raise
        return session

    async def _prepare_async(self, transaction: AsyncTransaction, session: Async) -> None:
        """Nothing to do for a single row: its fence comes at the end."""

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
            if session.used and session.in_transaction():  # it may have objects to write
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
        try:
            transaction.attach(None)
            if session.used and session.in_transaction():
                await greenlet_spawn(session.sync_session.end)
        finally:
            try:
                await transaction.close()
            finally:
                self._leave(settled=settled)

    def __enter__(self) -> Sync:
        self._enter()
        try:
            transaction = self._store.begin_sync()
            session = self._sessions[1](transaction.connection)
            self._sync = transaction, session
            set_block(transaction.connection, self)
        except BaseException:
            self._leave(settled=False)
            raise
        try:
            self._prepare_sync(transaction, session)
        except BaseException:
            self._close_sync(settled=False)
            raise
        return session

    def _prepare_sync(self, transaction: SyncTransaction, session: Sync) -> None:
        """Nothing to do for a single row: its fence comes at the end."""

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
                    session.finish()
                if not self._fenced:
                    transaction.finish(verdicts, self._check)
                settled = True
        finally:
            self._close_sync(settled=settled)
        if settled:
            self._written(verdicts)

    def _close_sync(self, *, settled: bool) -> None:
        assert self._sync is not None
        transaction, session = self._sync
        try:
            set_block(transaction.connection, None)
            session.end()
        finally:
            try:
                transaction.close()
            finally:
                self._leave(settled=settled)

    def _enter(self) -> None:
        if self._entered:
            raise TransactionMisused("this settling() block was used before. Call settling() again for another one")
        self._entered = True
        for lease in self._leases:
            lease.enter_block()

    def _leave(self, *, settled: bool) -> None:
        for lease in self._leases:
            lease.leave_block(settled=settled)

    def _decide(self, transaction: AsyncTransaction | SyncTransaction) -> list[Verdict]:
        """Return the verdicts of a block that came to its end. From here on the block decides about its rows, unless
        verdicts were given before."""
        if self._rolled_back or transaction.ended:
            raise TransactionMisused(
                "the transaction was ended inside settling(), by commit() or rollback() of its connection or by a "
                "statement like COMMIT; the row is not settled. Leave that to the block: it commits when it ends, and "
                "rolls back if an exception leaves it. For a part that may fail: tx.begin_nested()"
            )
        verdicts = self._judged(self._leases)
        for lease in self._leases:
            if not lease.begin_commit():
                raise lease.gone()
        self._verdicts = verdicts
        return verdicts

    def on_commit(self) -> None:
        """Settle before SQLAlchemy commits."""
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
            raise ValuesRefused(reason_of_refusal(*settled.refused[0]))
        if settled.lost:
            raise lost([verdict.lease for verdict in settled.lost])
        self._fenced = True


class BatchSettling(Settling[AsyncBatchTransaction, BatchTransaction]):
    """The block of `Batch.settling`.

    It locks its rows first, to know which of them it may write for.
    """

    def _enter(self) -> None:
        """Begin the block with the rows that are not known to be lost."""
        everything, self._leases = self._leases, []
        self._gone: list[Lease[Any]] = []
        for lease in everything:
            try:
                lease.enter_block()
            except LeaseLost:
                self._gone.append(lease)
            except TransactionMisused:
                self._leave(settled=False)
                raise
            else:
                self._leases.append(lease)
        if not self._leases:
            raise lost(self._gone)

    async def _prepare_async(self, transaction: AsyncTransaction, session: AsyncBatchTransaction) -> None:
        self._part_from(await transaction.lock(self._leases))
        session.leases, session.lost = self._leases, self._gone

    def _prepare_sync(self, transaction: SyncTransaction, session: BatchTransaction) -> None:
        self._part_from(transaction.lock(self._leases))
        session.leases, session.lost = self._leases, self._gone

    def _part_from(self, gone: list[Lease[Any]]) -> None:
        for lease in gone:
            lease.lost = True
            lease.leave_block(settled=False)
        if gone:
            self._gone += gone
            self._leases = [lease for lease in self._leases if not lease.lost]
        if not self._leases:
            raise lost(self._gone)


def lost(leases: Sequence[Lease[Any]]) -> LeaseLost:
    """Mark these leases as lost, and return the error to raise."""
    for lease in leases:
        lease.lost = True
    if len(leases) == 1:
        return leases[0].gone()
    queue = leases[0].queue
    keys = ", ".join(queue.key_text(lease.key) for lease in leases[:SHOWN]) + (", ..." if len(leases) > SHOWN else "")
    return LeaseLost(f"{len(leases)} rows of {queue.name} are held by somebody else now ({keys}); nothing was written")
