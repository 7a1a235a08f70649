"""One connection to a broker, made when it is needed."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Generic, TypeVar

from rowmill.model.errors import ProviderDown, RowmillError

C = TypeVar("C")
CLOSE_SECONDS = 5.0


class Connected(Generic[C]):
    """Belongs to the event loop that asked for it: another loop, as of the next `drain_now`, gets another one.

    Whoever asks while it is being made waits for that one attempt, and fails with it: one after another, ten of them
    would wait for ten time-outs.
    """

    def __init__(self, connect: Callable[[], Awaitable[C]], close: Callable[[C], Awaitable[Any]]) -> None:
        self._connect, self._close = connect, close
        self._loop: asyncio.AbstractEventLoop | None = None
        self._attempt: asyncio.Task[C] | None = None
        self._connection: C | None = None

    async def get(self) -> C:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._attempt, self._connection = loop, None, None
        if self._connection is not None:
            return self._connection
        if self._attempt is None:
            self._attempt = loop.create_task(self._make(), name="broker connection")
            self._attempt.add_done_callback(self._made)
        return await asyncio.shield(self._attempt)

    async def _make(self) -> C:
        return await self._connect()

    def _made(self, attempt: "asyncio.Task[C]") -> None:
        if self._attempt is attempt:
            self._attempt = None
            if not attempt.cancelled() and attempt.exception() is None:
                self._connection = attempt.result()

    async def drop(self, connection: C | None) -> None:
        """It is of no use any more; the next one who asks gets another. One that was dropped already may be in the
        place of another by now."""
        if connection is None or self._connection is not connection:
            return
        self._connection = None
        if self._loop is asyncio.get_running_loop():
            with suppress(Exception):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._close(connection)

    async def close(self) -> None:
        if self._attempt is not None and self._loop is asyncio.get_running_loop():
            self._attempt.cancel()
            await asyncio.wait([self._attempt])
        await self.drop(self._connection)


def away(broker: str, error: BaseException) -> ProviderDown:
    return ProviderDown(f"{broker} does not answer: {type(error).__name__}")


def driver(name: str, extra: str) -> Any:
    """A library that only those need who relay to its broker."""
    try:
        return import_module(name)
    except ImportError as error:
        raise RowmillError(f"{name} is not installed. Run: pip install 'rowmill[{extra}]'") from error
