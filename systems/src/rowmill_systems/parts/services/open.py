"""Open several services over one HTTP client, each with its limit."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import httpx2

import rowmill as rm
from rowmill_systems.parts.services import failures
from rowmill_systems.parts.services.cache import AnswerCache
from rowmill_systems.parts.services.call_slots import rate_of
from rowmill_systems.parts.services.calling import new_client
from rowmill_systems.parts.services.failures import FailureCheck
from rowmill_systems.parts.services.http import HttpService
from rowmill_systems.parts.services.settings import ServiceSettings

LEASE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Address:
    service: str
    url: str
    fault: FailureCheck = failures.no_failure
    """Detects a failure in an answer with status 200."""


class HttpServices:
    """Services by name. Close it once, after the last call."""

    def __init__(self, services: dict[str, HttpService], client: httpx2.AsyncClient) -> None:
        self._services, self._client = services, client

    def __getitem__(self, service: str) -> HttpService:
        return self._services[service]

    def __contains__(self, service: str) -> bool:
        return service in self._services

    def __iter__(self) -> Iterator[str]:
        return iter(self._services)

    async def close(self) -> None:
        for service in self._services.values():
            await service.close()
        await self._client.aclose()


def declare_limits(mill: rm.Mill, services: Iterable[str], settings: ServiceSettings) -> dict[str, rm.limits.Limit]:
    """Declare a limit `APPLICATION-SERVICE` for each service. Limits that the mill has already stay as they are."""
    limits = {}
    for service in services:
        name = f"{settings.application}-{service}"
        limits[service] = (
            mill.limits[name]
            if name in mill.limits
            else mill.limit(
                name,
                rate=rate_of(settings.calls_per_second),
                concurrent=settings.concurrent_calls,
                lease=LEASE_SECONDS,
            )
        )
    return limits


def open_services(
    addresses: Iterable[Address],
    limits: Mapping[str, rm.limits.Limit],
    cache: AnswerCache,
    settings: ServiceSettings,
    client: httpx2.AsyncClient | None = None,
) -> HttpServices:
    """Open services for the running loop. They share a client; a client that you pass is closed with them."""
    client = client or new_client(settings)
    services = {
        each.service: HttpService(
            each.service, each.url, limits[each.service], client, cache, settings, fault=each.fault
        )
        for each in addresses
    }
    return HttpServices(services, client)
