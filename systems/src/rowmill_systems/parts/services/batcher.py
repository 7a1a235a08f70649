"""Combine what many tasks ask of the database at the same moment into one transaction."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

import rowmill as rm

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


class Batcher(Generic[Asked, Answered]):
    """Runs requests in batches: while one batch runs, the next one collects.

    If a batch fails, each of its requests is run alone, so that a bad one fails no other. If the database can't be
    reached, all of them fail at once.
    """

    def __init__(self, work: Callable[[Sequence[Asked]], Awaitable[Sequence[Answered]]]) -> None:
        """`work` returns its results in the order of the requests."""
        self._work = work
        self._waiting: list[tuple[Asked, asyncio.Future[Answered]]] = []
        self._task: asyncio.Task[None] | None = None

    async def ask(self, asked: Asked) -> Answered:
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="database batch")
        return await future

    async def _run(self) -> None:
        while self._waiting:
            some, self._waiting = [each for each in self._waiting if not each[1].done()], []
            try:
                await self._round(some)
            except rm.errors.DatabaseUnreachable as error:
                fail(some, error)
            except Exception:
                for one in some:
                    await self._alone(one)
            except BaseException:
                for _, future in (*some, *self._waiting):
                    future.cancel()
                raise

    async def _round(self, some: Sequence[tuple[Asked, "asyncio.Future[Answered]"]]) -> None:
        if not some:  # nobody waits any more
            return
        answers = await self._work([asked for asked, _ in some])
        for (_, future), answer in zip(some, answers, strict=True):
            if not future.done():
                future.set_result(answer)

    async def _alone(self, one: tuple[Asked, "asyncio.Future[Answered]"]) -> None:
        try:
            await self._round([one])
        except Exception as error:
            fail([one], error)


def fail(some: Sequence[tuple[Any, "asyncio.Future[Any]"]], error: Exception) -> None:
    for _, future in some:
        if not future.done():
            future.set_exception(error)
