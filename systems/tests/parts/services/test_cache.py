"""Answers that were given are not asked for again, by nobody in the fleet, for as long as they hold."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

import rowmill as rm
from demos.entities.server import Server
from demos.entities.world import World
from rowmill_systems.entities.models import service_answers
from rowmill_systems.entities.services import answer_cache, open_services
from rowmill_systems.entities.sources.wikidata import WikidataSource
from rowmill_systems.parts.names.types import EntityType
from systems.tests.entities.services import PERSON, kept, mill_on, services_on, settings_for

HOSTILE = "a\x00b\ud800c"


def no_match(answer: Any) -> bool:
    return not answer["search"]


async def age(mill: rm.Mill, days: float) -> None:
    """As if so much time had passed."""

    def move(connection: sa.Connection) -> None:
        for row in connection.execute(sa.select(service_answers.c.question, service_answers.c.expires_at)).all():
            of = sa.update(service_answers).where(service_answers.c.question == row.question)
            connection.execute(of.values(expires_at=row.expires_at - timedelta(days=days)))

    await mill.run(move)


async def test_an_answer_is_kept_for_the_fleet(server: Server, database_url: str, world: World) -> None:
    """E9."""
    question = PERSON | {"search": next(iter(world.things.values())).name}
    async with services_on(server, database_url) as (services, mill):
        first = await services["wikidata"].get("", question, nothing=no_match)
        again = await services["wikidata"].get("", dict(reversed(question.items())), nothing=no_match)
        async with mill_on(database_url) as other:
            elsewhere = open_services(settings_for(server, database_url), other)
            assert await elsewhere["wikidata"].get("", question, nothing=no_match) == first == again
            await elsewhere.close()
        assert first["search"]
        assert [days for _, days in await kept(mill)] == [7.0]
        assert len(server.counts["wikidata"].arrivals) == 1
        await age(mill, 7.001)
        await services["wikidata"].get("", question, nothing=no_match)
        assert len(server.counts["wikidata"].arrivals) == 2, "it holds no longer"
        assert len(await kept(mill)) == 1


async def test_an_answer_that_cannot_be_kept_is_an_answer(
    server: Server, sqlite_url: str, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    thing = world.of_type(EntityType.PERSON)[0]
    full = "CREATE TRIGGER full BEFORE INSERT ON entity_service_answers BEGIN SELECT RAISE(ABORT, 'full'); END"
    async with services_on(server, sqlite_url) as (services, mill):
        await mill.run(lambda connection: connection.execute(sa.text(full)))
        found = await services["wikidata"].get("", PERSON | {"search": thing.name}, nothing=no_match)
        items = await WikidataSource(services["wikidata"]).facts(thing.id, EntityType.PERSON)
        assert found["search"]
        assert items
        assert await kept(mill) == []
    assert "1 answers of wikidata could not be stored" in caplog.text
    assert thing.name not in caplog.text


async def test_no_match_is_kept_shortly(server: Server, database_url: str) -> None:
    """E9."""
    async with services_on(server, database_url) as (services, mill):
        await services["wikidata"].get("", PERSON | {"search": "Nobody at all"}, nothing=no_match)
        assert [days for _, days in await kept(mill)] == [1.0]


async def test_what_is_kept_for_no_time_is_not_kept(server: Server, sqlite_url: str) -> None:
    async with services_on(server, sqlite_url, cache_days=0, cache_no_match_days=0) as (services, mill):
        for _ in range(2):
            await services["wikidata"].get("", PERSON | {"search": "A"})
        assert (await kept(mill), len(server.counts["wikidata"].arrivals)) == ([], 2)


async def test_the_same_by_get_and_by_post_and_at_another_service_are_different_questions(
    server: Server, sqlite_url: str
) -> None:
    async with services_on(server, sqlite_url) as (services, mill):
        await services["dbpedia-lookup"].get("", {"query": "x"})
        await services["dbpedia-lookup"].post("", {"query": "x"})
        await services["world"].get("", {"query": "x"})
        assert len(await kept(mill)) == 3


async def test_characters_that_no_database_takes(
    server: Server, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {"search": [{"id": HOSTILE, HOSTILE: [HOSTILE], "big": 10**40}], "success": 1}
    monkeypatch.setattr("demos.entities.server.dumped", lambda _: json_of(answer))
    async with services_on(server, database_url) as (services, mill):
        found = await services["wikidata"].get("", PERSON | {"search": HOSTILE})
        assert found["search"] == [{"id": "abc", "abc": ["abc"], "big": 10**40}]
        assert await services["wikidata"].get("", PERSON | {"search": HOSTILE}) == found
        assert len(await kept(mill)) == 1


def json_of(answer: Any) -> bytes:
    return json.dumps(answer).encode()


@pytest.mark.parametrize("body", [b"null", b'"text"', b"NaN", b'{"search": NaN}', b"[" * 100_000, b"", b"\xff{}"])
async def test_what_is_no_object_is_no_answer(
    server: Server, sqlite_url: str, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr("demos.entities.server.dumped", lambda _: body)
    async with services_on(server, sqlite_url) as (services, mill):
        with pytest.raises(rm.errors.ProviderDown):
            await services["wikidata"].get("", PERSON | {"search": "x"})
        assert await kept(mill) == []


async def test_expired_answers_are_forgotten_in_small_batches(server: Server, database_url: str) -> None:
    async with services_on(server, database_url) as (services, mill):
        lookup = services["dbpedia-lookup"]
        await asyncio.gather(*(lookup.get("", {"query": f"x{number}"}) for number in range(7)))
        assert await answer_cache(mill).delete_expired(batch=2) == 0
        await age(mill, 7.001)
        await lookup.get("", {"query": "fresh"})
        assert await answer_cache(mill).delete_expired(batch=2) == 7
        assert len(await kept(mill)) == 1
