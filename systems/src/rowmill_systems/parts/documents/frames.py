"""Frames in the pipes of a reading process: JSON and bytes, each with its length in front."""

import asyncio
import json
import struct
from typing import Any, BinaryIO, NamedTuple

LENGTHS = struct.Struct(">QQ")


class Frame(NamedTuple):
    said: dict[str, Any]
    blob: bytes = b""


def pack(frame: Frame) -> list[bytes]:
    """Return a frame in pieces, so that a large file is not copied."""
    said = json.dumps(frame.said, separators=(",", ":")).encode()
    return [LENGTHS.pack(len(said), len(frame.blob)) + said, frame.blob]


def send(stream: BinaryIO, frame: Frame) -> None:
    for piece in pack(frame):
        stream.write(piece)
    stream.flush()


def receive(stream: BinaryIO) -> Frame | None:
    """Read a frame. Returns None at the end of the pipe."""
    head = stream.read(LENGTHS.size)
    if len(head) < LENGTHS.size:
        return None
    said, blob = LENGTHS.unpack(head)
    return Frame(json.loads(stream.read(said)), stream.read(blob))


async def receive_async(stream: asyncio.StreamReader, *, most: int) -> Frame:
    """Read a frame.

    Raises IncompleteReadError at the end of the pipe, and ValueError for bytes that are no frame or longer than `most`:
    the other process has read a file of a stranger, and may be taken over.
    """
    said, blob = LENGTHS.unpack(await stream.readexactly(LENGTHS.size))
    if said + blob > most:
        raise ValueError("a frame that is too long")
    found = json.loads(await stream.readexactly(said))
    if not isinstance(found, dict):
        raise ValueError("a frame that says nothing")
    return Frame(found, await stream.readexactly(blob))
