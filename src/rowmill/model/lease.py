"""A claimed row, and the token that fences it."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from enum import Enum, auto
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from rowmill.model.errors import LeaseLost, TransactionMisused
from rowmill.model.outcome import Answer, Outcome
from rowmill.model.queue import QueueSpec
from rowmill.model.states import Step

if TYPE_CHECKING:  # sessions belong to the ORM, which is loaded by the first settling() block
    from sqlalchemy.ext.asyncio import AsyncSession
    from sqlalchemy.orm import Session

    from rowmill.model.transaction import AsyncBatchTransaction, BatchTransaction

R = TypeVar("R")

CLAIM_BITS = 36
MAX_CLAIM = (1 << CLAIM_BITS) - 1
NO_TOKEN = 0
"""The token of statements that only look for rows to claim. Workers are numbered from 1, so it is nobody's."""


def token(worker: int, claim: int) -> int:
    """Return a lease token: the worker's number in the upper bits, the claim's number in the lower. Unique to the
    claim, and fits a bigint."""
    if not 0 < worker < 1 << (63 - CLAIM_BITS):
        raise ValueError(f"worker number {worker} is out of range")
    if not 0 <= claim <= MAX_CLAIM:
        raise ValueError(f"claim number {claim} is out of range")
    return worker << CLAIM_BITS | claim


