"""A claimed row, and the token that fences it."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from enum import Enum, auto
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from rowmill.model.errors import LeaseLost, TransactionMisused
from rowmill.model.outcome import Answer, Outcome
from rowmill.model.queue import QueueSpec
from rowmill.model.states import Step
from rowmill.model.transaction import AsyncBatchTransaction, BatchTransaction

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


class BatchBlock(
    AbstractAsyncContextManager[AsyncBatchTransaction], AbstractContextManager[BatchTransaction], Protocol
):
    """The same for the rows of a batch."""


Outcomes = Outcome | Mapping[Any, Answer | BaseException] | Sequence[Answer | BaseException] | None
"""For the rows of a batch: one outcome for all, answers by key (a row without one is done), or answers in the order of
the batch."""


class LeaseHost(Protocol):
    """Where a lease turns to for its transaction and for columns that were left out: the worker that holds it."""

    def settling(self, lease: "Lease[Any]", outcome: Outcome | None) -> SettlingBlock: ...

    def settling_batch(self, leases: "Sequence[Lease[Any]]", outcomes: Outcomes) -> BatchBlock: ...

    async def fetch(self, lease: "Lease[Any]", column: str) -> Any: ...

    def fetch_sync(self, lease: "Lease[Any]", column: str) -> Any: ...


class Phase(Enum):
    """Who may decide about a row. One decision is made per lease: by its `settling()` block, or by a verdict."""

    OPEN = auto()
    IN_BLOCK = auto()
    """A `settling()` block of the handler is open."""
    COMMITTING = auto()
    """The block settles the row and commits just now. A verdict has to wait for its end."""
    JUDGED = auto()
    """A verdict was given: a block that ends later writes nothing."""


OPEN, IN_BLOCK, COMMITTING, JUDGED = Phase  # looked up once: every row that is settled asks
DECIDING = Lock()
"""Held while a phase changes: a block may end in a thread just as the worker gives a verdict."""


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
        "phase",
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
        queue: QueueSpec[R],
        step: Step,
        key: Any,
        token: int,
        attempt: int,
        claimed_at: datetime,
        record: Any,
        load: Callable[[Any], R],
        desk: LeaseHost | None = None,
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
        """True once its `settling()` block has committed."""
        self.phase = OPEN
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
    def loaded(self) -> bool:
        """Has anybody looked at `row`?"""
        return self._row is not None

    @property
    def stage(self) -> str:
        return self.step.name

    @property
    def last_attempt(self) -> bool:
        """Is the row dead if this attempt fails? By the row's own limit, where it has one, or else by the queue's."""
        return self.attempt >= self.retry.attempts

    def settling(self, outcome: Outcome | None = None) -> SettlingBlock:
        """Your own writes and this row's outcome (`Done()` by default) in one fenced transaction.

        `async with` gives an AsyncSession, `with` (in a sync handler) a Session. When the block ends, the
        row is settled and all is committed; if the lease is gone, all is rolled back and LeaseLost raised.
        """
        return self.desk.settling(self, outcome)

    async def fetch(self, column: str) -> Any:
        """Return the value of a column, which is read now if it was left out of the claim; `row` has it from then on.
        Raises LeaseLost if somebody else holds the row by now."""
        return await self.desk.fetch(self, column)

    def fetch_sync(self, column: str) -> Any:
        """`fetch` for a handler that is a plain function, and so runs in a thread."""
        return self.desk.fetch_sync(self, column)

    @property
    def desk(self) -> LeaseHost:
        if self._desk is None:
            raise RuntimeError("this lease does not belong to a running worker")
        return self._desk

    def enter_block(self) -> None:
        """A `settling()` block begins. Raises if it could only fail."""
        with DECIDING:
            if self.settled:
                raise TransactionMisused(
                    f"{self.name} was settled by an earlier settling() block of this handler. "
                    "Put all that belongs to the row into one block"
                )
            if self.phase in (IN_BLOCK, COMMITTING):
                raise TransactionMisused(
                    f"a settling() block of {self.name} is open already. Use its transaction; "
                    "for a part that may fail by itself: tx.begin_nested()"
                )
            if self.lost or self.phase is JUDGED:
                raise self.gone()
            self.phase = IN_BLOCK

    def begin_commit(self) -> bool:
        """The block is about to settle the row; False: a verdict was given first, so it may not."""
        with DECIDING:
            if self.lost or self.phase is not IN_BLOCK:
                return False
            self.phase = COMMITTING
            return True

    def leave_block(self, *, settled: bool) -> None:
        with DECIDING:
            if settled:
                self.settled = True
            if self.phase is not JUDGED:
                self.phase = JUDGED if settled else OPEN

    def take_verdict(self) -> bool:
        """A verdict is about to be given; False: the row was settled by its block, or is just now."""
        with DECIDING:
            if self.settled or self.phase is COMMITTING:
                return False
            self.phase = JUDGED
            return True

    def gone(self) -> LeaseLost:
        """What is raised where the row is not ours to settle any more."""
        held = "is held by somebody else now" if self.lost else "was given a verdict meanwhile, as after a time-out"
        return LeaseLost(f"{self.name} {held}; nothing was written")

    @property
    def name(self) -> str:
        """The row in messages."""
        return f"row {self.queue.key_text(self.key)} of {self.queue.name}"

    def attach(self, desk: LeaseHost) -> None:
        self._desk = desk

    def __repr__(self) -> str:
        return f"<Lease {self.queue.name} {self.queue.key_text(self.key)} attempt {self.attempt}>"


class Batch(list[Lease[R]]):
    """The rows of one call of a batch handler."""

    def settling(self, outcomes: Outcomes = None) -> BatchBlock:
        """Your own writes and the outcomes of all these rows (`Done()` by default) in one fenced transaction.

        `async with` gives an AsyncSession, `with` (in a sync handler) a Session, with two lists besides: `leases`, the
        rows that are still ours, which stay so until the block ends, and `lost`, those that somebody else holds now.
        Write for `tx.leases` alone. LeaseLost is raised if all of them are gone, or if their time was over.

        `outcomes` is read when the block ends: a mapping may be filled inside it.
        """
        return self[0].desk.settling_batch(self, outcomes)
