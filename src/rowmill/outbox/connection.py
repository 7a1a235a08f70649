"""A lazily opened connection to a broker, shared by all publishes of an event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Generic, TypeVar

from rowmill.model.errors import ProviderDown, RowmillError

C = TypeVar("C")
CLOSE_SECONDS = 5.0


class BrokerConnection(Generic[C]):
    """Opens a connection on first use, one per event loop. The next `drain_now` runs in another loop and gets a new
    one.

    Concurrent callers share one connection attempt, and its failure. Otherwise ten callers in a row would wait for ten
    timeouts.
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
        """Close a connection that failed, so that the next caller opens a new one. Does nothing if it was replaced
        already."""
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


def unreachable(broker: str, error: BaseException) -> ProviderDown:
    return ProviderDown(f"{broker} does not answer: {type(error).__name__}")


def client_library(name: str, extra: str) -> Any:
    """Import an optional client library. Raises RowmillError with the command that installs it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise RowmillError(f"{name} is not installed. Run: pip install 'rowmill[{extra}]'") from error
