"""The services that settings name, each within its limit, over one client."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

import rowmill as rm
from rowmill.systems.entities.asking import faults
from rowmill.systems.entities.asking.answers import Answers
from rowmill.systems.entities.asking.calling import new_client
from rowmill.systems.entities.asking.faults import Fault
from rowmill.systems.entities.asking.http import HttpService
from rowmill.systems.entities.asking.turns import rate_of
from rowmill.systems.entities.settings import EntitiesSettings

OWN_SOURCES = ("embedded", "wikidata", "dbpedia")
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
ADDRESS = re.compile(r"https?://[^/?#\s]+[^?#\s]*", re.IGNORECASE)
LEASE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Address:
    service: str
    url: str
    fault: Fault


class Desk:
    """Made by `open_services`, closed once."""

    def __init__(self, services: dict[str, HttpService], client: httpx.AsyncClient) -> None:
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


def declare_limits(settings: EntitiesSettings, mill: rm.Mill) -> dict[str, rm.limits.Limit]:
    """By service. Those that the mill has already are taken as they are."""
    limits = {}
    for address in addresses(settings):
        name = f"entities-{address.service}"
        limits[address.service] = (
            mill.limits[name]
            if name in mill.limits
            else mill.limit(
                name,
                rate=rate_of(settings.calls_per_second),
                concurrent=settings.calls_at_once,
                lease=LEASE_SECONDS,
            )
        )
    return limits


def open_services(settings: EntitiesSettings, mill: rm.Mill, client: httpx.AsyncClient | None = None) -> Desk:
    """The services of the sources that settings name, for the loop that runs."""
    limits, answers = declare_limits(settings, mill), Answers(mill)
    client = client or new_client(settings.contact, settings.call_seconds)
    services = {
        each.service: HttpService(
            each.service, each.url, limits[each.service], client, answers, settings, fault=each.fault
        )
        for each in addresses(settings)
    }
    return Desk(services, client)


def addresses(settings: EntitiesSettings) -> list[Address]:
    """Of the sources that settings name."""
    named = [name.strip() for name in settings.sources.split(",") if name.strip()]
    found = []
    if "wikidata" in named:
        found.append(Address("wikidata", settings.wikidata_url, faults.of_mediawiki))
    if "dbpedia" in named:
        found.append(Address("dbpedia-lookup", settings.dbpedia_lookup_url, faults.with_key("docs")))
        found.append(Address("dbpedia-data", settings.dbpedia_data_url, faults.of_objects))
        if settings.dbpedia_spotlight_url:
            found.append(
                Address("dbpedia-spotlight", settings.dbpedia_spotlight_url, faults.with_key("annotation", "@text"))
            )
    found += [
        Address(name, url, faults.of_reconciliation) for name, url in settings.reconciliation.items() if name in named
    ]
    problems = [*_odd_names(settings), *_odd_addresses(found)]
    if problems:
        raise rm.errors.DeclarationError("entities", problems, kind="settings of")
    return found


def _odd_names(settings: EntitiesSettings) -> Iterator[str]:
    for name in settings.reconciliation:
        if name in OWN_SOURCES or name.startswith("dbpedia-") or not NAME.fullmatch(name):
            yield "a service of reconciliation has a name of small letters and digits that no other source has"


def _odd_addresses(found: list[Address]) -> Iterator[str]:
    for address in found:
        if not ADDRESS.fullmatch(address.url):
            yield f"the address of {address.service} is not one such as https://host/path"
