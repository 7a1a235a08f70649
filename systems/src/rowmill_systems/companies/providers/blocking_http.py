"""Send HTTP requests from plain functions, within a time and a size."""

import asyncio
import os
import threading
from collections.abc import Mapping
from concurrent.futures import CancelledError
from typing import Any

import httpx2

from rowmill_systems.companies.providers.port import ProviderClosed
from rowmill_systems.parts.services.sending import Received, send, timeouts
from rowmill_systems.parts.tls import shared_ssl_context

MAX_BYTES = 8 * 1024 * 1024
"""Of an answer, unpacked."""


class BlockingHttp:
    """An HTTP client for plain functions. Thread-safe.

    Requests run in an event loop on a thread of its own: a deadline over a whole request, from the connection to the
    last byte, needs one. A blocking client counts from byte to byte, and a server that drips holds its thread for
    hours. Redirects are not followed: the token goes to the host that the operator named, and nowhere else.
    """

    def __init__(self, name: str, *, headers: Mapping[str, str], seconds: float, max_bytes: int = MAX_BYTES) -> None:
        """`name` is what errors call the server."""
        self.name, self.seconds, self.max_bytes = name, seconds, max_bytes
        self._headers = dict(headers)
        self._lock = threading.Lock()
        self._running: _RunningClient | None = None
        self._closed = False

    def send(self, method: str, url: str, **given: Any) -> Received:
        """Return what the server responds, whatever its status. `given` goes to httpx2.

        Raises ServerUnreachable, ResponseTimedOut, ProviderDown if the connection breaks, and ProviderClosed.
        """
        with self._lock:  # so that `close` sees every request that was begun
            running = self._start()
            call = send(
                running.client, method, url, name=self.name, seconds=self.seconds, max_bytes=self.max_bytes, **given
            )
            future = asyncio.run_coroutine_threadsafe(call, running.loop)
        try:
            return future.result()
        except CancelledError:
            raise ProviderClosed(f"{self.name} was closed during a request") from None
        finally:
            future.cancel()  # Ctrl-C: the request ends too

    def close(self) -> None:
        """End the thread and the connections. Idempotent."""
        with self._lock:
            running, self._running, self._closed = self._running, None, True
        if running is not None and running.pid == os.getpid():
            running.stop()

    def _start(self) -> "_RunningClient":
        if self._closed:
            raise ProviderClosed(f"{self.name} is closed")
        # A child that was forked has the object, and not its thread.
        if self._running is None or self._running.pid != os.getpid():
            self._running = _RunningClient(self.name, self._headers, self.seconds)
        return self._running


class _RunningClient:
    def __init__(self, name: str, headers: Mapping[str, str], seconds: float) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.client = httpx2.AsyncClient(
            headers=headers, timeout=timeouts(seconds), follow_redirects=False, verify=shared_ssl_context()
        )
        self._thread = threading.Thread(target=self.loop.run_forever, name=f"requests to {name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.client.aclose()
        await self.loop.shutdown_default_executor()
