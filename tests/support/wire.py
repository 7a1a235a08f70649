"""A TCP proxy that lets so many bytes of requests through, and then cuts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(eq=False)
class Wire:
    """Lets `left` bytes of requests pass; None: all. The next request cuts its connection, and so do all later ones;
    with `heals`, only that one."""

    port: int
    left: int | None = None
    heals: bool = False
    url: str = ""
    cuts: int = 0
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        back, forth = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, forth, counted=True))
                group.create_task(self._pump(back, writer, counted=False))
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass  # one side has gone, or the test is over
        finally:
            forth.transport.abort()
            writer.transport.abort()
            self._tasks.discard(task)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counted: bool) -> None:
        while data := await reader.read(65536):
            if counted and self.left is not None:
                self.left -= len(data)
                if self.left < 0:
                    self.cuts += 1
                    if self.heals:
                        self.left = None
                    break
            writer.write(data)
            await writer.drain()
        raise ConnectionError

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def wire_to(port: int) -> AsyncIterator[Wire]:
    wire = Wire(port)
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield wire
    finally:
        server.close()
        await wire.close()
