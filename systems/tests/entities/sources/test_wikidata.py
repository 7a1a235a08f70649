"""Wikidata over HTTP: who may be meant, and what is known of them."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

import rowmill as rm
from demos.entities.plan import Fault
from demos.entities.server import Server
from demos.entities.world import World
from rowmill_systems.entities.kb.thing import Thing
from rowmill_systems.entities.properties.catalogue import catalogue
from rowmill_systems.entities.sources.wikidata import WikidataSource, resource_of
from rowmill_systems.entities.things import Mention
from rowmill_systems.parts.names.types import EntityType
from systems.tests.entities.services import services_on


@pytest.fixture
async def wikidata(server: Server, sqlite_url: str) -> AsyncIterator[WikidataSource]:
    async with services_on(server, sqlite_url) as (services, _):
        yield WikidataSource(services["wikidata"], "de")


def some(world: World, type: EntityType, place: int = 5) -> Thing:
    return world.of_type(type)[place]


def asked(server: Server) -> list[dict[str, str]]:
    return [dict(json.loads(question)[1]) for question in server.counts["wikidata"].questions]


@pytest.mark.parametrize("type", [*EntityType][:5])
async def test_a_candidate(wikidata: WikidataSource, world: World, type: EntityType) -> None:
    """E9."""
    for thing in world.of_type(type)[:4]:
        found = {each.id: each for each in await wikidata.candidates(Mention(thing.name))}
        candidate = found[thing.id]
        assert (candidate.name, candidate.source, candidate.wikidata_id) == (thing.name, "wikidata", thing.id)
        assert (set(candidate.aliases), candidate.description) == (set(thing.aliases), thing.description)
        assert (candidate.types, candidate.dbpedia_uri) == (thing.types, thing.dbpedia_uri)
        assert 0 < candidate.prominence <= 1


async def test_it_is_found_by_an_alias_and_by_words_in_any_order(wikidata: WikidataSource, world: World) -> None:
    person = some(world, EntityType.PERSON)
    for name in (person.aliases[0], " ".join(reversed(person.name.split())), person.name.upper()):
        assert person.id in [each.id for each in await wikidata.candidates(Mention(name))]


async def test_pages_that_list_namesakes_are_no_candidates(wikidata: WikidataSource, world: World) -> None:
    pages = [each for each in world.things.values() if each.description == "disambiguation page"]
    assert pages
    for page in pages[:3]:
        found = [each.id for each in await wikidata.candidates(Mention(page.name))]
        assert len(found) > 1
        assert page.id not in found


async def test_names_of_other_things_are_asked_for_where_there_is_something_to_compare(
    wikidata: WikidataSource, world: World, server: Server
) -> None:
    person = some(world, EntityType.PERSON)
    [plain, *_] = [c for c in await wikidata.candidates(Mention(person.name)) if c.id == person.id]
    assert "birth_place" not in plain.facts
    assert plain.facts["birth_date"] == person.properties["birth_date"]
    assert not [one for one in asked(server) if one.get("props") == "labels"]
    known = {"birth_place": "Somewhere"}
    [compared, *_] = [c for c in await wikidata.candidates(Mention(person.name, known=known)) if c.id == person.id]
    assert compared.facts["birth_place"] == person.properties["birth_place"]


@pytest.mark.parametrize("type", [*EntityType][:5])
async def test_facts(wikidata: WikidataSource, world: World, type: EntityType) -> None:
    """E9: with deprecated claims among them, claims without a value, such that have ended, and older ones."""
    for thing in world.of_type(type)[:12]:
        facts = await wikidata.facts(thing.id, type)
        assert {fact.property: fact.values for fact in facts} == dict(thing.properties)
        assert {(fact.source, fact.ref) for fact in facts} == {("wikidata", thing.id)}


async def test_facts_of_another_type_are_left_out(wikidata: WikidataSource, world: World) -> None:
    person = some(world, EntityType.PERSON)
    assert {fact.property for fact in await wikidata.facts(person.id, EntityType.PLACE)} == {"instance_of"}
    assert "birth_date" in {fact.property for fact in await wikidata.facts(person.id, None)}


async def test_an_item_that_was_merged_into_another(wikidata: WikidataSource, world: World, server: Server) -> None:
    person = some(world, EntityType.PERSON)
    server.wikidata.redirects["Q999999999"] = person.id
    facts = await wikidata.facts("Q999999999", EntityType.PERSON)
    assert {fact.ref for fact in facts} == {person.id}
    assert len(facts) == len(person.properties)


@pytest.mark.parametrize("id", ["Q999999998", "Q0", "P31", "Q99999999999", "nonsense", "Q1|Q2", ""])
async def test_an_item_that_is_not_there(wikidata: WikidataSource, id: str) -> None:
    assert await wikidata.facts(id, None) == []


@pytest.mark.parametrize("name", ["", "  ", '"', "...", "Nobody of that name"])
async def test_nobody(wikidata: WikidataSource, name: str) -> None:
    assert await wikidata.candidates(Mention(name)) == []


@pytest.mark.parametrize("name", ["insource:/.*/", "haswbstatement:P31=Q5", "-Ada ~x*", "a" * 1000])
async def test_a_name_is_no_command(wikidata: WikidataSource, server: Server, name: str) -> None:
    await wikidata.candidates(Mention(name))
    [words] = [one["srsearch"] for one in asked(server) if "srsearch" in one]
    assert all(char.isalnum() or char == " " for char in words)
    assert len(words) <= 200


async def test_every_call_steps_back_when_databases_lag(wikidata: WikidataSource, server: Server, world: World) -> None:
    person = some(world, EntityType.PERSON)
    await wikidata.candidates(Mention(person.name))
    await wikidata.facts(person.id, None)
    assert {(one["maxlag"], one["format"], one["formatversion"]) for one in asked(server)} == {("5", "json", "2")}


async def test_many_at_once_share_their_calls(wikidata: WikidataSource, server: Server, world: World) -> None:
    people = world.of_type(EntityType.PERSON)[:40]
    await asyncio.gather(*(wikidata.candidates(Mention(each.name)) for each in people))
    await asyncio.gather(*(wikidata.facts(each.id, EntityType.PERSON) for each in people))
    count = server.counts["wikidata"]
    assert max(count.items.values()) == 1, "no id was asked for twice"
    assert all(len(one.get("ids", "").split("|")) <= 50 for one in asked(server))
    assert len([one for one in asked(server) if "ids" in one]) < 20


@pytest.mark.parametrize("calls", [0, 1, 2])
async def test_nothing_is_concluded_from_a_failure(
    wikidata: WikidataSource, server: Server, world: World, calls: int
) -> None:
    """E9."""
    server.plan.next["wikidata"] = [*[""] * calls, Fault.BROKEN]
    with pytest.raises(rm.errors.ProviderDown):
        await wikidata.candidates(Mention(some(world, EntityType.PERSON).name))


@pytest.mark.parametrize("odd", [{"entities": []}, {"query": {}}, {"search": [], "query": []}])
async def test_an_answer_to_another_question_is_none(
    wikidata: WikidataSource, server: Server, monkeypatch: pytest.MonkeyPatch, odd: Any
) -> None:
    monkeypatch.setattr(server.wikidata, "answer", lambda given: odd)
    with pytest.raises(rm.errors.ProviderDown):
        await wikidata.candidates(Mention("Ada"))
    with pytest.raises(rm.errors.ProviderDown):
        await wikidata.facts("Q42", None)


def test_names_of_pages_as_dbpedia_writes_them() -> None:
    assert resource_of("Ærø (island)") == "http://dbpedia.org/resource/Ærø_(island)"
    assert resource_of('100% "Wool"?') == "http://dbpedia.org/resource/100%25_%22Wool%22%3F"


def test_the_catalogue_knows_what_the_world_says(world: World) -> None:
    keys: set[Any] = {key for thing in world.things.values() for key in thing.properties}
    assert keys <= set(catalogue())
