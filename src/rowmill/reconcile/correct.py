"""Corrections: what is done about findings, in the transaction that records it."""

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
"""Called with findings of one kind and a transaction. Returns the findings that it corrected; None: all of them."""
Corrections = Correction | Mapping[str, Correction] | None

MOST_FAILURES = 5
"""Single failures in a row after which a correction is not called again in this run: the correction is broken, not the
findings."""


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
        """Wake sleeping workers after the commit, when the rows are visible."""
        await change.notify_ready(store, self.queue)

    def _parts(self, finding: Finding) -> tuple[Any, ...]:
        key = self._key(finding)
        return key if isinstance(key, tuple) else (key,)


def requeue(
    queue: QueueSpec[Any], *, stage: str | None = None, key: Callable[[Finding], Any] | None = None
) -> RequeueCorrection:  # fmt: skip
    """Return a correction that makes the row of each finding ready again with attempts at zero, like `rowmill requeue`.
    `key` returns the queue's key for a finding; by default, the finding's own key. A row that is running or missing
    stays due for correction."""
    return RequeueCorrection(queue, stage=stage, key=key)


class Corrector:
    """Calls the corrections of a run. If one fails on a page, it is called for each finding, so that one bad finding
    does not block the others in every run."""

    def __init__(self, corrections: Corrections, events: Events, name: str) -> None:
        self._corrections = corrections
        self._events = events
        self._name = name
        self._failures: dict[str, int] = {}

    def of(self, kind: str) -> Correction | None:
        """Return the correction of this kind of finding; None if they are only reported."""
        if self._corrections is None or isinstance(self._corrections, Mapping):
            return (self._corrections or {}).get(kind)
        return self._corrections

    async def correct(self, findings: Sequence[Finding], tx: AsyncConnection) -> tuple[list[Finding], int]:
        """Correct findings of one kind. Return the corrected ones, and the number of failures."""
        kind = findings[0].kind
        if self._failures.get(kind, 0) >= MOST_FAILURES:
            return [], len(findings)
        try:
            return await self._call(findings, tx), 0
        except Exception as error:
            self._failed(kind, error, tx)
        if len(findings) == 1:
            return [], 1
        done: list[Finding] = []
        for finding in findings:
            if self._failures[kind] >= MOST_FAILURES:
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
        """Count a failure. A broken connection is no failure of the finding: it is raised."""
        if tx.invalidated or (isinstance(error, DBAPIError) and error.connection_invalidated):
            raise error
        self._failures[kind] = self._failures.get(kind, 0) + 1
        self._events.uncorrected(self._name, kind, code_of(error))

    async def after(self, kinds: Iterable[str], store: Store) -> None:
        for kind in kinds:
            after = getattr(self.of(kind), "after", None)
            if after is not None:
                await after(store)
