"""E7: an entity that is queued again asks the services anew, unless it is told not to."""

from collections import Counter

from demos.entities.server import Server
from demos.entities.world import World
from rowmill_systems.entities.deciding import queue_again
from rowmill_systems.parts.names.types import EntityType
from systems.tests.entities.harness import entities_on
from systems.tests.entities.services import settings_for


def asked(server: Server) -> Counter[str]:
    """How often each question was asked, of searches and of items."""
    found = Counter[str]()
    for count in server.counts.values():
        found += count.questions
    return found


async def test_both_stages_ask_anew_and_a_second_entity_does_not(
    database_url: str, server: Server, world: World
) -> None:
    person = world.of_type(EntityType.PERSON)[0]
    given = settings_for(server, database_url, sources="wikidata,dbpedia").model_dump(exclude={"database_url"})
    async with entities_on(database_url, **given) as harness:
        [id, other] = await harness.put_all(*({"name": person.name, "entity_type": "person"} for _ in range(2)))
        await harness.drain()
        first = asked(server)
        assert (await harness.entity(id)).wikidata_id == person.id
        assert any("wbsearchentities" in question for question in first)
        assert any("claims" in question for question in first)

        await queue_again(harness.entities, id, fresh=False)
        await harness.drain()
        assert asked(server) == first, "all answers were kept"

        await queue_again(harness.entities, id)
        await harness.drain()
        second = asked(server)
        assert {question for question in first if second[question] == first[question]} == set(), "all are asked again"
        assert max((second - first).values()) == 1, "and each of them once, though two stages need it"

        await queue_again(harness.entities, other, fresh=False)
        await harness.drain()
        assert asked(server) == second, "what was answered anew is kept for all"
        assert await harness.bench.states(harness.entities.queue) == {"COMPLETE": 2}
