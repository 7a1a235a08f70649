"""Wake-up on SQLite: `PRAGMA data_version` changes when another connection commits to the file."""

import asyncio
import sqlite3

SHORTEST = 0.001
LONGEST = 0.01


class DataVersion:
    """Looks at the version every few milliseconds; the look costs microseconds and takes no lock."""

    def __init__(self, path: str, *, uri: bool = False) -> None:
        self.path = path
        self._uri = uri
        self._connection: sqlite3.Connection | None = None
        self._seen: int | None = None
        self._roused = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Sleep until somebody wrote, `seconds` at the most."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        pause = SHORTEST
        while (left := deadline - loop.time()) > 0:
            if self._changed():
                return
            try:
                async with asyncio.timeout(min(pause, left)):
                    await self._roused.wait()
            except TimeoutError:
                pause = min(pause * 1.2, LONGEST)
            else:
                self._roused.clear()
                return

    def rouse(self) -> None:
        self._roused.set()

    def _changed(self) -> bool:
        if self._connection is None:
            self._connection = sqlite3.connect(self.path, isolation_level=None, uri=self._uri)
        version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        changed = self._seen is not None and version != self._seen
        self._seen = version
        return bool(changed)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
