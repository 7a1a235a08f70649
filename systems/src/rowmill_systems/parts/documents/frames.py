"""What goes through the pipes of a reading process: a piece of JSON, and bytes beside it. Each says how long it is."""

import asyncio
import json
import struct
from typing import Any, BinaryIO, NamedTuple

LENGTHS = struct.Struct(">QQ")


class Frame(NamedTuple):
    said: dict[str, Any]
    blob: bytes = b""


def pack(frame: Frame) -> list[bytes]:
    """In pieces, so that a large file is not copied to stand behind its head."""
    said = json.dumps(frame.said, separators=(",", ":")).encode()
    return [LENGTHS.pack(len(said), len(frame.blob)) + said, frame.blob]


def send(stream: BinaryIO, frame: Frame) -> None:
    for piece in pack(frame):
        stream.write(piece)
    stream.flush()


def receive(stream: BinaryIO) -> Frame | None:
    """None at the end."""
    head = stream.read(LENGTHS.size)
    if len(head) < LENGTHS.size:
        return None
    said, blob = LENGTHS.unpack(head)
    return Frame(json.loads(stream.read(said)), stream.read(blob))


async def receive_async(stream: asyncio.StreamReader, *, most: int) -> Frame:
    """IncompleteReadError at the end; ValueError for what can't be a frame, or is longer than `most`: the other side
    has read a file of a stranger, and may not be itself any more."""
    said, blob = LENGTHS.unpack(await stream.readexactly(LENGTHS.size))
    if said + blob > most:
        raise ValueError("a frame that is too long")
    found = json.loads(await stream.readexactly(said))
    if not isinstance(found, dict):
        raise ValueError("a frame that says nothing")
    return Frame(found, await stream.readexactly(blob))
