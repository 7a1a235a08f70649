"""Unpack bodies piece by piece, so that a small packed body can't fill the memory."""

import importlib.util
import zlib
from collections.abc import Iterator
from typing import Protocol

PIECE = 256 * 1024
"""Bytes that are unpacked in one step."""
MOST_MEMBERS = 1000
"""Members of one gzip body. Each costs as much as some hundred bytes, also if it is empty."""
GZIP, ZLIB, RAW = 31, 15, -15


class BadEncoding(Exception):
    """The bytes are not packed in this way."""


class UnknownEncoding(Exception):
    """Content-Encoding names a way that we did not ask for."""


class Unpacker(Protocol):
    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what these bytes unpack to, in pieces of limited size."""

    def finish(self) -> None:
        """Raise BadEncoding if the end is missing."""


class ZlibUnpacker:
    """gzip, also of several members, and deflate, with or without the header of zlib."""

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._unpack = zlib.decompressobj(wbits)
        self._begun = False
        self._members = 1

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._unpack.eof:
                if self._wbits != GZIP:
                    return  # what comes after the end is not a part of it
                data = data.lstrip(b"\0")  # some servers pad
                if not data:
                    return
                self._members += 1
                if self._members > MOST_MEMBERS:
                    raise BadEncoding
                self._unpack, self._begun = zlib.decompressobj(self._wbits), False
            try:
                piece = self._unpack.decompress(data, PIECE)
            except zlib.error:
                if self._begun or self._wbits != ZLIB:
                    raise BadEncoding from None
                self._wbits = RAW  # servers disagree on what deflate is
                self._unpack = zlib.decompressobj(RAW)
                continue
            self._begun = True
            data = self._unpack.unused_data if self._unpack.eof else self._unpack.unconsumed_tail
            if piece:
                yield piece
        while not self._unpack.eof and (piece := self._rest()):
            yield piece

    def _rest(self) -> bytes:
        """Return what was unpacked already and did not fit the last piece."""
        try:
            return self._unpack.decompress(b"", PIECE)
        except zlib.error:
            raise BadEncoding from None

    def finish(self) -> None:
        if self._begun and not self._unpack.eof:
            raise BadEncoding


class BrotliUnpacker:
    def __init__(self) -> None:
        import brotli

        self._error: type[Exception] = brotli.error
        self._unpack = brotli.Decompressor()
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._unpack.is_finished():
            return
        self._begun = self._begun or bool(data)
        try:
            piece = self._unpack.process(data, output_buffer_limit=PIECE)
            while piece:
                yield piece
                if self._unpack.is_finished():
                    return
                piece = self._unpack.process(b"", output_buffer_limit=PIECE)
        except self._error:
            raise BadEncoding from None

    def finish(self) -> None:
        if self._begun and not self._unpack.is_finished():
            raise BadEncoding


HAS_BROTLI = importlib.util.find_spec("brotli") is not None
ACCEPTED = "gzip, deflate, br" if HAS_BROTLI else "gzip, deflate"
"""For the header Accept-Encoding."""


def unpacker(name: str) -> Unpacker:
    match name:
        case "gzip" | "x-gzip":
            return ZlibUnpacker(GZIP)
        case "deflate":
            return ZlibUnpacker(ZLIB)
        case "br" if HAS_BROTLI:
            return BrotliUnpacker()
    raise UnknownEncoding


class Unpacking:
    """Unpacks a body by its Content-Encoding, of which there may be one. Raises UnknownEncoding.

    Bodies that are packed twice are refused: a few bytes would unpack to many that unpack to none, which costs time
    and reaches no limit of bytes. No server packs a feed twice.
    """

    def __init__(self, content_encoding: str) -> None:
        names = [name.strip().lower() for name in content_encoding.split(",")]
        names = [name for name in names if name and name != "identity"]
        if len(names) > 1:
            raise UnknownEncoding
        self._unpacker: Unpacker | None = unpacker(names[0]) if names else None

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._unpacker is None:
            yield data
        else:
            yield from self._unpacker.feed(data)

    def finish(self) -> None:
        if self._unpacker is not None:
            self._unpacker.finish()
