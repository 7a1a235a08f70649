"""The links that healthy services would give, for comparison with a run through outages."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from demos.entities.mentions import Made
from demos.entities.server import Server, service_of
from demos.entities.wire import Request
from demos.entities.world import World
from rowmill_systems.entities.linking.linker import Linker
from rowmill_systems.entities.settings import EntitiesSettings
from rowmill_systems.entities.sources.dbpedia import DbpediaSource
from rowmill_systems.entities.sources.wikidata import WikidataSource
from rowmill_systems.parts.services.service import BatchQuery, never

AGENT = {"user-agent": "Rowmill/demo (calm)"}


class CalmService:
    """A Service without a network, which always replies."""

    def __init__(self, name: str, base: str, server: Server) -> None:
        self.name, self._base, self._server = name, base, server

    async def get(self, path: str, parameters: Mapping[str, str], *, nothing: Callable[[Any], bool] = never) -> Any:
        request = Request("GET", self._base + unquote(path), AGENT, dict(parameters), b"")
        return json.loads(self._server.right(request, service_of(request.path)).body)

    async def post(self, path: str, form: Mapping[str, str], *, nothing: Callable[[Any], bool] = never) -> Any:
        return await self.get(path, form)

    async def each(self, batch: BatchQuery, items: Sequence[str]) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        while left := [item for item in items if item not in found]:
            some = left[: batch.most]
            found |= batch.split(await self.get(batch.path, batch.join(some)), some)
        return found


async def calm_links(world: World, mentions: Sequence[Made]) -> list[str | None]:
    """Return the id for each mention, or None."""
    server, settings = Server(world), EntitiesSettings()

    def service(name: str, base: str) -> CalmService:
        return CalmService(name, base, server)

    wikidata = WikidataSource(service("wikidata", "/w/api.php"), settings.language)
    dbpedia = DbpediaSource(
        service("dbpedia-lookup", "/lookup/api/search"),
        service("dbpedia-spotlight", "/spotlight/en/candidates"),
        service("dbpedia-data", "/data"),
    )
    linker = Linker([wikidata, dbpedia], threshold=settings.link_threshold, gap=settings.link_gap)
    links = [(await linker.link(made.mention)).link for made in mentions]
    return [link.wikidata_id if link else None for link in links]
