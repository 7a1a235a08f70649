"""A transaction of the user's that ends with the fenced outcome of a row."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from types import TracebackType
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from rowmill.model.errors import LeaseLost, PermanentError
from rowmill.model.judge import Verdict
from rowmill.store.port import Settled, Store


class Settling:
    """`async with` for async handlers, `with` for sync ones. See `Lease.settling`.

    The fence is the last statement before the commit: it holds the row for the shortest time, and whatever
    was written before it goes away with it if the lease is gone.
    """

    def __init__(self, store: Store, judged: Callable[[], Verdict], written: Callable[[Verdict], None]) -> None:
        self._store = store
        self._judged = judged
        self._written = written
        self._async: AsyncSession | None = None
        self._sync: Session | None = None
        self._turn: AbstractAsyncContextManager[None] = nullcontext()

    async def __aenter__(self) -> AsyncSession:
        self._turn = self._store.turn()
        await self._turn.__aenter__()
        self._async = AsyncSession(self._store.handlers_engine, expire_on_commit=False)
        return await self._async.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session = self._async
        assert session is not None
        try:
            if error is None:
                verdict = self._judged()
                connection = await session.connection()
                await session.flush()
                self._check(await connection.run_sync(self._store.settle_within, verdict), verdict)
                await session.commit()
                self._written(verdict)
        finally:
            try:
                await session.__aexit__(kind, error, trace)
            finally:
                await self._turn.__aexit__(kind, error, trace)

    def __enter__(self) -> Session:
        self._sync = Session(self._store.sync_engine, expire_on_commit=False)
        return self._sync

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session = self._sync
        assert session is not None
        try:
            if error is None:
                verdict = self._judged()
                session.flush()
                self._check(self._store.settle_within(session.connection(), verdict), verdict)
                session.commit()
                self._written(verdict)
        finally:
            session.close()

    def _check(self, settled: Settled, verdict: Verdict) -> None:
        if settled.refused:
            raise PermanentError(f"the database refused the values: {settled.refused[0][1]}", code="value_refused")
        if settled.kept != 1:
            verdict.lease.lost = True
            key: Any = verdict.lease.queue.key_text(verdict.lease.key)
            raise LeaseLost(
                f"row {key} of {verdict.lease.queue.name} is held by somebody else now; nothing was written"
            )
