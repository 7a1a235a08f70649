"""Comparisons that an administrator asks for on a page: one at a time, in the background, in this process."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request

import rowmill as rm
from rowmill import reconcile
from rowmill_systems.knowledge.consistency.checking import check
from rowmill_systems.knowledge.consistency.orphans import OrphanReport, preview_orphans, remove_orphans
from rowmill_systems.knowledge.logs import log_event

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

ORPHANS_AT_ONCE = 100
SHORTLY = 0.5
"""Seconds that a form waits: a small comparison is done by then, and its page shows the result at once."""


class ComparisonJob:
    """The comparison that goes on, and what the last one found. No plan is stored: only this process has it."""

    def __init__(self, lock: asyncio.Lock) -> None:
        """`lock` is held while the stores are compared in this process."""
        self._lock = lock
        self.words = ""
        """What is done, as "The comparison"."""
        self.compared = 0
        self.error = ""
        self.said = ""
        self.plan: reconcile.Reconciled | None = None
        self.orphans: OrphanReport | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def check(self, knowledge: "Knowledge") -> None:
        """Compare everything, and write nothing."""

        async def work() -> None:
            self.plan = (await check(knowledge, execute=False, progress=self._count)).run

        await self._start("The comparison", work)

    async def mend(self, knowledge: "Knowledge") -> None:
        """Compare everything, and have events mend what they can."""

        async def work() -> None:
            run = (await check(knowledge, execute=True, progress=self._count)).run
            self.plan = None
            self.said = words_of(run)

        await self._start("Mending", work)

    async def look_for_orphans(self, knowledge: "Knowledge") -> None:
        async def work() -> None:
            self.orphans = await preview_orphans(knowledge, ORPHANS_AT_ONCE, progress=self._count)

        await self._start("The look for orphans", work)

    async def remove_orphans(self, knowledge: "Knowledge") -> None:
        """Remove as many orphans as the preview listed."""
        most = len(self.orphans.listed) if self.orphans is not None else 0

        async def work() -> None:
            if not most:
                return
            found = await remove_orphans(knowledge, most, progress=self._count)
            self.orphans = None
            kept = f", {found.kept:,} kept: gone, new or explained by now" if found.kept else ""
            self.said = f"{found.removed:,} orphan{'' if found.removed == 1 else 's'} removed{kept}."

        await self._start("The removal of orphans", work)

    def _count(self, compared: int) -> None:
        self.compared = compared

    async def _start(self, words: str, work: Callable[[], Awaitable[None]]) -> None:
        """Begin it, unless another one goes on. Wait a moment for the result."""
        if self.running:
            return
        self.words, self.compared, self.error, self.said = words, 0, "", ""
        self._task = asyncio.create_task(self._run(work))
        await self.finished(SHORTLY)

    async def finished(self, seconds: float | None = None) -> None:
        """Wait until what goes on is done, up to this number of seconds."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            if self._lock.locked():
                raise rm.errors.ReconciliationBusy("the stores are being compared")
            async with self._lock:
                await work()
        except rm.errors.ReconciliationBusy:
            self.error = "Somebody else compares the stores just now. Try again in a moment."
        except (rm.errors.WorkError, rm.errors.RowmillError) as error:
            self.error = str(error)
        except Exception as error:
            log_event("consistency.page_failed", level=logging.ERROR, code=type(error).__name__)
            self.error = f"{type(error).__name__}. The log says more."

    async def stop(self) -> None:
        """Cancel what goes on. A mending that is cut off is continued by the next one."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task


def words_of(run: reconcile.Reconciled) -> str:
    """Return what a run did. Nothing, if a store could not be read and nothing was done: the page says that."""
    left = f", {run.remaining:,} left to the next run" if run.remaining else ""
    failed = f", {run.failed:,} failed" if run.failed else ""
    if run.corrected or left or failed:
        events = f"{run.corrected:,} event{'' if run.corrected == 1 else 's'}"
        return f"{events} written to mend what was found{left}{failed}. Workers process them."
    return "" if run.unreadable else "There was nothing to mend."


@asynccontextmanager
async def stopping_with_app(app: FastAPI) -> AsyncIterator[None]:
    """Stop the comparison with the application."""
    try:
        yield
    finally:
        await job_of(app).stop()


def job_of(app: FastAPI) -> ComparisonJob:
    """Return the job of an application. There is one."""
    if not hasattr(app.state, "comparison"):
        app.state.comparison = ComparisonJob(app.state.comparing)
    found: ComparisonJob = app.state.comparison
    return found


def the_job(request: Request) -> ComparisonJob:
    return job_of(request.app)
