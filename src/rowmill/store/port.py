"""What the worker asks of a database. One conformance suite holds both stores to it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from sqlalchemy import Column, Connection, Engine
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.asyncio import AsyncEngine

from rowmill.model.errors import RowmillError
from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease
from rowmill.model.queue import Queue
from rowmill.model.words import Step
from rowmill.store.limiting.asks import Limiter
from rowmill.store.loading import Run
from rowmill.store.terms import Terms
from rowmill.store.weighing import ByteLimit

T = TypeVar("T")
CONNECTIONS = 15
"""For transactions of handlers, at once."""
GONE = object()
"""In place of a value: the row is not under this lease any more."""
Condemned = Callable[[str, str, str, int, str], None]
"""Called with the queue, the stage, the key, the attempt and the code."""

Heard = Callable[[str, str, str, str], None]
"""Called with the queue, the stage, the key and the reason."""


class Disconnected(RowmillError):
    """The connection broke under a statement. Whether it was carried out is not known."""


@dataclass(slots=True)
class Settled:
    """What became of the verdicts of one settle."""

    kept: int = 0
    lost: list[Verdict] = field(default_factory=list)
    """Their lease was gone: nothing was written."""
    refused: list[tuple[Verdict, str]] = field(default_factory=list)
    """The database does not take their values; with its reason. Nothing was written."""


class Store(Protocol):
    """A database as the worker sees it."""

    worker: int
    """This process's number in the fleet, once registered."""
    may_create: bool
    """May a database that is only a file be made if it is not there? Who only looks leaves nothing behind."""
    engine: AsyncEngine
    dialect: Dialect
    on_condemned: Condemned
    """Hears of rows that a claim had to bury, because the driver can't read them."""
    on_refused: Heard
    """Hears of rows that claims step over, because the table does not let them be claimed."""

    @property
    def limiter(self) -> Limiter:
        """Where limits are asked for room."""

    @property
    def sync_engine(self) -> Engine:
        """For sync handlers, which get a Session of their own."""

    async def open(self) -> None:
        """Connect. Raises DatabaseUnreachable with what to look at."""

    async def close(self) -> None:
        """Let go of every connection. Twice is fine."""

    async def claim(
        self, queue: Queue[Any], step: Step, limit: int, within: ByteLimit | None = None
    ) -> list[Lease[Any]]:
        """Take up to `limit` rows, in the queue's order, under a lease of their own; and no more than are `within` a
        number of bytes, as far as these can be told before the rows are read."""

    async def value(self, lease: Lease[Any], column: "Column[Any]") -> Any:
        """Read a column of a row, as the driver gives it; GONE if the lease no longer holds."""

    def look_from_the_start(self, queue: Queue[Any]) -> None:
        """The next claims of this queue pass over nothing, whatever that costs."""

    def forget(self, queue: Queue[Any]) -> None:
        """Drop what is remembered of this queue's rows: the next claim looks at everything, refused rows too."""

    async def settle(self, verdicts: Sequence[Verdict]) -> Settled:
        """Write outcomes, each only where its lease still holds. Survives a lost connection: it is carried out once."""

    async def renew(self, leases: Sequence[Lease[Any]]) -> list[Lease[Any]]:
        """Push the end of these leases on; answers those that are lost."""

    async def crashed(self, queue: Queue[Any], leases: Sequence[Lease[Any]]) -> set[Any]:
        """The keys among these whose earlier attempt in this stage ended with the death of its worker."""

    async def load(self, queue: Queue[Any], runs: Sequence[Run]) -> None:
        """Insert records as fast as this database can, in one transaction."""

    async def wait(self, queues: Sequence[Queue[Any]], seconds: float, who: object = None) -> None:
        """Sleep until there may be new rows, `seconds` at the most. `who` tells sleepers apart: each is called."""

    async def busy(self, queues: Sequence[Queue[Any]]) -> None:
        """These queues keep us busy: nobody needs to wake us for them."""

    async def rouse(self, queues: Sequence[Queue[Any]]) -> None:
        """Tell sleeping workers that these queues have rows."""

    async def run(self, work: Callable[[Connection], T], *, write: bool = True, whole: bool = True) -> T:
        """Run a function on a connection in a transaction of its own. If it need not be `whole`, each statement is
        committed as it ends, where the database can do that: a process that is frozen in between holds no lock."""

    def turn(self) -> AbstractAsyncContextManager[None]:
        """To be held during a transaction of the user's that writes, where only one may write at a time."""

    def settle_within(self, connection: Connection, verdict: Verdict) -> Settled:
        """Write one verdict inside a transaction of the user's."""

    def translate(self, schema: str | None) -> None:
        """A table of this schema is used: where there are no schemas, it goes by its bare name."""

    def terms(self, queue: Queue[Any]) -> Terms:
        """The queue in this database's words."""
