"""Wake-up on PostgreSQL: a NOTIFY is a hint, sent only while a worker sleeps; polling goes on underneath.

A worker that sleeps on a table holds an advisory lock, shared, on a connection that listens. The trigger on
the table sends a NOTIFY only where it can't take that lock for itself, so a busy fleet costs a producer
nothing. The lock goes with the connection: nothing to clean up after a crash.
"""

import asyncio
import contextlib
import zlib
from collections import Counter
from collections.abc import Coroutine, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Table

from rowmill.store.own import SCHEMA
from rowmill.store.port import Disconnected

if TYPE_CHECKING:
    from rowmill.store.postgres.connection import ConnectionPool, DedicatedConnection

T = TypeVar("T")
CHANNEL = "rowmill"
WAKE_LOCK = 0x726F776D
"""First half of the advisory lock that a sleeping worker holds ("rowm")."""
CHECK_SECONDS = 5.0
"""How often a connection that looks alive is tested."""
AWAKE_SECONDS = 1.0
"""How long a busy worker waits to release its lock."""


WAKE_FUNCTION = f"""
CREATE OR REPLACE FUNCTION {SCHEMA}.wake() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- A sleeping worker holds this lock shared. If we get it, nobody sleeps, and nobody needs a NOTIFY,
  -- which would make commits wait for each other. In one expression: a PERFORM would cost as much again.
  IF NOT (pg_try_advisory_lock({WAKE_LOCK}, TG_ARGV[0]::int) AND pg_advisory_unlock({WAKE_LOCK}, TG_ARGV[0]::int)) THEN
    PERFORM pg_notify('{CHANNEL}', TG_ARGV[0]);
  END IF;
  RETURN NULL;
END $$
"""


def wake_number(table: Table) -> int:
    """Return the number under which workers wait for rows of a table: the second half of the advisory lock, and the
    payload of the NOTIFY."""
    return zlib.crc32(f"{table.schema or 'public'}.{table.name}".encode()) & 0x7FFFFFFF


def wake_trigger(table: Table, name: str) -> list[str]:
    """Return the statements that make every INSERT wake a sleeping worker. PostgreSQL only."""
    return [
        f"DROP TRIGGER IF EXISTS rowmill_wake ON {name}",
        f"CREATE TRIGGER rowmill_wake AFTER INSERT ON {name} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {SCHEMA}.wake('{wake_number(table)}')",
    ]


class ListenState(Enum):
    """How a worker can be woken while it sleeps."""

    LISTENING = auto()
    """Producers notify us."""
    JUST_STARTED = auto()
    """Producers notify us from now on. Nobody did for rows that came a moment ago."""
    DISCONNECTED = auto()
    """There is no connection on which producers could notify us."""
    TIMED_OUT = auto()
    """The connection did not answer, and the time to sleep is over."""


class Listener:
    """Listens for notifications while workers of this process sleep."""

    def __init__(self, connection: "DedicatedConnection") -> None:
        self._connection = connection
        self._woken: dict[int, asyncio.Event] = {}
        self._listening: Any = None
        self._asleep: set[int] = set()
        self._sleepers: Counter[int] = Counter()
        self._checked = 0.0
        self._lock = asyncio.Lock()
        self._asking: set[asyncio.Task[Any]] = set()

    async def wait(self, tables: Sequence[Table], seconds: float) -> None:
        """Sleep until rows may have come into one of these tables, `seconds` at the most."""
        numbers = [wake_number(table) for table in tables]
        self._sleepers.update(numbers)
        try:
            match await self._ask(self._take_locks(numbers), seconds) or ListenState.TIMED_OUT:
                case ListenState.LISTENING:
                    await self._sleep(numbers, seconds)
                case ListenState.DISCONNECTED:
                    await asyncio.sleep(seconds)
                case ListenState.JUST_STARTED | ListenState.TIMED_OUT:
                    pass
        finally:
            self._sleepers.subtract(numbers)

    async def _ask(self, question: Coroutine[Any, Any, T], seconds: float) -> T | None:
        """Run a statement and return its result; None if it takes too long. On a half-open connection it may take a
        minute, and polling must go on. The statement is left running: to cancel it, whenever a sleeper is woken from
        within the process, would drop the connection again and again."""
        task = asyncio.ensure_future(question)
        self._asking.add(task)
        task.add_done_callback(self._asked)
        done, _ = await asyncio.wait({task}, timeout=seconds)
        return task.result() if done else None

    def _asked(self, task: "asyncio.Task[Any]") -> None:
        self._asking.discard(task)
        if not task.cancelled():
            task.exception()

    async def _take_locks(self, numbers: Sequence[int]) -> ListenState:
        try:
            async with self._lock:
                await self._listen()
                missing = [number for number in numbers if number not in self._asleep]
                for number in missing:
                    await self._connection.fetch("SELECT pg_advisory_lock_shared($1, $2)", WAKE_LOCK, number)
                    self._asleep.add(number)
                return ListenState.JUST_STARTED if missing else ListenState.LISTENING
        except Disconnected:
            return ListenState.DISCONNECTED

    async def _sleep(self, numbers: Sequence[int], seconds: float) -> None:
        events = [self._woken.setdefault(number, asyncio.Event()) for number in numbers]
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        for event in events:
            event.clear()

    async def awake(self, tables: Sequence[Table]) -> None:
        """Note that these tables keep us busy: producers need not notify, unless another worker of ours sleeps on the
        same table."""
        numbers = self._asleep.intersection(map(wake_number, tables))
        if numbers and not self._lock.locked():
            await self._ask(self._give_locks_up(numbers), AWAKE_SECONDS)

    async def _give_locks_up(self, numbers: set[int]) -> None:
        async with self._lock:
            for number in numbers & self._asleep:
                if self._sleepers[number]:
                    continue
                self._asleep.discard(number)
                with contextlib.suppress(Disconnected):  # the lock went with the connection
                    await self._connection.fetch("SELECT pg_advisory_unlock_shared($1, $2)", WAKE_LOCK, number)

    async def _listen(self) -> None:
        """LISTEN on a live connection. One that looks alive is tested now and then: it may be half-open."""
        now = asyncio.get_running_loop().time()
        connection = await self._connection.connect()
        if connection is not self._listening:
            self._asleep.clear()
            await self._connection.fetch(f"LISTEN {CHANNEL}")
            await connection.add_listener(CHANNEL, self._notified)
            self._listening = connection
        elif now - self._checked > CHECK_SECONDS:
            await self._connection.fetch("SELECT 1")
        else:
            return
        self._checked = now

    def _notified(self, _connection: Any, _pid: int, _channel: str, payload: Any) -> None:
        if str(payload).isdigit():
            self._woken.setdefault(int(payload), asyncio.Event()).set()

    async def close(self) -> None:
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        await self._connection.close()

    async def notify_workers(self, pool: "ConnectionPool", tables: Sequence[Table]) -> None:
        """Wake the workers that sleep on these tables, in this process and others."""
        for table in tables:
            number = wake_number(table)
            self._woken.setdefault(number, asyncio.Event()).set()
            await pool.fetch("SELECT pg_notify($1, $2)", CHANNEL, str(number))
