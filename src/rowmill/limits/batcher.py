"""Sends requests in batches: those that come while a batch is under way make up the next one."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class RequestBatcher(Generic[T]):
    """Sends one batch at a time. An item that comes alone is sent at once, so nobody waits for others to come."""

    def __init__(
        self,
        send: Callable[[list[T]], Awaitable[None]],
        name: str,
        *,
        size: Callable[[T], int] = lambda item: 1,
        most: float = float("inf"),
    ) -> None:
        """`send` sends a batch, and reports its errors to the callers. The sizes of a batch's items add up to `most` at
        most; a single larger item is a batch of its own."""
        self._send, self._name, self._size, self._most = send, name, size, most
        self._waiting: deque[T] = deque()
        self.task: asyncio.Task[None] | None = None
        """Sends batches until none is left."""

    def put(self, item: T) -> None:
        """Send an item with the next batch."""
        self._waiting.append(item)
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._run(), name=self._name)

    async def _run(self) -> None:
        while self._waiting:
            await self._send(self._next())

    def _next(self) -> list[T]:
        batch = [self._waiting.popleft()]
        total = self._size(batch[0])
        while self._waiting and total + self._size(self._waiting[0]) <= self._most:
            batch.append(self._waiting.popleft())
            total += self._size(batch[-1])
        return batch
