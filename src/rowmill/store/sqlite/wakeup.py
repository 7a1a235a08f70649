"""Wake-up on SQLite: `PRAGMA data_version` changes when another connection commits to the file."""

import asyncio
import sqlite3
from weakref import WeakKeyDictionary

SHORTEST = 0.001
LONGEST = 0.01


class DataVersion:
    """Checks the version every few milliseconds, which takes microseconds and no lock."""

    def __init__(self, path: str, *, uri: bool = False) -> None:
        self.path = path
        self._uri = uri
        self._connection: sqlite3.Connection | None = None
        self._seen: int | None = None
        self._changes = 0
        self._heard: WeakKeyDictionary[object, tuple[int, float]] = WeakKeyDictionary()
        """The version that each sleeper has seen."""
        self._roused = asyncio.Event()

    async def wait(self, seconds: float, who: object | None = None) -> None:
        """Sleep until somebody wrote, `seconds` at the most. Each sleeper is woken by every change, also by one just
        before it went to sleep; while changes come one after another, as from a busy worker, only now and then."""
        who = self if who is None else who
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        pause = SHORTEST
        heard, at = self._heard.get(who, (0, float("-inf")))
        while (left := deadline - loop.time()) > 0:
            self._look()
            if heard != self._changes and loop.time() - at >= LONGEST:
                self._heard[who] = (self._changes, loop.time())
                return
            try:
                async with asyncio.timeout(min(pause, left)):
                    await self._roused.wait()
            except TimeoutError:
                pause = min(pause * 1.2, LONGEST)

    def notify_workers(self) -> None:
        self._changes += 1
        self._roused.set()  # all who sleep now wake up, and see that there was a change
        self._roused.clear()

    def _look(self) -> None:
        if self._connection is None:
            self._connection = sqlite3.connect(self.path, isolation_level=None, uri=self._uri)
        version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        if self._seen is not None and version != self._seen:
            self._changes += 1
        self._seen = version

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
