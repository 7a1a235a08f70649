"""What a worker asks of a database. One conformance suite runs against both stores."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sqlalchemy import Column, Connection, Engine
from sqlalchemy.engine import URL, Dialect

from rowmill.model.dead_rows import DeadRow
from rowmill.model.errors import RowmillError
from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease
from rowmill.model.queue import QueueSpec
from rowmill.model.states import Step
from rowmill.store.bulk_load import Run
from rowmill.store.limits.asks import Limiter
from rowmill.store.queue_sql import QueueSql
from rowmill.store.row_sizes import ByteLimit

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

    from rowmill.store.settle_batch import SettleBatch
    from rowmill.store.transactions import AsyncTransaction, SyncTransaction

T = TypeVar("T")
CONNECTIONS = 15
"""The most transactions of handlers at once."""
GONE = object()
"""Returned instead of a value: the lease does not hold any more."""
OnBuried = Callable[[QueueSpec[Any], Step, DeadRow], None]
"""Called with the queue, the stage and the dead row."""

OnRefused = Callable[[str, str, str, str], None]
"""Called with the queue, the stage, the key and the reason."""


class Disconnected(RowmillError):
    """The connection broke during a statement. Whether it was carried out is not known."""


class LockTimeout(Disconnected):
    """Somebody else has locked a row or the table. Nothing was written; the connection is fine."""


class StatementTimeout(Disconnected):
    """The statement took too long and was cancelled. The database is reachable: a smaller statement may succeed."""

    def __init__(self, reason: str, *, unanswered: bool = False) -> None:
        super().__init__(reason)
        self.unanswered = unanswered
        """Whether we stopped waiting ourselves, so that the server may have carried the statement out."""


class Delay(StrEnum):
    """Why a verdict is not written yet."""

    LOCKED = "locked"
    """Another transaction has the row, or the table, locked."""
    TIMEOUT = "timeout"
    """The statement was cancelled because it took too long."""
    PENDING = "pending"
    """It waits for its statement, or for the answer."""


@dataclass(slots=True)
class Settled:
    """What became of the verdicts of one settle."""

    kept: int = 0
    lost: list[Verdict] = field(default_factory=list)
    """Verdicts whose lease was gone. Nothing was written for them."""
    refused: list[tuple[Verdict, str]] = field(default_factory=list)
    """Verdicts whose values the database refused, each with the reason. Nothing was written for them."""
    delayed: list[tuple[Verdict, Delay]] = field(default_factory=list)
    """Verdicts that can't be written now, though nothing is wrong with them. Try again."""

    def add(self, batch: "SettleBatch", places: Collection[int]) -> None:
        """Add the result of a batch that was carried out, and wrote the verdicts in these places, counted from 1."""
        self.kept += len(places)
        if len(places) < len(batch.verdicts):
            kept = set(places)
            self.lost += [verdict for place, verdict in enumerate(batch.verdicts, start=1) if place not in kept]


@dataclass(slots=True)
class Renewed:
    """What became of the leases of one renewal. Those in neither list were renewed."""

    lost: list[Lease[Any]] = field(default_factory=list)
    """Leases that are gone: somebody else holds the row, or nobody does."""
    delayed: list[Lease[Any]] = field(default_factory=list)
    """Leases whose row or table is locked. They still hold, and end when they did before."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a worker learns from its heartbeat."""

    paused: set[tuple[str, str]]
    """The (queue, stage) pairs that are paused; the stage is empty for a whole queue."""
    leading: bool
    """Whether this worker does the upkeep for the fleet."""


