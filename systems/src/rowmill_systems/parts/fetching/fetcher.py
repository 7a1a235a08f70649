"""Fetch a page: each hop checked, the whole of it bounded in time and bytes."""

import asyncio
import base64
import ssl
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import unquote_to_bytes

import httpcore2

from rowmill_systems.parts.closing import AsyncCloseable
from rowmill_systems.parts.fetching.backend import AddressRefused, CheckedBackend, HostUnknown, Resolve
from rowmill_systems.parts.fetching.errors import FetchFailed, http_failure, retry_after_seconds
from rowmill_systems.parts.fetching.unpacking import ACCEPTED, BadEncoding, UnknownEncoding, Unpacking
from rowmill_systems.parts.fetching.urls import FetchTarget, redirect_target, target_of

REDIRECTS, PERMANENT = (301, 302, 303, 307, 308), (301, 308)
NOT_MODIFIED = 304
KEPT_OPEN_SECONDS = 5.0
MB = 1024 * 1024
KEPT_HEADERS = (
    "etag",
    "last-modified",
    "content-type",
    "cache-control",
    "expires",
    "date",
    "age",
    "retry-after",
    "link",
)

Permit = Callable[[str], AbstractAsyncContextManager[object]]
"""Called with the host of each hop: the hop is made inside the block. It may raise to stop the fetch."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    seconds: float = 30.0
    """For the whole fetch, from the first name that is resolved to the last byte, redirects included."""
    max_bytes: int = 10 * MB
    """Of the body, unpacked."""
    redirects: int = 5
    connect_seconds: float = 10.0
    """For one connection."""


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A response with status 200 to 299, or 304."""

    status: int
    url: str
    """Where the response came from, after redirects."""
    permanent_url: str | None
    """Where permanent redirects led, with the credentials of the address that was asked for; None if the first redirect
    is a temporary one, if it leads away from the host of these credentials, or if there is none."""
    headers: Mapping[str, str] = field(repr=False)
    """Those of KEPT_HEADERS that were given, in lower case. The values are as they came, read as Latin-1."""
    body: bytes = field(repr=False)
    """Unpacked; empty for 304."""

    @property
    def not_modified(self) -> bool:
        return self.status == NOT_MODIFIED

    @property
    def etag(self) -> str | None:
        return self.headers.get("etag")

    @property
    def last_modified(self) -> str | None:
        return self.headers.get("last-modified")

    @property
    def content_type(self) -> str | None:
        return self.headers.get("content-type")


