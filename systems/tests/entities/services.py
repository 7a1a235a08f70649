"""Services about a made-up world, and clients of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa

import rowmill as rm
from demos.entities.server import Server
from rowmill_systems.entities.models import service_answers
from rowmill_systems.entities.services import open_services
from rowmill_systems.entities.settings import EntitiesSettings
from rowmill_systems.parts.services.open import HttpServices

PERSON = {"action": "wbsearchentities", "language": "en", "maxlag": "5", "format": "json"}


def settings_for(server: Server, url: str = "sqlite://", **more: Any) -> EntitiesSettings:
    """That ask this server as fast as they can."""
    given: dict[str, Any] = {
        "database_url": url, "sources": "wikidata,dbpedia,world", "contact": "team@example.org",
        "calls_per_second": 1000.0, "calls_at_once": 4, "call_seconds": 20.0, "wait_seconds": 20.0,
    }  # fmt: skip
    return EntitiesSettings(**(given | server.settings | more))


@asynccontextmanager
async def mill_on(url: str) -> AsyncIterator[rm.Mill]:
    """With a place for answers."""
    mill = rm.Mill(url)
    async with mill.opened():
        await mill.migrate()
        await mill.run(make_tables)
        yield mill


def make_tables(connection: sa.Connection) -> None:
    service_answers.create(connection, checkfirst=True)


@asynccontextmanager
async def services_on(server: Server, url: str, **more: Any) -> AsyncIterator[tuple[HttpServices, rm.Mill]]:
    async with mill_on(url) as mill:
        services = open_services(settings_for(server, url, **more), mill)
        try:
            yield services, mill
        finally:
            await services.close()


async def kept(mill: rm.Mill) -> list[Any]:
    """Answers, with the days for which they hold."""
    rows = await mill.run(lambda connection: connection.execute(sa.select(service_answers)).all(), write=False)
    return [(row.answer, round((row.expires_at - row.answered_at).total_seconds() / 86400, 3)) for row in rows]
