"""Connections to checked addresses only."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address

import httpcore2

from rowmill_systems.parts.fetching.addresses import Address, is_inside, is_never_a_server

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host."""
MOST_ADDRESSES = 6
"""Addresses of one host that are tried."""
LEAST_SECONDS = 1.0
RESOLVER_THREADS = 16


class AddressRefused(Exception):
    """A host has an address inside."""


class HostUnknown(Exception):
    """A host has no address, or nobody could say it."""


class CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Resolves a host, checks every address, and connects to one of those.

    httpcore2 passes names down to here, so that nothing can resolve a name a second time after the check.
    """

    def __init__(self, *, allow_private: bool, resolve: Resolve | None = None) -> None:
        self._allow_private = allow_private
        self._plain = httpcore2.AnyIOBackend()
        self._resolver = SystemResolver() if resolve is None else None
        self._resolve: Resolve = resolve or self._resolver  # type: ignore[assignment]

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = [str(each) for each in self.checked(await self._addresses(host, port))]
        options = list(socket_options or ())
        for place, address in enumerate(addresses, 1):
            last = place == len(addresses)
            # Of the first addresses, one may be of a protocol that works here no further than the next router.
            share = timeout if last or timeout is None else max(timeout / len(addresses), LEAST_SECONDS)
            try:
                return await self._plain.connect_tcp(address, port, share, local_address, options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                if last:
                    raise
        raise HostUnknown

    async def _addresses(self, host: str, port: int) -> list[Address]:
        try:
            return [ip_address(host.partition("%")[0])]
        except ValueError:
            pass  # a name, or a spelling such as 0x7f.1 that only the resolver understands
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise HostUnknown from error
        # The zone of a link-local address is cut: the check is for the address.
        return [ip_address(each.partition("%")[0]) for each in dict.fromkeys(found)]

    def checked(self, addresses: Sequence[Address]) -> Sequence[Address]:
        """Return the addresses to try. One that is refused refuses the host: whoever mixes them wants to be lucky."""
        if not addresses:
            raise HostUnknown
        refused = is_never_a_server if self._allow_private else is_inside
        if any(refused(each) for each in addresses):
            raise AddressRefused
        return addresses[:MOST_ADDRESSES]

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        raise AddressRefused

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def close(self) -> None:
        if self._resolver is not None:
            self._resolver.close()


class SystemResolver:
    """Resolves by getaddrinfo in threads of its own.

    In the loop's threads, of which there are few, the names of dead hosts would hold up everything else.
    """

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(RESOLVER_THREADS, "resolve")
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _look_up, host, port)
        return [str(address[4][0]) for address in found]

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


def _look_up(host: str, port: int) -> Sequence[tuple[object, object, object, object, tuple[object, ...]]]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