class Fetcher(AsyncCloseable):
    """Fetches pages for one program. Belongs to the event loop of its first fetch.

    `allow_private` lets it connect to loopback, private and link-local addresses. `resolve` and `ssl_context` take the
    place of the system's.
    """

    def __init__(
        self,
        user_agent: str,
        *,
        limits: FetchLimits | None = None,
        allow_private: bool = False,
        resolve: Resolve | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._user_agent = header_bytes(user_agent) or b"rowmill"
        self.limits = limits or FetchLimits()
        self._backend = CheckedBackend(allow_private=allow_private, resolve=resolve)
        self._pool = httpcore2.AsyncConnectionPool(
            # Made once: httpcore2 would load all certificates again for each connection.
            ssl_context=ssl_context or httpcore2.default_ssl_context(),
            max_connections=None,  # the caller decides how many fetches run at once
            keepalive_expiry=KEPT_OPEN_SECONDS,
            network_backend=self._backend,
        )

    async def get(
        self,
        url: str,
        *,
        etag: str | None = None,
        last_modified: str | None = None,
        validators_from: str | None = None,
        accept: str = "*/*",
        headers: Mapping[str, str] | None = None,
        max_bytes: int | None = None,
        permit: Permit | None = None,
    ) -> FetchedPage:
        """Return the page at an address. Raises FetchFailed.

        `etag` and `last_modified` of an earlier response are sent as they came; the response then may be 304. They are
        sent to the address that gave them alone: `validators_from`, the `url` of that response, otherwise `url`.
        `headers` and credentials in the address go to the host of the address alone, not along a redirect to another.
        """
        first = target_of(url)
        given = [(b"User-Agent", self._user_agent), (b"Accept", header_bytes(accept) or b"*/*")]
        given.append((b"Accept-Encoding", ACCEPTED.encode()))
        validators = [
            (name, packed)
            for name, value in ((b"If-None-Match", etag), (b"If-Modified-Since", last_modified))
            if value and (packed := header_bytes(value)) is not None
        ]
        own = [
            (name.encode("ascii"), packed) for name, value in (headers or {}).items() if (packed := header_bytes(value))
        ]
        if first.userinfo:
            own.append((b"Authorization", b"Basic " + base64.b64encode(unquote_to_bytes(first.userinfo))))
        hops = _Hops(first, validators, validators_from or str(first.url))
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await self._follow(hops, given, own, max_bytes or self.limits.max_bytes, permit)
        except TimeoutError:
            raise FetchFailed("timed_out", host=hops.at.host, permanent_url=hops.permanent_url) from None

    async def _follow(
        self,
        hops: "_Hops",
        given: list[tuple[bytes, bytes]],
        own: list[tuple[bytes, bytes]],
        max_bytes: int,
        permit: Permit | None,
    ) -> FetchedPage:
        for _ in range(self.limits.redirects + 1):
            headers = [(b"Host", hops.at.host.encode("ascii")), *given]
            if hops.at.origin == hops.first.origin:
                headers += own
            headers += hops.validators
            async with nullcontext() if permit is None else permit(hops.at.host):
                page = await self._hop(hops, headers, max_bytes)
            if page is not None:
                return page
        raise FetchFailed("too_many_redirects", host=hops.at.host)

    async def _hop(self, hops: "_Hops", headers: list[tuple[bytes, bytes]], max_bytes: int) -> FetchedPage | None:
        """Make one request. Returns None after a redirect, with `hops` at the next address."""
        at = hops.at
        timeouts = {"connect": self.limits.connect_seconds, "read": None, "write": None, "pool": None}
        target = httpcore2.URL(scheme=at.url.raw_scheme, host=at.url.raw_host, port=at.url.port, target=at.url.raw_path)
        try:
            async with self._pool.stream("GET", target, headers=headers, extensions={"timeout": timeouts}) as response:
                found = kept_headers(response.headers)
                if response.status in REDIRECTS:
                    hops.move(response.status, location_of(response.headers))
                    return None
                if response.status != NOT_MODIFIED and not 200 <= response.status < 300:
                    wait = retry_after_seconds(found.get("retry-after"), datetime.now(UTC))
                    raise http_failure(response.status, wait, at.host, hops.permanent_url)
                if response.status == NOT_MODIFIED and not hops.validators:
                    raise FetchFailed("bad_response", host=at.host, permanent_url=hops.permanent_url)
                body = b""
                if response.status != NOT_MODIFIED:
                    encoding = header_of(response.headers, b"content-encoding")
                    body = await read_body(response, encoding, max_bytes)
                return FetchedPage(response.status, str(at.url), hops.permanent_url, found, body)
        except _TooLarge:
            code = "too_large"
        except BadEncoding:
            code = "bad_encoding"
        except UnknownEncoding:
            code = "unknown_encoding"
        except AddressRefused:
            code = "address_refused"
        except HostUnknown:
            code = "dns"
        except httpcore2.ConnectError as error:
            code = "tls" if isinstance(error.__cause__ or error.__context__, ssl.SSLError) else "unreachable"
        except httpcore2.TimeoutException:
            code = "timed_out"
        except httpcore2.ProtocolError:
            code = "bad_response"
        except (httpcore2.NetworkError, ssl.SSLError, OSError):
            code = "connection_broken"
        # Without the cause: its text may have the address in it.
        raise FetchFailed(code, host=at.host, permanent_url=hops.permanent_url)

    async def close(self) -> None:
        await self._pool.aclose()
        self._backend.close()


class _TooLarge(Exception):
    pass


class _Hops:
    """Where a fetch has come to."""

    def __init__(self, first: FetchTarget, validators: list[tuple[bytes, bytes]], validators_from: str) -> None:
        self.first = self.at = first
        self._validators, self._validators_from = validators, validators_from
        self._only_permanent = True
        self.permanent_url: str | None = None

    def move(self, status: int, location: str) -> None:
        before, self.at = self.at, redirect_target(self.at, location)
        # A move from https to http is followed, but not remembered: anybody on the way could have said it.
        downgrade = before.url.scheme == "https" and self.at.url.scheme == "http"
        # Nor is one that leaves the host for which we have credentials: the next fetch would come without them.
        abandons = bool(self.first.userinfo) and self.at.origin != self.first.origin
        self._only_permanent = self._only_permanent and status in PERMANENT and not downgrade and not abandons
        if self._only_permanent:
            self.permanent_url = str(self.at.url.copy_with(userinfo=self.first.userinfo))

    @property
    def validators(self) -> list[tuple[bytes, bytes]]:
        """The headers of a conditional request, if this address gave them. Another one may mean something else by the
        same words, and would answer that nothing has changed."""
        return self._validators if str(self.at.url) == self._validators_from else []


async def read_body(response: httpcore2.Response, content_encoding: str, max_bytes: int) -> bytes:
    """Return the unpacked body. Raises _TooLarge if it is longer, packed or unpacked."""
    unpacking = Unpacking(content_encoding)
    declared = header_of(response.headers, b"content-length")
    most_packed = max_bytes + max_bytes // 100 + 1024
    if declared.isdigit() and int(declared[:20]) > most_packed:
        raise _TooLarge
    body, packed = bytearray(), 0
    async for data in response.aiter_stream():
        packed += len(data)
        if packed > most_packed:
            raise _TooLarge
        await asyncio.sleep(0)  # also for bytes that unpack to nothing, of which a server may send many
        for piece in unpacking.feed(data):
            body += piece
            if len(body) > max_bytes:
                raise _TooLarge
            await asyncio.sleep(0)  # other fetches have their turn while a large body is unpacked
    unpacking.finish()
    return bytes(body)


def kept_headers(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    found = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in reversed(headers)}
    return {name: found[name] for name in KEPT_HEADERS if name in found}


def header_of(headers: list[tuple[bytes, bytes]], wanted: bytes) -> str:
    return ", ".join(value.decode("latin-1") for name, value in headers if name.lower() == wanted)


def location_of(headers: list[tuple[bytes, bytes]]) -> str:
    """Return the address of a redirect. Servers write it in UTF-8 where they should not, and as browsers we read it."""
    raw = next((value for name, value in headers if name.lower() == b"location"), b"")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def header_bytes(value: str) -> bytes | None:
    """Return the bytes of a header's value. None for what can't be one, as with a line break in it."""
    try:
        packed = value.strip(" \t").encode("latin-1")
    except UnicodeEncodeError:
        return None
    return None if any(byte in packed for byte in b"\r\n\0") else packed
