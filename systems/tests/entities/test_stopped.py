"""E8: a worker that is told to stop in the middle, as an operator would: by SIGTERM, to a process."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from demos.entities.mentions import make_mentions
from demos.entities.plan import Plan
from demos.entities.server import Server, serving
from demos.entities.world import make_world
from systems.tests.entities.harness import EntitiesHarness, entities_on
from tests.support.python import Python

ENTITIES = 40
SOURCES = "wikidata,dbpedia"


@asynccontextmanager
async def a_worker(url: str, server: Server) -> AsyncIterator[Python]:
    given = {f"ENTITIES_{key.upper()}": str(value) for key, value in settings_of(server).items()}
    process = Python(
        "-m", "rowmill", "systems", "entities", "work", "--grace", "30",
        env={**os.environ, **given, "ENTITIES_DATABASE_URL": url},
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def settings_of(server: Server) -> dict[str, object]:
    urls = {key: value for key, value in server.settings.items() if key.endswith("_url")}
    return {**urls, "sources": SOURCES, "contact": "t@example.org", "calls_per_second": 500, "calls_at_once": 4,
            "batch_size": 10}  # fmt: skip


async def complete(harness: EntitiesHarness) -> int:
    return (await harness.bench.states(harness.entities.queue)).get("COMPLETE", 0)


async def test_what_runs_finishes_the_rest_is_ready_and_nobody_is_asked_twice(database_url: str) -> None:
    world = make_world(100)
    async with (
        serving(world, Plan(latency=0.02)) as server,
        entities_on(database_url, **settings_of(server)) as harness,
    ):
        mentions = [made.mention for made in make_mentions(world, ENTITIES)]
        await harness.put_all(*({"name": m.name, "entity_type": m.type, "context": m.context} for m in mentions))
        async with a_worker(database_url, server) as first:
            while not await complete(harness) >= 3:
                assert first.returncode is None
                await asyncio.sleep(0.02)
            first.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(first.wait, 60) == 0
        states = await harness.bench.states(harness.entities.queue)
        assert 3 <= states["COMPLETE"] < ENTITIES, "in the middle"
        waiting = {"PENDING", "LINKED", "ENRICHED", "LINK_FAILED", "ENRICH_FAILED"}
        assert set(states) <= {"COMPLETE", *waiting}, "nobody is left in the middle of a stage"
        async with a_worker(database_url, server) as second:
            while await complete(harness) < ENTITIES:
                assert second.returncode is None
                await asyncio.sleep(0.02)
        for service, count in server.counts.items():
            again = [question for question, times in count.answered.items() if times > 1]
            assert again == [], service
            assert [item for item, times in count.items.items() if times > 1] == [], service
