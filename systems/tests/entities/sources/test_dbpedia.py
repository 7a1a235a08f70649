"""DBpedia over HTTP: Lookup, Spotlight, resources."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

import rowmill as rm
from demos.entities.plan import Fault
from demos.entities.server import Server
from demos.entities.world import World
from rowmill_systems.entities.properties.catalogue import catalogue
from rowmill_systems.entities.sources.dbpedia import DbpediaSource, is_thing
from rowmill_systems.entities.sources.rdf import Resource
from rowmill_systems.entities.things import Mention
from rowmill_systems.parts.names.types import EntityType
from systems.tests.entities.services import services_on

ONTOLOGY = "http://dbpedia.org/ontology/"
ADA = "http://dbpedia.org/resource/Ada"


@pytest.fixture
async def dbpedia(server: Server, sqlite_url: str) -> AsyncIterator[DbpediaSource]:
    async with services_on(server, sqlite_url) as (services, _):
        yield DbpediaSource(services["dbpedia-lookup"], services["dbpedia-spotlight"], services["dbpedia-data"])


@pytest.mark.parametrize("type", [*EntityType][:5])
async def test_a_candidate(dbpedia: DbpediaSource, world: World, type: EntityType) -> None:
    """E9."""
    for thing in world.of_type(type)[:4]:
        found = {each.id: each for each in await dbpedia.candidates(Mention(thing.name))}
        candidate = found[thing.dbpedia_uri or ""]
        assert (candidate.name, candidate.types) == (thing.name, thing.types), "nothing stands in bold"
        assert (candidate.aliases, candidate.description) == (thing.aliases, thing.description)
        assert candidate.dbpedia_uri == thing.dbpedia_uri


async def test_spotlight_is_asked_where_there_is_a_context(
    dbpedia: DbpediaSource, world: World, server: Server
) -> None:
    person = world.of_type(EntityType.PERSON)[3]
    await dbpedia.candidates(Mention(person.name))
    assert not server.counts["dbpedia-spotlight"].arrivals
    await dbpedia.candidates(Mention(person.name, context=f"I met {person.name} there."))
    await dbpedia.candidates(Mention(person.name, context="We met there."))
    assert len(server.counts["dbpedia-spotlight"].arrivals) == 2


@pytest.mark.parametrize("asked", ["candidates", "annotate"])
async def test_whom_spotlight_knows_and_lookup_does_not(
    server: Server, sqlite_url: str, world: World, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setattr(server.dbpedia, "lookup", lambda given: {"docs": []})
    person, place = world.of_type(EntityType.PERSON)[3], world.of_type(EntityType.PLACE)[30]
    address = f"{server.url}/spotlight/en/{asked}"
    async with services_on(server, sqlite_url, dbpedia_spotlight_url=address) as (services, _):
        dbpedia = DbpediaSource(services["dbpedia-lookup"], services["dbpedia-spotlight"], services["dbpedia-data"])
        for context in (f"I met {person.name}.", f"I met {person.name} in {place.name}."):
            [found, *_] = await dbpedia.candidates(Mention(person.name, context=context))
            assert (found.id, found.name, found.types) == (person.dbpedia_uri, person.name, person.types)
        assert await dbpedia.candidates(Mention("Nobody", context="Nobody was there.")) == []


async def test_without_spotlight(server: Server, sqlite_url: str, world: World) -> None:
    person = world.of_type(EntityType.PERSON)[3]
    async with services_on(server, sqlite_url, dbpedia_spotlight_url="") as (services, _):
        dbpedia = DbpediaSource(services["dbpedia-lookup"], None, services["dbpedia-data"])
        assert await dbpedia.candidates(Mention(person.name, context="words"))
        assert "dbpedia-spotlight" not in services


@pytest.mark.parametrize("type", [*EntityType][:5])
async def test_facts(dbpedia: DbpediaSource, world: World, type: EntityType) -> None:
    """E9."""
    named = {key for key, each in catalogue().items() if each.dbpedia or key == "coordinates"}

    def told(value: Any) -> Any:
        """Other things by the names of their pages."""
        if not isinstance(value, dict) or "id" not in value:
            return value
        uri = world.things[value["id"]].dbpedia_uri
        return {"id": uri, "label": uri.rpartition("/")[2].replace("_", " ")} if uri else value["label"]

    for thing in world.of_type(type)[:10]:
        facts = await dbpedia.facts(thing.dbpedia_uri or "", type)
        expected = {key: tuple(map(told, values)) for key, values in thing.properties.items() if key in named}
        assert {fact.property: fact.values for fact in facts} == expected
        assert {fact.ref for fact in facts} <= {thing.dbpedia_uri}
        assert await dbpedia.wikidata_id(thing.dbpedia_uri or "") == thing.id


@pytest.mark.parametrize("uri", ["http://dbpedia.org/resource/Nobody", "http://elsewhere.example/Ada", "Ada", ""])
async def test_a_resource_that_is_not_there(dbpedia: DbpediaSource, uri: str) -> None:
    assert await dbpedia.facts(uri, None) == []
    assert await dbpedia.wikidata_id(uri) is None


async def test_a_redirect_is_followed_once(
    dbpedia: DbpediaSource, server: Server, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    person, right = world.of_type(EntityType.PERSON)[3], server.dbpedia.data
    old = {"http://dbpedia.org/resource/Old": moved(person.dbpedia_uri or "")}
    loop = {"http://dbpedia.org/resource/Loop": moved("http://dbpedia.org/resource/Loop")}
    monkeypatch.setattr(server.dbpedia, "data", lambda page: {"Old": old, "Loop": loop}.get(page) or right(page))
    facts = await dbpedia.facts("http://dbpedia.org/resource/Old", EntityType.PERSON)
    assert {fact.ref for fact in facts} == {person.dbpedia_uri}
    assert await dbpedia.facts("http://dbpedia.org/resource/Loop", EntityType.PERSON) == []


def moved(uri: str) -> dict[str, Any]:
    return {f"{ONTOLOGY}wikiPageRedirects": [{"type": "uri", "value": uri}]}


@pytest.mark.parametrize("service", ["dbpedia-lookup", "dbpedia-spotlight"])
async def test_nothing_is_concluded_from_a_failure(dbpedia: DbpediaSource, server: Server, service: str) -> None:
    server.plan.next[service] = [Fault.HTML]
    with pytest.raises(rm.errors.ProviderDown):
        await dbpedia.candidates(Mention("Ada", context="Ada was there"))


XSD = "http://www.w3.org/2001/XMLSchema#"


def literal(value: Any, datatype: str = "", **more: str) -> dict[str, Any]:
    return {"type": "literal", "value": value, "datatype": datatype, **more}


def uri(value: str) -> dict[str, Any]:
    return {"type": "uri", "value": value}


@pytest.mark.parametrize(
    ("key", "name", "given", "values"),
    [
        ("birth_date", "birthDate", [literal("1815"), literal("1815-12-10", f"{XSD}date")], ("1815-12-10",)),
        ("birth_date", "birthDate", [literal("--12-10", f"{XSD}gMonthDay")], ()),
        ("employees", "numberOfEmployees", [literal("1200", f"{XSD}nonNegativeInteger")], (1200,)),
        ("employees", "numberOfEmployees", [literal("about 1200")], ()),
        ("revenue", "revenue", [literal("5.0E9", "http://dbpedia.org/datatype/usDollar")],
         ({"amount": 5_000_000_000, "unit": "United States dollar"},)),
        ("revenue", "revenue", [literal("7", "http://dbpedia.org/datatype/poundSterling")],
         ({"amount": 7, "unit": "pound sterling"},)),
        ("area", "areaTotal", [literal(891_700_000.0, f"{XSD}double")],
         ({"amount": 891.7, "unit": "square kilometre"},)),
        ("occupation", "occupation", [uri(f"{ADA}__PersonFunction__1"), uri("http://dbpedia.org/resource/Poet")],
         ({"id": "http://dbpedia.org/resource/Poet", "label": "Poet"},)),
        ("occupation", "occupation", [literal("poet", lang="en"), literal("Dichter", lang="de")], ("poet",)),
        ("birth_place", "birthPlace", [uri("http://elsewhere.example/x")], ()),
        ("website", "homepage", [uri("http://x.example/"), uri("mailto:x@x.example")], ("http://x.example/",)),
        ("isbn", "isbn", [literal("978-3-16-148410-0")], ("978-3-16-148410-0",)),
    ],
)  # fmt: skip
def test_values_of_each_kind(key: str, name: str, given: list[Any], values: tuple[Any, ...]) -> None:
    found = Resource.of({ADA: {ONTOLOGY + name: given}, "http://dbpedia.org/resource/Other": {}}, ADA)
    assert found is not None
    assert found.values(catalogue()[key]) == values


@pytest.mark.parametrize(
    ("page", "thing"),
    [("Ada_Lovelace", True), ("Category:People", False), ("Ada_(disambiguation)", False), ("List_of_things", False),
     ("Lister", True), ("Template:Box", False)],
)  # fmt: skip
def test_pages_that_are_no_things(page: str, thing: bool) -> None:
    assert is_thing(f"http://dbpedia.org/resource/{page}") is thing
