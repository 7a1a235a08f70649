"""Send one HTTP request, and read the response within a time and a size."""

import asyncio
import logging
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2

import rowmill as rm

CONNECT_SECONDS = 10.0


class ServerUnreachable(rm.errors.ProviderDown):
    """No connection could be made: nothing was sent."""


class ResponseTimedOut(rm.errors.ProviderDown):
    """The server took longer than a call may."""


@dataclass(frozen=True, slots=True)
class Received:
    status: int
    headers: httpx2.Headers
    content: bytes | None
    """None: there were more bytes than allowed."""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


def timeouts(seconds: float) -> httpx2.Timeout:
    return httpx2.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))


async def send(
    client: httpx2.AsyncClient, method: str, url: str, *, name: str, seconds: float, max_bytes: int, **given: Any
) -> Received:
    """Return what the server `name` responds, whatever its status. Redirects are not followed.

    Raises ServerUnreachable, ResponseTimedOut, or ProviderDown if the connection breaks. `given` goes to the client.
    """
    token = SENDING.set(True)
    try:
        # httpx2 counts from byte to byte, and a server may drip.
        async with asyncio.timeout(seconds), client.stream(method, url, **given) as response:
            return Received(response.status_code, response.headers, await _read(response, max_bytes))
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
        raise ServerUnreachable(f"{name} can't be reached: {type(error).__name__}") from error
    except (TimeoutError, httpx2.TimeoutException) as error:
        raise ResponseTimedOut(f"{name} does not answer within {seconds:g} seconds") from error
    except (httpx2.RequestError, httpx2.InvalidURL):
        pass  # not a cause: it may quote what was sent or received
    finally:
        SENDING.reset(token)
    raise rm.errors.ProviderDown(f"{name} broke off")


async def _read(response: httpx2.Response, max_bytes: int) -> bytes | None:
    """Return the body, or None if it is longer: a server that does not stop is not read to the end."""
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > max_bytes:
            return None
    return bytes(content)


SENDING: ContextVar[bool] = ContextVar("SENDING", default=False)


class HostOnlyFilter(logging.Filter):
    """Shortens addresses to their host in the log of httpx2: ours have names and questions in them."""

    def filter(self, record: logging.LogRecord) -> bool:
        if SENDING.get() and isinstance(record.args, tuple):
            record.args = tuple(_host(each) if isinstance(each, httpx2.URL) else each for each in record.args)
        return True


def _host(url: httpx2.URL) -> str:
    parts = urlsplit(str(url))
    return f"{parts.scheme}://{parts.hostname}"


logging.getLogger("httpx2").addFilter(HostOnlyFilter())
