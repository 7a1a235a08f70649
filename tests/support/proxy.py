"""A TCP proxy for PostgreSQL that fails like networks do. It identifies connections by `application_name`, and requests
that execute a statement by their first byte."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from sqlalchemy import make_url

READY = b"Z\x00\x00\x00\x05"
"""The end of each reply of the server: ready for the next query."""


class Way(StrEnum):
    REQUESTS = "requests"
    ANSWERS = "answers"


@dataclass(eq=False)
class Wire:
    """One connection through the proxy."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    name: str = ""
    statements: dict[bytes, bytes] = field(default_factory=dict)
    """Text of each prepared statement by name."""
    swallowing: bool = False


@dataclass(eq=False)
class Proxy:
    host: str
    port: int
    wires: set[Wire] = field(default_factory=set)
    made: list[str] = field(default_factory=list)
    """Names of all connections so far."""
    answers: int = 0
    cut_every: int | None = None
    """Number of replies after which every connection is cut."""
    executed: list[tuple[str, str]] = field(default_factory=list)
    """Executed statements: name of the connection, and text."""
    lost: list[str] = field(default_factory=list)
    """Names of connections that were cut after their request was executed."""
    silent: set[str] = field(default_factory=set)
    """Names of connections whose replies are dropped: each is half-open."""
    muted: set[Way] = field(default_factory=set)
    """Directions in which nothing gets through on any connection, though all stay open."""
    swallowed: int = 0
    """Number of dropped packets."""
    delay: float = 0.0
    """Delay in seconds."""
    rate: float | None = None
    """Bytes per second in each direction of a connection."""
    delayed: int = 0
    """Number of delayed packets."""
    _flowing: asyncio.Event = field(default_factory=asyncio.Event)
    _lose: set[tuple[str, bytes]] = field(default_factory=set)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    def cut(self) -> None:
        """Cut every connection, like a firewall that restarts."""
        for wire in list(self.wires):
            for writer in (wire.client, wire.server):
                writer.transport.abort()

    def stall(self) -> None:
        """Drop everything in both directions, and keep the connections: they are half-open."""
        self._flowing.clear()

    def flow(self) -> None:
        """End `stall`. Connections that missed something are cut."""
        self.cut()
        self._flowing.set()

    def lose_answer(self, name: str, text: bytes) -> None:
        """Let the next statement with this text on this connection through, wait until it is executed, and cut the
        connection instead of replying."""
        self._lose.add((name, text))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._flowing.wait()
            back, forth = await asyncio.open_connection(self.host, self.port)
            wire = Wire(writer, forth)
            self.wires.add(wire)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pump(reader, forth, Way.REQUESTS, lambda data: self._asked(wire, data)))
                    group.create_task(self._pump(back, writer, Way.ANSWERS, lambda data: self._answered(wire, data)))
            finally:
                self.wires.discard(wire)
                forth.transport.abort()
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass  # one side has gone, or the test is over
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way, look: Callable[[bytes], bool]
    ) -> None:
        while data := await reader.read(65536):
            await self._flowing.wait()
            if self.delay or self.rate:
                self.delayed += 1
                await asyncio.sleep(self.delay + (len(data) / self.rate if self.rate else 0.0))
            if way in self.muted:
                self.swallowed += 1
            elif look(data):
                writer.write(data)
                await writer.drain()
        raise ConnectionError

    def _asked(self, wire: Wire, data: bytes) -> bool:
        if not wire.name and b"application_name\x00" in data:
            wire.name = data.split(b"application_name\x00", 1)[1].split(b"\x00", 1)[0].decode()
            self.made.append(wire.name)
        for kind, body in messages(data) if wire.name else ():
            if kind == b"P":
                name, text, *_ = body.split(b"\x00")
                wire.statements[name] = text
            elif kind == b"Q":
                self.executed.append((wire.name, body.rstrip(b"\x00").decode()))
            elif kind == b"B":
                _portal, name, *_ = body.split(b"\x00")
                self.executed.append((wire.name, wire.statements.get(name, b"").decode()))
                for lost in [one for one in self._lose if one[0] == wire.name]:
                    if lost[1] in wire.statements.get(name, b""):
                        self._lose.discard(lost)
                        wire.swallowing = True
        return True

    def _answered(self, wire: Wire, data: bytes) -> bool:
        if wire.name in self.silent:
            return False
        self.answers += data.count(READY)
        if self.cut_every is not None and self.answers >= self.cut_every:
            self.answers = 0
            self.cut()
        if not wire.swallowing:
            return True
        if READY in data:
            self.lost.append(wire.name)
            raise ConnectionError
        return False


def messages(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the messages of a request: a letter and a body each. Stops at anything else."""
    place = 0
    while place + 5 <= len(data) and data[place : place + 1].isalpha():
        length = int.from_bytes(data[place + 1 : place + 5])
        yield data[place : place + 1], data[place + 5 : place + 1 + length]
        place += 1 + length


@asynccontextmanager
async def proxy_to(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    """Start a proxy for the server of this URL. Return it with the URL through it."""
    parsed = make_url(url)
    proxy = Proxy(parsed.host or "127.0.0.1", parsed.port or 5432)
    proxy._flowing.set()
    server = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield proxy, parsed.set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
    finally:
        server.close()
        for task in list(proxy._tasks):
            task.cancel()
        await asyncio.gather(*proxy._tasks, return_exceptions=True)