def first_claim() -> int:
    """Return a random number from which a worker counts its claims. If a database is restored from a backup and gives a
    worker's number out again, their tokens still differ."""
    return secrets.randbelow(MAX_CLAIM // 2)


class Tokens:
    """Makes the tokens of one claim, one for each of its statements. A process may be frozen between two statements for
    so long that the rows of the first are rescued, and the second may then take them again."""

    def __init__(self, worker: int, numbers: Iterator[int]) -> None:
        self._worker, self._numbers = worker, numbers
        self.given: list[int] = []

    def fresh(self) -> int:
        self.given.append(token(self._worker, next(self._numbers)))
        return self.given[-1]


def worker_of(lease_token: int) -> int:
    """Return the number of the worker that made this token."""
    return lease_token >> CLAIM_BITS


class SettlingBlock(AbstractAsyncContextManager["AsyncSession"], AbstractContextManager["Session"], Protocol):
    """A transaction of the handler that ends with the fenced completion of its row."""


class BatchBlock(
    AbstractAsyncContextManager["AsyncBatchTransaction"], AbstractContextManager["BatchTransaction"], Protocol
):
    """A transaction of a batch handler that ends with the fenced completion of its rows."""


Outcomes = Outcome | Mapping[Any, Answer | BaseException] | Sequence[Answer | BaseException] | None
"""The outcomes of a batch: one for all rows, a mapping by key (a row without one is done), or a list in the order of
the batch."""


class LeaseHost(Protocol):
    """What a lease asks of the worker that holds it: a transaction, and columns that were left out of the claim."""

    def settling(self, lease: "Lease[Any]", outcome: Outcome | None) -> SettlingBlock: ...

    def settling_batch(self, leases: "Sequence[Lease[Any]]", outcomes: Outcomes) -> BatchBlock: ...

    async def fetch(self, lease: "Lease[Any]", column: str) -> Any: ...

    def fetch_sync(self, lease: "Lease[Any]", column: str) -> Any: ...


class Phase(Enum):
    """Who may decide about a row. Each lease gets one decision: from its `settling()` block, or from a verdict."""

    OPEN = auto()
    IN_BLOCK = auto()
    """A `settling()` block of the handler is open."""
    COMMITTING = auto()
    """The block is settling the row and committing. A verdict has to wait for its end."""
    JUDGED = auto()
    """A verdict was given. A block that ends later writes nothing."""


OPEN, IN_BLOCK, COMMITTING, JUDGED = Phase  # looked up once: every row that is settled asks
DECIDING = Lock()
"""Held while a phase changes: a block may end in a thread just as the worker gives a verdict."""


class Lease(Generic[R]):
    """The right to work on one row until its lease ends. What a handler gets."""

    __slots__ = (
        "_host",
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
        host: LeaseHost | None = None,
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
        """True once the engine knows that somebody else holds the row. Long work may stop early."""
        self.settled = False
        """True once its `settling()` block has committed."""
        self.phase = OPEN
        self.weight = weight
        """The bytes that the row takes up in this process, approximately."""
        self._load = load
        self._row: R | None = None
        self._host = host

    @property
    def row(self) -> R:
        """The row as it was claimed: an instance of your ORM class, or a Record of your table. Reading a column that
        was left out of the claim raises ColumnNotLoaded until it is fetched."""
        if self._row is None:
            self._row = self._load(self.record)
        return self._row

    @property
    def loaded(self) -> bool:
        """Whether `row` was built from the claimed record: it is built at first use."""
        return self._row is not None

    @property
    def stage(self) -> str:
        return self.step.name

    @property
    def last_attempt(self) -> bool:
        """Whether the row is dead if this attempt fails. The row's own limit of attempts counts before the queue's."""
        return self.attempt >= self.retry.attempts

    def settling(self, outcome: Outcome | None = None) -> SettlingBlock:
        """Open a transaction for your own writes that ends with this row's outcome (`Done()` by default), fenced.

        `async with` gives an AsyncSession, `with` (in a sync handler) a Session. When the block ends, the
        row is settled and all is committed; if the lease is gone, all is rolled back and LeaseLost raised.
        """
        return self.host.settling(self, outcome)

    async def fetch(self, column: str) -> Any:
        """Return the value of a column. If it was left out of the claim, read it now and set it on `row`. Raises
        LeaseLost if somebody else holds the row by now."""
        return await self.host.fetch(self, column)

    def fetch_sync(self, column: str) -> Any:
        """`fetch` for a handler that is a plain function and runs in a thread."""
        return self.host.fetch_sync(self, column)

    @property
    def host(self) -> LeaseHost:
        if self._host is None:
            raise RuntimeError("this lease does not belong to a running worker")
        return self._host

    def enter_block(self) -> None:
        """Note that a `settling()` block begins. Raises if the block could not settle the row."""
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
        """Note that the block is about to settle the row. Return False if a verdict was given first."""
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
        """Note that a verdict is given. Return False if the row was settled by its block, or is being settled."""
        with DECIDING:
            if self.settled or self.phase is COMMITTING:
                return False
            self.phase = JUDGED
            return True

    def gone(self) -> LeaseLost:
        """Return the error for a row that is no longer ours to settle."""
        held = "is held by somebody else now" if self.lost else "was given a verdict meanwhile, as after a time-out"
        return LeaseLost(f"{self.name} {held}; nothing was written")

    @property
    def name(self) -> str:
        """The row's name in messages."""
        return f"row {self.queue.key_text(self.key)} of {self.queue.name}"

    def attach(self, host: LeaseHost) -> None:
        self._host = host

    def __repr__(self) -> str:
        return f"<Lease {self.queue.name} {self.queue.key_text(self.key)} attempt {self.attempt}>"


class Batch(list[Lease[R]]):
    """The rows of one call of a batch handler."""

    def settling(self, outcomes: Outcomes = None) -> BatchBlock:
        """Open a transaction for your own writes that ends with the outcomes of all these rows (`Done()` by default),
        fenced.

        `async with` gives an AsyncSession, `with` (in a sync handler) a Session, with two lists besides: `leases`, the
        rows that are still ours, which stay so until the block ends, and `lost`, those that somebody else holds now.
        Write for `tx.leases` alone. LeaseLost is raised if all of them are gone, or if their time was over.

        `outcomes` is read when the block ends: a mapping may be filled inside it.
        """
        return self[0].host.settling_batch(self, outcomes)
