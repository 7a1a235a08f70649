"""One process of a fleet that asks as hard as it can: `python -m … database server number`."""

import asyncio
import sys

import rowmill as rm
from demos.entities.server import Server
from demos.entities.world import World
from rowmill_systems.entities.services import open_services
from systems.tests.entities.services import PERSON, settings_for

QUESTIONS, AT_ONCE = 5, 2
RATE = rm.limits.Rate(10, per=1.0, margin=2.0)
"""The machine may be busy: a second may pass between a grant and the call's arrival."""


async def main(database: str, address: str, number: str) -> None:
    server = Server(World())
    server.url = address
    mill = rm.Mill(database)
    async with mill.opened():
        mill.limit("entities-wikidata", rate=RATE, concurrent=AT_ONCE)
        given = settings_for(server, database, calls_at_once=AT_ONCE, wait_seconds=100.0)
        services = open_services(given, mill)
        asked = [services["wikidata"].get("", PERSON | {"search": f"{number}-{each}"}) for each in range(QUESTIONS)]
        await asyncio.gather(*asked)
        await services.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
