"""Bytes to store, and what a storage makes of them."""

import hashlib
from collections.abc import Sequence

from rowmill_systems.parts.objects import Storage, Stored, key_of

MEBIBYTE = 1024 * 1024
BIG = 9 * MEBIBYTE
"""Goes to S3 in parts, and fills neither a pipe nor a buffer on the way."""
NOWHERE = key_of("acme", "crm", "0" * 64)


def pattern(size: int, seed: int = 0) -> bytes:
    """Bytes that are not all the same, and the same each time."""
    block = b"".join(hashlib.sha256(f"{seed}:{number}".encode()).digest() for number in range(2048))
    return (block * (size // len(block) + 1))[:size]


async def put(storage: Storage, content: bytes, owner: Sequence[object] = ("acme", "crm")) -> Stored:
    async with storage.receive() as incoming:
        for start in range(0, len(content), 64 * 1024):
            await incoming.write(content[start : start + 64 * 1024])
        organization, project = owner
        return await incoming.keep(organization, project)


async def keys_in(storage: Storage) -> list[str]:
    return [key async for key, _ in storage.keys()]  # noqa: SIM118 it is no dict
