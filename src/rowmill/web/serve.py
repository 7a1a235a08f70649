"""Serve an application until a signal says stop, with a worker in the same process if wanted."""

import asyncio
import math
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from rowmill.worker import Worker


async def serve_until_stopped(
    app: ASGIApp,
    host: str,
    port: int,
    *,
    grace: float,
    announce: Callable[[str], None],
    worker: AbstractAsyncContextManager[Worker] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM. Then requests and rows have `grace` seconds to finish, both at the same time.

    A second signal ends the process at once.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,  # paths hold what people look at, and that is not for a log
        server_header=False,
        timeout_graceful_shutdown=math.ceil(grace),  # a client that stalls in an upload is cut off too
    )
    server = AnnouncingServer(config, announce)
    async with AsyncExitStack() as stack:
        stack.enter_context(server.signals())
        if worker is None:
            await server.serve()
            return
        running = await stack.enter_async_context(worker)
        server.on_shutdown = running.stop
        working = asyncio.create_task(running.run())
        # The one that ends first, by a signal or an error, stops the other.
        working.add_done_callback(lambda _: setattr(server, "should_exit", True))
        try:
            await server.serve()
        finally:
            running.stop()
            await working


class AnnouncingServer(uvicorn.Server):
    """Announces its address once it listens, and calls `on_shutdown` when it stops listening."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[str], None]) -> None:
        super().__init__(config)
        self._announce = announce
        self.on_shutdown: Callable[[], None] = lambda: None

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Handle signals during the block: also while a worker finishes after the server did."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Override uvicorn's own handlers: `signals` has installed ours."""
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            os._exit(128 + sig)
        self.should_exit = True

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started:
            for listener in self.servers:
                for place in listener.sockets:
                    address, port, *_ = place.getsockname()
                    self._announce(f"serving on http://{f'[{address}]' if ':' in address else address}:{port}")

    async def shutdown(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        self.on_shutdown()
        await super().shutdown(sockets)  # type: ignore[arg-type]
