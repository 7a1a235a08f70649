"""A claimed row, and the token that fences it."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from rowmill.model.outcome import Outcome
from rowmill.model.queue import Queue
from rowmill.model.words import Step

R = TypeVar("R")

CLAIM_BITS = 36
MAX_CLAIM = (1 << CLAIM_BITS) - 1
NO_TOKEN = 0
"""For statements of a claim that take nothing. Workers are counted from 1, so it is nobody's."""


def token(worker: int, claim: int) -> int:
    """A lease token, of which no other claim has one: the worker's number above, its own below. Fits a bigint."""
    if not 0 < worker < 1 << (63 - CLAIM_BITS):
        raise ValueError(f"worker number {worker} is out of range")
    if not 0 <= claim <= MAX_CLAIM:
        raise ValueError(f"claim number {claim} is out of range")
    return worker << CLAIM_BITS | claim


def first_claim() -> int:
    """Where a worker begins to count its claims: anywhere, so that no token is made twice even if a database that was
    set back gives a worker's number to another."""
    return secrets.randbelow(MAX_CLAIM // 2)


class Tokens:
    """For one claim. Each of its statements has a token of its own: a process may be frozen between two of them for so
    long that what the first one took was rescued, and the next one may take that again."""

    def __init__(self, worker: int, numbers: Iterator[int]) -> None:
        self._worker, self._numbers = worker, numbers
        self.given: list[int] = []

    def fresh(self) -> int:
        self.given.append(token(self._worker, next(self._numbers)))
        return self.given[-1]


def worker_of(lease_token: int) -> int:
    """The number of the worker that made this claim."""
    return lease_token >> CLAIM_BITS


class SettlingBlock(AbstractAsyncContextManager[AsyncSession], AbstractContextManager[Session], Protocol):
    """A transaction of the user's that ends with the fenced completion of the row."""


class Desk(Protocol):
    """Where a lease turns to for its transaction and for columns that were left out: the worker that holds it."""

    def settling(self, lease: "Lease[Any]", outcome: Outcome | None) -> SettlingBlock: ...

    async def fetch(self, lease: "Lease[Any]", column: str) -> Any: ...

    def fetch_sync(self, lease: "Lease[Any]", column: str) -> Any: ...


class Lease(Generic[R]):
    """The right to work on one row until its lease ends. What a handler gets."""

    __slots__ = (
        "_desk",
        "_load",
        "_row",
        "attempt",
        "claimed_at",
        "key",
        "lost",
        "queue",
        "record",
        "retry",
        "settled",
        "step",
        "token",
        "weight",
    )

    def __init__(
        self,
        queue: Queue[R],
        step: Step,
        key: Any,
        token: int,
        attempt: int,
        claimed_at: datetime,
        record: Any,
        load: Callable[[Any], R],
        desk: Desk | None = None,
        weight: int = 0,
    ) -> None:
        self.queue = queue
        self.step = step
        self.key = key
        self.token = token
        self.attempt = attempt
        self.claimed_at = claimed_at
        self.record = record
        self.retry = step.retry
        self.lost = False
        """True once the engine knows that somebody else holds the row: long work may stop early."""
        self.settled = False
        self.weight = weight
        """Bytes that the row takes up in this process, about."""
        self._load = load
        self._row: R | None = None
        self._desk = desk

    @property
    def row(self) -> R:
        """The row as it was claimed: an instance of your ORM class, or a record of your table. A column that was left
        out of the claim raises ColumnNotLoaded until it was fetched."""
        if self._row is None:
            self._row = self._load(self.record)
        return self._row

    @property
    def stage(self) -> str:
        return self.step.name

    @property
    def last_attempt(self) -> bool:
        return self.attempt >= self.retry.attempts

    def settling(self, outcome: Outcome | None = None) -> SettlingBlock:
        """Your own writes and this row's outcome (`Done()` by default) in one fenced transaction.

        `async with` gives an AsyncSession, `with` (in a sync handler) a Session. When the block ends, the
        row is settled and all is committed; if the lease is gone, all is rolled back and LeaseLost raised.
        """
        return self._worker().settling(self, outcome)

    async def fetch(self, column: str) -> Any:
        """Return the value of a column, which is read now if it was left out of the claim; `row` has it from then on.
        Raises LeaseLost if somebody else holds the row by now."""
        return await self._worker().fetch(self, column)

    def fetch_sync(self, column: str) -> Any:
        """`fetch` for a handler that is a plain function, and so runs in a thread."""
        return self._worker().fetch_sync(self, column)

    def _worker(self) -> Desk:
        if self._desk is None:
            raise RuntimeError("this lease does not belong to a running worker")
        return self._desk

    def attach(self, desk: Desk) -> None:
        self._desk = desk

    def __repr__(self) -> str:
        return f"<Lease {self.queue.name} {self.queue.key_text(self.key)} attempt {self.attempt}>"
