"""An HTTP server on loopback that records when each call arrives, and replies as a test says."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

Reply = tuple[int, dict[str, str]]
"""A status, and headers."""


@dataclass
class Provider:
    url: str = ""
    arrivals: list[float] = field(default_factory=list)
    """Arrival times on the monotonic clock."""
    paths: list[str] = field(default_factory=list)
    reply: Callable[[int, str], Reply] = lambda number, path: (200, {})
    """Returns the reply to the call with that number, from 1."""
    arrived: threading.Event = field(default_factory=threading.Event)

    def most_within(self, seconds: float) -> int:
        """Return the most calls in any period of this length."""
        times, start, most = sorted(self.arrivals), 0, 0
        for end, at in enumerate(times):
            while at - times[start] >= seconds:
                start += 1
            most = max(most, end - start + 1)
        return most

    def rate(self) -> float:
        """Return calls per second, from the first to the last."""
        times = sorted(self.arrivals)
        return (len(times) - 1) / (times[-1] - times[0])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            self.arrivals.append(time.monotonic())
            path = line.split()[1].decode() if line.count(b" ") == 2 else "?"
            self.paths.append(path)
            status, headers = self.reply(len(self.arrivals), path)
            self.arrived.set()
            while (await reader.readline()).strip():
                pass
            lines = [f"HTTP/1.1 {status} told", "Content-Length: 0", "Connection: close"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
            await writer.drain()
        except (ConnectionError, IndexError):
            pass  # the caller was killed
        finally:
            writer.close()


@contextmanager
def provider() -> Iterator[Provider]:
    """Run a server in its own thread for the time of the block."""
    found, loop, ready = Provider(), asyncio.new_event_loop(), threading.Event()
    servers: list[asyncio.Server] = []

    async def start() -> None:
        server = await asyncio.start_server(found.serve, "127.0.0.1", 0, backlog=1000)
        found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        servers.append(server)
        ready.set()

    def run() -> None:
        loop.run_until_complete(start())
        loop.run_forever()
        servers[0].close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

    thread = threading.Thread(target=run, name="provider", daemon=True)
    thread.start()
    ready.wait()
    try:
        yield found
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def get(url: str, path: str = "/") -> Reply:
    """Make one call on its own connection."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        await writer.drain()
        status = int((await reader.readline()).split()[1])
        headers = {}
        while line := (await reader.readline()).strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        return status, headers
    finally:
        writer.close()
