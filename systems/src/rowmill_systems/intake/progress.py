"""Write the progress of reading to the row."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.intake.models import ProjectFile
from rowmill_systems.intake.seam import PROGRESS

EVERY_SECONDS = 0.5


@asynccontextmanager
async def told_to_the_row(mill: rm.Mill, file: rm.Lease[ProjectFile]) -> AsyncIterator[None]:
    """Within the block, write the number of pages read to the row: at most twice a second, and only while this worker
    holds the lease."""
    latest: tuple[int, int] = (0, 0)
    news = asyncio.Event()

    def hear(pages: int, of: int) -> None:
        nonlocal latest
        latest = pages, of
        news.set()

    def write(connection: sa.Connection) -> None:
        held = (ProjectFile.id == file.key) & (ProjectFile.lease == file.token)
        connection.execute(sa.update(ProjectFile).where(held).values(pages_read=latest[0], page_count=latest[1]))

    async def tell() -> None:
        while True:
            await news.wait()
            news.clear()
            await mill.run(write)
            await asyncio.sleep(EVERY_SECONDS)

    task, before = asyncio.create_task(tell()), PROGRESS.set(hear)
    try:
        yield
    finally:
        PROGRESS.reset(before)
        task.cancel()
        # What became of a note on progress is not worth a failed file.
        with suppress(asyncio.CancelledError, Exception):
            await task
