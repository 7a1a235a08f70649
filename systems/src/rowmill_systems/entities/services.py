"""The services of the sources that settings name, each with its limit, over one client."""

import re
from collections.abc import Iterator

import httpx2

import rowmill as rm
from rowmill_systems.entities.models import service_answers
from rowmill_systems.entities.settings import EntitiesSettings
from rowmill_systems.entities.sources import faults
from rowmill_systems.parts.services import open as parts
from rowmill_systems.parts.services.cache import AnswerCache
from rowmill_systems.parts.services.failures import requires_key
from rowmill_systems.parts.services.open import Address, HttpServices
from rowmill_systems.parts.services.settings import ServiceSettings

OWN_SOURCES = ("embedded", "wikidata", "dbpedia")
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
ADDRESS = re.compile(r"https?://[^/?#\s]+[^?#\s]*", re.IGNORECASE)


def service_settings(settings: EntitiesSettings) -> ServiceSettings:
    return ServiceSettings(
        application="entities",
        contact=settings.contact,
        contact_setting="ENTITIES_CONTACT",
        calls_per_second=settings.calls_per_second,
        concurrent_calls=settings.calls_at_once,
        call_seconds=settings.call_seconds,
        wait_seconds=settings.wait_seconds,
        cache_days=settings.cache_days,
        cache_no_match_days=settings.cache_no_match_days,
    )


def answer_cache(mill: rm.Mill) -> AnswerCache:
    return AnswerCache(mill, service_answers)


def declare_limits(settings: EntitiesSettings, mill: rm.Mill) -> dict[str, rm.limits.Limit]:
    """Declare a limit for each service, by its name. Limits that the mill has already stay as they are."""
    return parts.declare_limits(mill, [each.service for each in addresses(settings)], service_settings(settings))


def open_services(settings: EntitiesSettings, mill: rm.Mill, client: httpx2.AsyncClient | None = None) -> HttpServices:
    """Open the services of the sources that settings name, for the running loop."""
    limits = declare_limits(settings, mill)
    return parts.open_services(addresses(settings), limits, answer_cache(mill), service_settings(settings), client)


def addresses(settings: EntitiesSettings) -> list[Address]:
    """Return the addresses of the sources that the settings name."""
    named = [name.strip() for name in settings.sources.split(",") if name.strip()]
    found = []
    if "wikidata" in named:
        found.append(Address("wikidata", settings.wikidata_url, faults.of_mediawiki))
    if "dbpedia" in named:
        found.append(Address("dbpedia-lookup", settings.dbpedia_lookup_url, requires_key("docs")))
        found.append(Address("dbpedia-data", settings.dbpedia_data_url, faults.of_objects))
        if settings.dbpedia_spotlight_url:
            found.append(
                Address("dbpedia-spotlight", settings.dbpedia_spotlight_url, requires_key("annotation", "@text"))
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
