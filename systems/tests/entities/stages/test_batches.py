"""Ids go to Wikidata many at a time, also while its limit lets calls through one by one."""

from demos.entities.mentions import make_mentions
from demos.entities.server import Server
from demos.entities.world import World
from systems.tests.entities.harness import entities_on
from systems.tests.entities.services import settings_for

ENTITIES = 83


async def test_the_ids_of_many_entities_are_asked_for_together(database_url: str, server: Server, world: World) -> None:
    """E3, E9."""
    given = settings_for(server, database_url, sources="wikidata", calls_at_once=1, wait_seconds=600.0)
    mentions = [made.mention for made in make_mentions(world, ENTITIES)]
    async with entities_on(database_url, **given.model_dump(exclude={"database_url"})) as harness:
        await harness.put_all(*({"name": m.name, "entity_type": m.type, "context": m.context} for m in mentions))
        await harness.drain()
        assert await harness.bench.states(harness.entities.queue) == {"COMPLETE": ENTITIES}
    count = server.counts["wikidata"]
    calls = sum(times for question, times in count.questions.items() if "wbgetentities" in question)
    assert count.most_at_once == 1
    assert max(count.items.values()) == 1, "and each once"
    assert calls <= ENTITIES / 4, f"{count.items.total()} ids in {calls} calls"
