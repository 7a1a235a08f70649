"""Corrections: what is done about findings, in the transaction that writes down that it was done."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from rowmill.mill_port import MillPort
from rowmill.model.errors import code_of
from rowmill.model.queue import QueueSpec
from rowmill.observe.events import Events
from rowmill.operator import change
from rowmill.reconcile.report import Finding
from rowmill.store.port import Store

Correction = Callable[[Sequence[Finding], AsyncConnection], Awaitable[Iterable[Finding] | None]]
"""Given findings of one kind and a transaction to write in. Answers those that it took care of; None: all of them."""
Corrections = Correction | Mapping[str, Correction] | None

PATIENCE = 5
"""Findings that may fail one by one before a correction is given up for this run: it is not they that are broken."""


class HasMill(Protocol):
    """A queue that belongs to a mill."""

    mill: MillPort


class RequeueCorrection:
    """Puts the rows of findings back into their queue."""

    def __init__(
        self, queue: QueueSpec[Any], *, stage: str | None = None, key: Callable[[Finding], Any] | None = None
    ) -> None:
        self.queue = queue
        self._stage = stage
        self._key = key or (lambda finding: finding.key)

    async def __call__(self, findings: Sequence[Finding], tx: AsyncConnection) -> Iterable[Finding]:
        by_key = {self._parts(finding): finding for finding in findings}
        owner: HasMill = self.queue  # type: ignore[assignment]
        sql = owner.mill.store.sql(self.queue)
        ready = await tx.run_sync(lambda c: change.requeue_within(c, sql, list(by_key), self._stage))
        return [finding for key, finding in by_key.items() if key in ready]

    async def after(self, store: Store) -> None:
        """The rows can be seen now: tell workers that sleep."""
        await change.tell(store, self.queue)

    def _parts(self, finding: Finding) -> tuple[Any, ...]:
        key = self._key(finding)
        return key if isinstance(key, tuple) else (key,)


def requeue(
    queue: QueueSpec[Any], *, stage: str | None = None, key: Callable[[Finding], Any] | None = None
) -> RequeueCorrection:  # fmt: skip
    """A correction: the row of each finding is ready again, attempts at zero, as after `rowmill requeue`. `key` answers
    the queue's key for a finding; it is the finding's own otherwise. A row that is running, or that is not there, stays
    due."""
    return RequeueCorrection(queue, stage=stage, key=key)


class Corrector:
    """Calls the corrections of a run. One that fails on a page is tried on each finding of it, so that a bad one does
    not keep the others from being mended, run after run."""

    def __init__(self, corrections: Corrections, events: Events, name: str) -> None:
        self._corrections = corrections
        self._events = events
        self._name = name
        self._failures: dict[str, int] = {}

    def of(self, kind: str) -> Correction | None:
        """None: findings of this kind are only reported."""
        if self._corrections is None or isinstance(self._corrections, Mapping):
            return (self._corrections or {}).get(kind)
        return self._corrections

    async def correct(self, findings: Sequence[Finding], tx: AsyncConnection) -> tuple[list[Finding], int]:
        """Correct findings of one kind; answers those that were, and how many failed."""
        kind = findings[0].kind
        if self._failures.get(kind, 0) >= PATIENCE:
            return [], len(findings)
        try:
            return await self._call(findings, tx), 0
        except Exception as error:
            self._failed(kind, error, tx)
        if len(findings) == 1:
            return [], 1
        done: list[Finding] = []
        for finding in findings:
            if self._failures[kind] >= PATIENCE:
                break
            try:
                done += await self._call([finding], tx)
                self._failures[kind] = 0
            except Exception as error:
                self._failed(kind, error, tx)
        return done, len(findings) - len(done)

    async def _call(self, findings: Sequence[Finding], tx: AsyncConnection) -> list[Finding]:
        correction = self.of(findings[0].kind)
        assert correction is not None
        async with tx.begin_nested():
            taken = await correction(findings, tx)
        return list(findings) if taken is None else list(taken)

    def _failed(self, kind: str, error: Exception, tx: AsyncConnection) -> None:
        """A broken connection is not the fault of a finding."""
        if tx.invalidated or (isinstance(error, DBAPIError) and error.connection_invalidated):
            raise error
        self._failures[kind] = self._failures.get(kind, 0) + 1
        self._events.uncorrected(self._name, kind, code_of(error))

    async def after(self, kinds: Iterable[str], store: Store) -> None:
        for kind in kinds:
            after = getattr(self.of(kind), "after", None)
            if after is not None:
                await after(store)
