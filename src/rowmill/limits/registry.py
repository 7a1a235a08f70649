"""The limits of a mill by name, and the client that they share."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL

from rowmill.limits.client import LimitClient
from rowmill.limits.gate import LimitGate
from rowmill.limits.limit import HandlerLimit, Limit
from rowmill.mill_port import MillPort
from rowmill.model.errors import BadRequest, DeclarationError, RowmillError
from rowmill.model.limits import Breaker, Budget, Rate
from rowmill.model.option_names import listed
from rowmill.observe.events import Events
from rowmill.store.open import open_store
from rowmill.store.port import Store

T = TypeVar("T")
LONGEST_NAME = 200


class Limits:
    """The limits of a mill, by name. One client serves the loop in which the mill is open; a second one serves threads
    without a loop."""

    def __init__(self, mill: MillPort) -> None:
        self._mill = mill
        self._known: dict[str, Limit] = {}
        self._client: LimitClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._background: BackgroundLoop | None = None
        self._lock = threading.Lock()

    def declare(
        self,
        name: str,
        rate: Rate | None,
        concurrent: int | None,
        budget: Budget | None,
        breaker: Breaker | None,
        lease: float,
    ) -> Limit:
        problems = []
        if not name or len(name) > LONGEST_NAME or not name.isprintable() or " " in name:
            problems.append(f"a name of a limit is one word of {LONGEST_NAME} characters at the most")
        if name in self._known:
            problems.append("this mill has a limit of that name already")
        if concurrent is not None and concurrent < 1:
            problems.append(f"concurrent must be 1 or more, not {concurrent}")
        if not 1.0 <= lease <= 86400.0:
            problems.append(f"the lease of a call is between a second and a day, not {lease}")
        if problems:
            raise DeclarationError(name, problems, kind="limit")
        limit = Limit(
            name, self, rate=rate, concurrent=concurrent, budget=budget, breaker=breaker, lease=lease
        )  # fmt: skip
        self._known[name] = limit
        return limit

    def __iter__(self) -> Iterator[Limit]:
        return iter(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def __getitem__(self, name: str) -> Limit:
        try:
            return self._known[name]
        except KeyError:
            raise BadRequest(f"this mill has no limit {name}. It has: {listed(self._known, name)}") from None

    def problems(self, limits: Sequence[HandlerLimit | Limit]) -> list[str]:
        """Return what is wrong with these limits of a handler."""
        names = [(one.limit if isinstance(one, HandlerLimit) else one).name for one in limits]
        twice = [f"limit {name} is named twice" for name in sorted({n for n in names if names.count(n) > 1})]
        return twice + [f"limit {name} is one of another mill" for name in names if name not in self]

    def gate(self, limits: Sequence[HandlerLimit | Limit]) -> LimitGate:
        """Return the gate that takes permits for a handler's rows."""
        return LimitGate(limits, self.own_client)

    def own_client(self) -> LimitClient:
        if self._client is None:
            raise RowmillError("the mill of this limit is not open")
        return self._client

    def opened(self, store: Store, loop: asyncio.AbstractEventLoop | None) -> None:
        """Create the client when the mill opens, for its loop."""
        self._client, self._loop = LimitClient(store, self._mill.events), loop

    async def closed(self) -> None:
        """Close the client before the mill closes."""
        client, self._client, self._loop = self._client, None, None
        if client is not None:
            await client.close()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[LimitClient]:
        if self._background is not None and self._background.runs_here:
            yield self._background.client
            return
        async with self._mill.opened():
            yield self.own_client()

    async def run(self, work: Callable[[Connection], T], *, write: bool = True) -> T:
        if self._background is not None and self._background.runs_here:
            return await self._background.store.run(work, write=write)
        return await self._mill.run(work, write=write)

    def from_thread(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine from a thread: on the worker's loop if there is one, else on a background loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise RowmillError("this code runs on an event loop: write `async with` (or await), not `with`")
        loop = self._loop
        if loop is None or not loop.is_running():
            with self._lock:
                if self._background is not None and self._background.url != self._mill.url:
                    self._background.stop()
                    self._background = None
                if self._background is None:
                    self._background = BackgroundLoop(self._mill.url, self._mill.events)
            loop = self._background.loop
        return asyncio.run_coroutine_threadsafe(work(), loop).result()


class BackgroundLoop:
    """An event loop in its own thread with its own store, for code that has no loop."""

    def __init__(self, url: URL, events: Events) -> None:
        self.url = url
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="rowmill-limits", daemon=True)
        self._thread.start()
        self.store = open_store(url)
        self.store.may_create = False
        self.client = asyncio.run_coroutine_threadsafe(self._open(events), self.loop).result()

    async def _open(self, events: Events) -> LimitClient:
        await self.store.open()
        return LimitClient(self.store, events)

    @property
    def runs_here(self) -> bool:
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        async def close() -> None:
            await self.client.close()
            await self.store.close()

        asyncio.run_coroutine_threadsafe(close(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
