"""A TCP proxy between a fleet and its server, in a thread of its own, that breaks in the ways that networks do."""

import asyncio
import threading
from enum import StrEnum
from types import TracebackType
from typing import Self


class Way(StrEnum):
    REQUESTS = "requests"
    ANSWERS = "answers"


class Wire:
    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        """Where new connections lead."""
        self.port = 0
        self.delay = 0.0
        """Seconds by which everything is late."""
        self.rate: float | None = None
        """Bytes a second of each connection."""
        self.muted: set[Way] = set()
        """The ways on which nothing gets through any more, though the connections stand."""
        self.swallowed = 0
        """Pieces that were lost so."""
        self.delayed = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wire", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._up.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def cut(self) -> int:
        """Cut every connection, as a firewall that restarts; how many there were."""
        cut = threading.Event()
        found = len(self._writers) // 2

        def work() -> None:
            for writer in list(self._writers):
                writer.transport.abort()
            cut.set()

        self._loop.call_soon_threadsafe(work)
        cut.wait()
        return found

    def heal(self) -> None:
        """Everything gets through again. What was lost is lost: connections that missed something are cut."""
        self.delay, self.rate = 0.0, None
        if self.muted:
            self.muted.clear()
            self.cut()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._up.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back, forth = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, forth}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, forth, Way.REQUESTS))
                group.create_task(self._pump(back, writer, Way.ANSWERS))
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass  # one side has gone, or all is over
        finally:
            self._writers -= {writer, forth}
            for each in (writer, forth):
                each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        while data := await reader.read(65536):
            if self.delay or self.rate:
                self.delayed += 1
                await asyncio.sleep(self.delay + (len(data) / self.rate if self.rate else 0.0))
            if way in self.muted:
                self.swallowed += 1
                continue
            writer.write(data)
            await writer.drain()
        raise ConnectionError
