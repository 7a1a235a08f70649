"""A pooler that gives out server connections per transaction, as PgBouncer does in transaction mode.

By itself it drops the settings that a client asks for. A `strict` one refuses them, which is what PgBouncer does where
nothing else is configured.
"""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import make_url

SSL, GSS = 80877103, 80877104
TRACKED = (
    "user", "database", "client_encoding", "datestyle", "timezone", "standard_conforming_strings", "application_name",
)  # fmt: skip
"""Settings that PgBouncer tracks for each client."""


class TransactionPooler:
    """A transaction pooler with the needed part of the protocol: trust authentication, no COPY."""

    def __init__(self, url: str, *, strict: bool = False) -> None:
        self._url = make_url(url)
        self._strict = strict
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._opened: list[asyncio.StreamWriter] = []
        self._greeting = b""
        self._clients = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._opened.append(writer)
        try:
            if await self._greet(reader, writer):
                await self._serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Accept a client, unless it asks for unsupported settings."""
        while True:
            length, code = struct.unpack("!ii", await reader.readexactly(8))
            wanted = await reader.readexactly(length - 8)
            if code not in (SSL, GSS):
                break
            writer.write(b"N")
        names = [name.decode() for name in wanted.rstrip(b"\0").split(b"\0")[::2]]
        strange = [name for name in names if name.lower() not in TRACKED]
        if self._strict and strange:
            text = f"SFATAL\0C08P01\0Munsupported startup parameter: {strange[0]}\0\0".encode()
            writer.write(b"E" + struct.pack("!i", len(text) + 4) + text)
            await writer.drain()
            return False
        self._idle.append(await self._take())
        self._clients += 1
        key = struct.pack("!ciii", b"K", 12, 900_000 + self._clients, 1)
        writer.write(struct.pack("!cii", b"R", 8, 0) + self._greeting + key + ready(b"I"))
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link: Link | None = None
        while True:
            kind, body = await message(reader)
            if kind == b"X":
                return
            if link is None or link.over.done():
                link = Link(*await self._take(), writer)
                link.over.add_done_callback(self._give_back)
            link.send(kind, body)

    def _give_back(self, over: "asyncio.Task[tuple[asyncio.StreamReader, asyncio.StreamWriter]]") -> None:
        if not over.cancelled() and over.exception() is None:
            self._idle.append(over.result())

    async def _take(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._idle:
            return self._idle.pop()
        reader, writer = await asyncio.open_connection(self._url.host, self._url.port)
        self._opened.append(writer)
        wanted = {"user": self._url.username or "", "database": self._url.database or ""}
        text = b"".join(name.encode() + b"\0" + value.encode() + b"\0" for name, value in wanted.items()) + b"\0"
        writer.write(struct.pack("!ii", len(text) + 8, 196608) + text)
        greeting = b""
        while True:
            kind, body = await message(reader)
            if kind == b"S":
                greeting += kind + struct.pack("!i", len(body) + 4) + body
            if kind == b"Z":
                break
        self._greeting = greeting
        return reader, writer

    def close(self) -> None:
        for writer in self._opened:
            writer.close()


class Link:
    """A server connection that belongs to a client until its transaction ends."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client: asyncio.StreamWriter
    ) -> None:
        self._reader, self._writer, self._client = reader, writer, client
        self._asked = 0
        self.over = asyncio.create_task(self._answer())

    def send(self, kind: bytes, body: bytes) -> None:
        self._asked += kind in (b"Q", b"S")
        self._writer.write(kind + struct.pack("!i", len(body) + 4) + body)

    async def _answer(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while True:
            kind, body = await message(self._reader)
            self._client.write(kind + struct.pack("!i", len(body) + 4) + body)
            if kind == b"Z":
                self._asked -= 1
                if body == b"I" and not self._asked:
                    return self._reader, self._writer


def ready(status: bytes) -> bytes:
    return struct.pack("!cic", b"Z", 5, status)


async def message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind = await reader.readexactly(1)
    (length,) = struct.unpack("!i", await reader.readexactly(4))
    return kind, await reader.readexactly(length - 4)


@asynccontextmanager
async def pooled(url: str, *, strict: bool = False) -> AsyncIterator[str]:
    """Return the URL of the same database through the pooler."""
    pooler = TransactionPooler(url, strict=strict)
    server = await asyncio.start_server(pooler.handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield make_url(url).set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
    finally:
        server.close()
        pooler.close()
