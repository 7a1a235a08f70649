"""A server that runs until it is told to stop, with a worker beside it if wanted."""

import asyncio
import math
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI

import rowmill as rm
from rowmill.systems.common.system import System


async def serve_until_told(
    system: System,
    app: FastAPI,
    host: str,
    port: int,
    worker_settings: rm.worker.WorkerSettings,
    with_worker: bool,
    said: Callable[[str], None],
) -> None:
    """Told to stop, requests and rows have the grace period to finish, both at the same time."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,  # paths tell nothing that counts do not; what people do is theirs
        server_header=False,
        timeout_graceful_shutdown=math.ceil(worker_settings.grace),  # who stops in the middle of an upload ends, too
    )
    server = Told(config, said)
    async with AsyncExitStack() as stack:
        stack.enter_context(server.listening_to_signals())
        if not with_worker:
            await server.serve()
            return
        await stack.enter_async_context(system.opened())
        worker = await stack.enter_async_context(system.mill.worker(settings=worker_settings))
        server.stopping = worker.stop
        working = asyncio.create_task(worker.run())
        # Whichever ends first, by a signal or by a fault, takes the other along.
        working.add_done_callback(lambda _: setattr(server, "should_exit", True))
        try:
            await server.serve()
        finally:
            worker.stop()
            await working


class Told(uvicorn.Server):
    """Says where it listens, once it does; and calls `stopping` once it does no more."""

    def __init__(self, config: uvicorn.Config, said: Callable[[str], None]) -> None:
        super().__init__(config)
        self._said = said
        self.stopping: Callable[[], None] = lambda: None

    @contextmanager
    def listening_to_signals(self) -> Iterator[None]:
        """Also while a worker beside it finishes, after the server did."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Whoever runs the server has them already."""
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal to finish, the second to leave at once."""
        if self.should_exit:
            os._exit(128 + sig)
        self.should_exit = True

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started:
            for listener in self.servers:
                for place in listener.sockets:
                    address, port, *_ = place.getsockname()
                    self._said(f"serving on http://{f'[{address}]' if ':' in address else address}:{port}")

    async def shutdown(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        self.stopping()
        await super().shutdown(sockets)  # type: ignore[arg-type]
