"""A faulty network between a fleet and its server: the proxy of the tests, in its own thread."""

import asyncio
import threading
from types import TracebackType
from typing import Self

from sqlalchemy import make_url

from tests.support.proxy import Proxy, proxy_to


class Wire:
    def __init__(self, url: str) -> None:
        self.proxy: Proxy
        self.url = ""
        """The server's URL through the proxy."""
        self._server = url
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wire", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._up.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def cut(self) -> int:
        """Cut every connection. Return their number."""
        return asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    def heal(self) -> None:
        """Let everything through again. Connections that missed something are cut."""
        self.proxy.delay, self.proxy.rate = 0.0, None
        if self.proxy.muted:
            self.proxy.muted.clear()
            self.cut()

    def redirect(self, url: str) -> None:
        """Redirect to another server."""
        server = make_url(url)
        self.proxy.host, self.proxy.port = server.host or "127.0.0.1", server.port or 5432
        self.cut()

    async def _cut(self) -> int:
        found = len(self.proxy.wires)
        self.proxy.cut()
        return found

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        async with proxy_to(self._server) as (self.proxy, self.url):
            self._up.set()
            await self._over.wait()
