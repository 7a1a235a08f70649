"""Whatever stands in an answer, a source finds its way in it, or says that the service could not be asked."""

import asyncio
import copy
import json
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

import rowmill as rm
from demos.entities.server import Server
from demos.entities.world import World
from rowmill_systems.entities.services import addresses, service_settings
from rowmill_systems.entities.settings import EntitiesSettings
from rowmill_systems.entities.sources.dbpedia import DbpediaSource
from rowmill_systems.entities.sources.port import KnowsWikidata, Source
from rowmill_systems.entities.sources.reconciliation import ReconciliationSource
from rowmill_systems.entities.sources.wikidata import WikidataSource
from rowmill_systems.entities.things import Mention
from rowmill_systems.parts.names.types import EntityType
from rowmill_systems.parts.services.calling import user_agent
from rowmill_systems.parts.services.http import HttpService
from systems.tests.entities.services import settings_for

TRIES, AT_ONCE = 300, 60
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 7.5, 10**400, "", "x", "9" * 5000, "+1E999", [], [None], [[]], [7], ["x"], {}, {"x": None},
    {"id": []}, {"value": {}}, [{"id": {}, "value": []}],
)  # fmt: skip


class Wire(httpx2.AsyncBaseTransport):
    """Passes questions on and remembers the answers; once it has `instead`, answers with those."""

    def __init__(self, onward: httpx2.AsyncBaseTransport | None, instead: Mapping[str, Any] | None = None) -> None:
        self._onward, self._instead = onward, instead
        self.answers: dict[str, Any] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        question = f"{request.method} {request.url} {(await request.aread()).decode()}"
        if self._instead is not None:
            found = self._instead.get(question)
            return (
                httpx2.Response(200, content=json.dumps(found)) if question in self._instead else httpx2.Response(503)
            )
        assert self._onward is not None
        response = await self._onward.handle_async_request(request)
        self.answers[question] = json.loads(await response.aread())
        return httpx2.Response(response.status_code, content=response.content)

    async def aclose(self) -> None:
        if self._onward is not None:
            await self._onward.aclose()


class NoMemory:
    async def find(self, service: str, questions: Sequence[str]) -> dict[str, Any]:
        return {}

    async def store(self, service: str, answers: Mapping[str, Any], days: float) -> None:
        json.dumps(answers, allow_nan=False)


class Unlimited:
    @asynccontextmanager
    async def call(self, *, wait: float) -> AsyncIterator[None]:
        yield


@asynccontextmanager
async def opened(name: str, settings: EntitiesSettings, wire: Wire) -> AsyncIterator[Source]:
    """A source that asks over this wire, with nothing between."""
    limit: Any = Unlimited()
    answers: Any = NoMemory()
    called = service_settings(settings)
    agent = {"User-Agent": user_agent(called)}
    async with httpx2.AsyncClient(transport=wire, headers=agent) as client:
        services = {
            each.service: HttpService(each.service, each.url, limit, client, answers, called, fault=each.fault)
            for each in addresses(settings)
        }
        match name:
            case "wikidata":
                yield WikidataSource(services["wikidata"])
            case "dbpedia":
                names = ("dbpedia-lookup", "dbpedia-spotlight", "dbpedia-data")
                yield DbpediaSource(*(services[each] for each in names))
            case _:
                yield ReconciliationSource("world", services["world"])
        for service in services.values():
            await service.close()


async def ask_everything(source: Source, mention: Mention) -> bool:
    """Whether there was an answer. Whatever comes of it can be kept and weighed."""
    try:
        found = await source.candidates(mention)
        for candidate in found:
            hash(candidate.name), hash(candidate.types), hash(candidate.aliases)
            json.dumps(candidate.facts, allow_nan=False)
        for id in [candidate.id for candidate in found][:1]:
            facts = await source.facts(id, mention.type)
            json.dumps([fact.values for fact in facts], allow_nan=False)
            if isinstance(source, KnowsWikidata):
                await source.wikidata_id(id)
    except rm.errors.WorkError:
        return False
    return True


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything within."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inside:
        yield (*path, name)
        yield from places(each, (*path, name))


def spoilt(answers: Mapping[str, Any], choice: random.Random) -> dict[str, Any]:
    """The same, with something odd in one place of one of them."""
    found = copy.deepcopy(dict(answers))
    question = choice.choice(sorted(found))
    if ways := list(places(found[question])):
        *way, last = choice.choice(ways)
        inside = found[question]
        for name in way:
            inside = inside[name]
        inside[last] = choice.choice(ODD)
    return found


@pytest.mark.parametrize("name", ["wikidata", "dbpedia", "world"])
@pytest.mark.parametrize("type", [EntityType.PERSON, EntityType.PLACE])
async def test_anything_in_an_answer(server: Server, world: World, name: str, type: EntityType) -> None:
    settings = settings_for(server)
    thing = world.of_type(type)[3]
    known = {key: list(values) for key, values in thing.properties.items()}
    mention = Mention(thing.name, type, f"{thing.name}, {thing.description}", known)
    right = Wire(httpx2.AsyncHTTPTransport())
    async with opened(name, settings, right) as source:
        assert await ask_everything(source, mention)
    choice = random.Random(f"{name} {type}")

    async def once() -> bool:
        wire = Wire(None, spoilt(right.answers, choice))
        async with opened(name, settings, wire) as source:
            return await ask_everything(source, mention)

    answered = 0
    for _ in range(TRIES // AT_ONCE):
        answered += sum(await asyncio.gather(*(once() for _ in range(AT_ONCE))))
    assert answered > TRIES / 2, "most of what is odd hides only itself"
