"""Bodies are unpacked in pieces of limited size."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Callable
from functools import cache

import brotli
import httpcore2
import pytest

from rowmill_systems.parts.fetching.fetcher import read_body
from rowmill_systems.parts.fetching.unpacking import MOST_MEMBERS, PIECE, BadEncoding, UnknownEncoding, Unpacking

TEXT = b"".join(b"line %d of a text\n" % number for number in range(50_000))


def raw_deflate(data: bytes) -> bytes:
    pack = zlib.compressobj(6, zlib.DEFLATED, -15)
    return pack.compress(data) + pack.flush()


def unpacked(encoding: str, data: bytes, step: int) -> bytes:
    unpacking = Unpacking(encoding)
    pieces = [piece for at in range(0, len(data), step) for piece in unpacking.feed(data[at : at + step])]
    unpacking.finish()
    assert max(map(len, pieces), default=0) <= max(PIECE, step)
    return b"".join(pieces)


PACKED: dict[str, Callable[[], bytes]] = {
    "gzip": lambda: gzip.compress(TEXT),
    "x-gzip": lambda: gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:]) + b"\0\0",
    "deflate": lambda: zlib.compress(TEXT),
    "Deflate": lambda: raw_deflate(TEXT),
    "br": lambda: brotli.compress(TEXT),
    "identity, gzip": lambda: gzip.compress(TEXT),
    "identity": lambda: TEXT,
    "": lambda: TEXT,
}


@cache
def packed(encoding: str) -> bytes:
    """Brotli takes a second: only the process that runs these tests does it."""
    return PACKED[encoding]()


@pytest.mark.parametrize("step", [7, 1000, 1_000_000])
@pytest.mark.parametrize("encoding", PACKED)
def test_what_was_packed_comes_out(encoding: str, step: int) -> None:
    assert unpacked(encoding, packed(encoding), step) == TEXT


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
def test_a_bomb_comes_out_in_small_pieces(encoding: str) -> None:
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress}[encoding]
    bomb = pack(bytes(20_000_000))
    first = next(Unpacking(encoding).feed(bomb))

    assert 0 < len(first) <= 2 * PIECE  # brotli ends a block that it has begun


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
def test_a_body_without_its_end_is_refused(encoding: str) -> None:
    with pytest.raises(BadEncoding):
        unpacked(encoding, packed(encoding)[:-20], 1000)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
def test_a_body_that_is_not_packed_is_refused(encoding: str) -> None:
    with pytest.raises(BadEncoding):
        unpacked(encoding, b"<rss>plain</rss>" * 100, 1000)


@pytest.mark.parametrize("encoding", ["zstd", "compress", "gzip, gzip", "deflate, gzip", "br, gzip, identity"])
def test_other_encodings_are_unknown(encoding: str) -> None:
    with pytest.raises(UnknownEncoding):
        Unpacking(encoding)


def test_members_without_content_are_not_unpacked_without_end() -> None:
    with pytest.raises(BadEncoding):
        unpacked("gzip", gzip.compress(b"") * (MOST_MEMBERS + 1), 1_000_000)
    assert unpacked("gzip", gzip.compress(b"a") * MOST_MEMBERS, 1_000_000) == b"a" * MOST_MEMBERS


async def test_bytes_that_unpack_to_nothing_leave_the_loop_its_turns() -> None:
    """A response whose bytes are all there at once: nothing else waits in between."""
    turns = 0

    async def body() -> AsyncIterator[bytes]:
        yield gzip.compress(b"all")
        for _ in range(100):
            yield bytes(1000)

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    read = await read_body(httpcore2.Response(200, content=body()), "gzip", 1_000_000)
    other.cancel()

    assert read == b"all"
    assert turns >= 100
