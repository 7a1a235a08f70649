"""E7: an entity that is queued again asks the services anew, unless it is told not to."""

from collections import Counter

from demos.entities.server import Server
from demos.entities.world import World
from rowmill_systems.entities.deciding import queue_again
from rowmill_systems.parts.names.types import EntityType
from systems.tests.entities.house import house_on
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
    async with house_on(database_url, **given) as house:
        [id, other] = await house.put_all(*({"name": person.name, "entity_type": "person"} for _ in range(2)))
        await house.drain()
        first = asked(server)
        assert (await house.entity(id)).wikidata_id == person.id
        assert any("wbsearchentities" in question for question in first)
        assert any("claims" in question for question in first)

        await queue_again(house.entities, id, fresh=False)
        await house.drain()
        assert asked(server) == first, "all answers were kept"

        await queue_again(house.entities, id)
        await house.drain()
        second = asked(server)
        assert {question for question in first if second[question] == first[question]} == set(), "all are asked again"
        assert max((second - first).values()) == 1, "and each of them once, though two stages need it"

        await queue_again(house.entities, other, fresh=False)
        await house.drain()
        assert asked(server) == second, "what was answered anew is kept for all"
        assert await house.bench.states(house.entities.queue) == {"COMPLETE": 2}