class Store(Protocol):
    """A database as the worker sees it."""

    worker: int
    """The number of this process in the fleet, once it is registered."""
    may_create: bool
    """Whether a database that is a file may be created. A command that only reads leaves nothing behind."""
    dialect: Dialect
    on_buried: OnBuried
    """Called for rows that a claim had to bury: the driver can't read them, or their attempts are used up."""
    on_refused: OnRefused
    """Called for rows that claims step over, because the table does not let them be claimed."""

    @property
    def limiter(self) -> Limiter:
        """Where permits of limits are taken and given back."""

    pooled: URL | None
    """The URL through a pooler that transactions of handlers use, if there is one."""

    @property
    def engine(self) -> "AsyncEngine":
        """The engine for code with an event loop. Its first use loads the ORM."""

    @property
    def handlers_engine(self) -> "AsyncEngine":
        """The engine for the transactions of async handlers. Its first use loads the ORM."""

    @property
    def sync_engine(self) -> Engine:
        """The engine for code without an event loop."""

    async def open(self) -> None:
        """Connect. Raises DatabaseUnreachable, which says what to check."""

    async def check_session(self) -> None:
        """Raise DatabaseUnreachable if a pooler between us and the database drops the settings of our session."""

    async def close(self) -> None:
        """Close every connection. Idempotent."""

    async def claim(
        self, queue: QueueSpec[Any], step: Step, limit: int, within: ByteLimit | None = None
    ) -> list[Lease[Any]]:
        """Claim up to `limit` rows, in the queue's order, each with a lease; and no more than fit `within` a number of
        bytes, as far as the sizes are known before the rows are read. Rows whose attempts are used up are buried
        instead. Claims until it has a row, or finds none that is ready."""

    async def value(self, lease: Lease[Any], column: "Column[Any]") -> Any:
        """Read a column of a row, as the driver gives it; GONE if the lease no longer holds."""

    def drop_watermarks(self, queue: QueueSpec[Any]) -> None:
        """Make the next claims of this queue start from the head of the index, whatever that costs."""

    def forget(self, queue: QueueSpec[Any]) -> None:
        """Drop what is remembered of this queue's rows: the next claim starts from the head of the index, and tries
        refused rows too."""

    async def settle(self, verdicts: Sequence[Verdict], *, skip_locked: bool = False) -> Settled:
        """Write verdicts, each only where its lease still holds. Retries on a lost connection; each batch is carried
        out once.

        Never waits long for a lock: verdicts on rows that somebody else has locked come back as delayed. With
        `skip_locked` it does not wait at all, which costs a little more if nothing is locked.
        """

    async def renew(self, leases: Sequence[Lease[Any]]) -> Renewed:
        """Extend leases, passing over rows that somebody else has locked. Raises StatementTimeout if they are too many
        for one statement."""

    async def crashed(self, queue: QueueSpec[Any], leases: Sequence[Lease[Any]]) -> set[Any]:
        """Return the keys among these whose earlier attempt in this stage ended with the death of its worker."""

    async def load(self, queue: QueueSpec[Any], runs: Sequence[Run]) -> None:
        """Insert records as fast as this database can, in one transaction."""

    async def heartbeat(
        self, worker: int, leadership: str, seconds: float, settle_lag: str | None = None
    ) -> Heartbeat | None:
        """Record a heartbeat and what could not be written (see `model.settle_lag`), and take or keep the leadership of
        this name for `seconds`, if it is free or ours. PostgreSQL does it in one statement, which never waits for a
        lock. Return None if the database does not know this worker."""

    async def wait(self, queues: Sequence[QueueSpec[Any]], seconds: float, who: object = None) -> None:
        """Sleep until there may be new rows, `seconds` at the most. `who` tells the sleepers of a process apart."""

    async def busy(self, queues: Sequence[QueueSpec[Any]]) -> None:
        """Tell producers that workers on these queues need no wake-up: we are busy with them."""

    async def notify_workers(self, queues: Sequence[QueueSpec[Any]]) -> None:
        """Wake workers that sleep on these queues."""

    async def run(self, work: Callable[[Connection], T], *, write: bool = True, whole: bool = True) -> T:
        """Run a function on a connection, in a transaction of its own. With `whole=False`, each statement commits as it
        ends where the database can do that, so that a process that is frozen in between holds no lock."""

    async def begin(self) -> "AsyncTransaction":
        """Begin a transaction of an async handler."""

    def begin_sync(self) -> "SyncTransaction":
        """Begin a transaction of a sync handler, in its thread."""

    def translate(self, schema: str | None) -> None:
        """Note that a table of this schema is used. SQLite has no schemas, and uses bare names."""

    def sql(self, queue: QueueSpec[Any]) -> QueueSql:
        """Return the queue's names, words and times as SQL of this database."""
