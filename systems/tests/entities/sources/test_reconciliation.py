"""A service of the Reconciliation API, asked over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import rowmill as rm
from demos.entities.plan import Fault
from demos.entities.server import Server
from demos.entities.world import World
from rowmill_systems.entities.properties.catalogue import catalogue
from rowmill_systems.entities.sources.cells import value_of
from rowmill_systems.entities.sources.reconciliation import ReconciliationSource, called, types_in
from rowmill_systems.entities.things import Mention
from rowmill_systems.parts.names.types import EntityType
from systems.tests.entities.services import services_on


@pytest.fixture
async def source(server: Server, sqlite_url: str) -> AsyncIterator[ReconciliationSource]:
    async with services_on(server, sqlite_url) as (services, _):
        yield ReconciliationSource("world", services["world"])


@pytest.mark.parametrize("type", [*EntityType][:5])
async def test_a_candidate(source: ReconciliationSource, world: World, type: EntityType) -> None:
    for thing in world.of_type(type)[:4]:
        found = {each.id: each for each in await source.candidates(Mention(thing.name))}
        candidate = found[thing.id]
        assert (candidate.name, candidate.source, candidate.types) == (thing.name, "world", thing.types)
        assert (candidate.description, candidate.wikidata_id) == (thing.description, None)


async def test_ids_of_wikidata_and_of_dbpedia_are_known(
    source: ReconciliationSource, server: Server, world: World
) -> None:
    person = world.of_type(EntityType.PERSON)[3]
    server.reconciliation.identifier_space = "http://www.wikidata.org/entity/"
    [first, *_] = await source.candidates(Mention(person.name))
    assert first.wikidata_id == first.id


async def test_mentions_at_once_go_out_together(source: ReconciliationSource, server: Server, world: World) -> None:
    people = world.of_type(EntityType.PERSON)[:45]
    found = await asyncio.gather(*(source.candidates(Mention(each.name)) for each in people))
    assert all(each.id in [one.id for one in some] for each, some in zip(people, found, strict=True))
    assert len(server.counts["reconciliation"].arrivals) <= 1 + 4, "a manifest, and batches of twenty"


async def test_nobody(source: ReconciliationSource) -> None:
    assert await source.candidates(Mention("Qwertz Uiop")) == []
    assert await source.candidates(Mention(" ")) == []


@pytest.mark.parametrize("type", [*EntityType][:5])
async def test_facts(source: ReconciliationSource, world: World, type: EntityType) -> None:
    for thing in world.of_type(type)[:4]:
        facts = await source.facts(thing.id, type)
        told = {fact.property: fact.values for fact in facts}
        assert set(told) == set(thing.properties)
        assert {key: values for key, values in told.items() if key != "area"} == {
            key: values for key, values in thing.properties.items() if key != "area"
        }


async def test_facts_of_a_thing_that_is_gone(source: ReconciliationSource, server: Server) -> None:
    assert await source.facts("nobody", EntityType.PERSON) == []


async def test_a_service_that_only_reconciles(source: ReconciliationSource, server: Server, world: World) -> None:
    server.reconciliation.extends = False
    assert await source.facts(world.of_type(EntityType.PERSON)[0].id, EntityType.PERSON) == []


async def test_properties_are_not_asked_for_at_another_host(
    source: ReconciliationSource, server: Server, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = server.reconciliation.manifest
    monkeypatch.setattr(server.reconciliation, "manifest", lambda base: right("http://169.254.169.254"))
    with pytest.raises(rm.PermanentError, match="another host"):
        await source.facts(world.of_type(EntityType.PERSON)[0].id, EntityType.PERSON)


@pytest.mark.parametrize("calls", [0, 1])
async def test_nothing_is_concluded_from_a_failure(source: ReconciliationSource, server: Server, calls: int) -> None:
    server.plan.next["reconciliation"] = [*[""] * calls, Fault.CUT]
    with pytest.raises(rm.errors.ProviderDown):
        await source.candidates(Mention("Ada"))


@pytest.mark.parametrize(
    ("given", "types"),
    [
        ([{"id": "Q5", "name": "human"}], {"person"}), (["Q5"], {"person"}), ([{"id": "Person"}], {"person"}),
        ([{"id": "x7", "name": "thingummy", "broader": [{"id": "Q515", "name": "city"}]}], {"place"}),
        ([], set()), (None, set()), ([None, 7], set()),
    ],
)  # fmt: skip
def test_types(given: Any, types: set[str]) -> None:
    assert set(types_in(given)) == types


@pytest.mark.parametrize(
    ("kind", "cell", "value"),
    [
        ("date", {"date": "1815-12-10T00:00:00+00:00"}, "1815-12-10"), ("date", {"str": "1815"}, "1815"),
        ("number", {"int": 7}, 7), ("number", {"str": "7.5"}, 7.5), ("number", {"str": "many"}, None),
        ("number", {"bool": True}, None), ("thing", {"id": "a", "name": "A"}, {"id": "a", "label": "A"}),
        ("thing", {"str": "A"}, "A"), ("thing", {}, None), ("place", {"str": "52.5, 13.4"}, {"lat": 52.5, "lon": 13.4}),
        ("place", {"str": "here"}, None), ("amount", {"float": 2.5}, {"amount": 2.5, "unit": ""}),
        ("text", {"str": " "}, None), ("text", None, None), ("id", {"id": "a", "name": "A"}, None),
    ],
)  # fmt: skip
def test_values_of_each_kind(kind: Any, cell: Any, value: Any) -> None:
    assert value_of(kind, cell) == value


def test_what_others_call_our_properties() -> None:
    born = catalogue()["birth_date"]
    for given in ({"id": "P569"}, {"id": "birthDate"}, {"id": "birth_date"}, {"id": "x", "name": "Birth date"}):
        assert called(born, [{"id": "y", "name": "other"}, given]) == given["id"]
    assert called(born, [{"id": "y", "name": "other"}]) is None
