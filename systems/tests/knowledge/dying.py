"""`python -m systems.tests.knowledge.dying POINT [KB]`: a worker, or an upload, that is killed at that point."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any
from uuid import UUID

from rowmill.testing import QUICK
from rowmill_systems.knowledge import uploading
from rowmill_systems.knowledge.events import deleting, deleting_kb, embedding_chunks, processing, reading_chunks
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.settings import KnowledgeSettings
from systems.tests.knowledge.harness import PAPER, HashEmbedder, PlainReaders

POINTS: dict[str, tuple[ModuleType, str]] = {
    "reading": (reading_chunks, "_read"),
    "points put": (embedding_chunks, "_note_progress"),
    "published": (processing, "sweep_points"),
    "points and bytes deleted": (deleting, "archive_document"),
    "collection dropped": (deleting_kb, "delete_objects"),
    "bytes stored": (uploading, "_accept"),
}
"""Each dies before a function of a module, or in it, with its transaction open."""


def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


async def paper() -> AsyncIterator[bytes]:
    yield PAPER


async def main(point: str, kb_id: str = "") -> None:
    module, function = POINTS[point]
    vars(module)[function] = die
    knowledge = Knowledge(KnowledgeSettings(), embedder=HashEmbedder())
    knowledge.readers = PlainReaders()
    async with knowledge.opened():
        if kb_id:
            await uploading.upload(knowledge, UUID(kb_id), paper(), filename="a.md")
        await knowledge.mill.drain(settings=QUICK)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
