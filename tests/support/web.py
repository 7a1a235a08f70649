"""An application behind a real HTTP server on loopback, and a client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import uvicorn
from fastapi import FastAPI


@asynccontextmanager
async def client_of(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, lifespan="on"))
    running = asyncio.create_task(server.serve())
    while not server.started:
        assert not running.done(), "the server did not start"
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        # No certificates are read: to load them takes longer than most tests.
        async with httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30, verify=False
        ) as client:
            yield client
    finally:
        server.should_exit = True
        await running
