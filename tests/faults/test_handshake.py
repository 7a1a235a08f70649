"""A server that goes away while somebody connects to it is away, and no reason to end."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import make_url

from rowmill.store.port import Disconnected
from rowmill.store.postgres.store import PostgresStore

SSL_REQUEST = 80877103


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def fatal(state: bytes) -> bytes:
    return message(b"E", b"SFATAL\0VFATAL\0C" + state + b"\0Mgo away\0\0")


LET_IN = message(b"R", struct.pack("!I", 0))
SETTINGS = message(b"S", b"server_version\x0018.0\0") + message(b"K", struct.pack("!II", 1, 1))
READY = message(b"Z", b"I")


@asynccontextmanager
async def a_server_that_says(words: bytes) -> AsyncIterator[int]:
    """And hangs up. Its port."""

    async def packet(reader: asyncio.StreamReader) -> bytes:
        [size] = struct.unpack("!I", await reader.readexactly(4))
        return await reader.readexactly(size - 4)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if struct.unpack("!I", (await packet(reader))[:4]) == (SSL_REQUEST,):
                writer.write(b"N")
                await packet(reader)
            writer.write(words)
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    "words",
    [
        b"", LET_IN, LET_IN + SETTINGS, LET_IN + SETTINGS + READY,
        fatal(b"57P01"), fatal(b"57P02"), fatal(b"57P03"), fatal(b"53300"), fatal(b"28000"), fatal(b"08006"),
    ],
    ids=[
        "nothing", "let in", "told its settings", "ready",
        "shut down", "crashed", "starting", "full", "no entry", "lost",
    ],
)  # fmt: skip
@pytest.mark.parametrize("whole", [True, False])
async def test_whoever_connects_meanwhile_hears_that_it_is_away(words: bytes, whole: bool) -> None:
    async with a_server_that_says(words) as port:
        store = PostgresStore(make_url(f"postgresql://somebody@127.0.0.1:{port}/work"))
        try:
            with pytest.raises(Disconnected):
                await store.run(lambda connection: connection.exec_driver_sql("SELECT 1"), whole=whole)
        finally:
            await store.close()
