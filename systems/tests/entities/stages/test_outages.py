"""A service that can't be asked: what that costs an entity."""

import pytest

import rowmill as rm
from rowmill_systems.entities.stages.outage import put_back
from systems.tests.entities.harness import FakeSource, entities_on

AWAY = {"sources": "wikidata", "wikidata_url": "http://127.0.0.1:9/w/api.php"}
"""It is declared, so that it has a limit; who answers is the sage."""


def fake_source() -> FakeSource:
    found = FakeSource()
    found.learn("Ada Lovelace", "Q7259", birth_date="1815-12-10")
    return found


@pytest.mark.parametrize(
    "failure",
    [
        rm.RateLimited(retry_after=30),
        rm.errors.ProviderRefused("no"),
        rm.errors.Limited("entities-wikidata", "", "parked", 30.0),
    ],
)
@pytest.mark.parametrize("stage", ["candidates", "facts"])
async def test_an_entity_waits_and_spends_no_attempt(database_url: str, failure: Exception, stage: str) -> None:
    """E2, E4: and is never complete because of it."""
    wise = fake_source()
    wise.failing, wise.failure = stage, failure
    async with entities_on(database_url, wise, **AWAY) as harness:
        id = await harness.put("Ada Lovelace", entity_type="person")
        for _ in range(5):
            await harness.drain()
            row = await harness.entity(id)
            assert row.enrichment_status in ("PENDING", "LINK_FAILED", "LINKED", "ENRICH_FAILED")
            assert row.enrichment_retry_count == 0
            assert row.enrichment_note is None
            await harness.bench.advance(3600)
        wise.failure = None
        await harness.drain()
        assert await harness.status(id) == "COMPLETE"
        assert await harness.merged(id) == {"birth_date": ["1815-12-10"]}


async def test_one_source_that_is_away_keeps_all_from_concluding(database_url: str) -> None:
    """E6: also where the other one has found somebody: who did not answer may have known better."""
    wise, other = fake_source(), FakeSource("dbpedia")
    other.failure = rm.errors.ProviderDown("away")
    async with entities_on(database_url, wise, other, **AWAY) as harness:
        id, nobody = await harness.put("Ada Lovelace", entity_type="person"), await harness.put("Nobody at All")
        await harness.drain()
        for each in (id, nobody):
            assert await harness.status(each) in ("PENDING", "LINK_FAILED")
        other.failure = None
        await harness.bench.advance(100)
        await harness.drain()
        assert await harness.status(id) == "COMPLETE"
        assert (await harness.entity(nobody)).enrichment_note == "No external link found"


async def test_failures_of_a_service_that_is_not_known_to_be_down_cost_attempts(database_url: str) -> None:
    """E4: 1, 2 seconds, three attempts, then FAILED."""
    wise = fake_source()
    wise.failure = rm.errors.ProviderDown("status 500")
    async with entities_on(database_url, wise, **AWAY) as harness:
        id = await harness.put("Ada Lovelace", entity_type="person")
        for attempt in (1, 2):
            await harness.drain_until_asked(wise, "candidates Ada Lovelace")
            row = await harness.entity(id)
            assert (row.enrichment_status, row.enrichment_retry_count) == ("LINK_FAILED", attempt)
            assert row.enrichment_error.startswith("provider_down")
            await harness.bench.advance(attempt)
        await harness.drain()
        assert await harness.status(id) == "FAILED"
        wise.failure = None
        await harness.entities.queue.requeue(id, to_stage="link")
        await harness.drain()
        assert await harness.status(id) == "COMPLETE"


@pytest.mark.parametrize(
    "failure",
    [
        rm.RateLimited(retry_after=30),
        rm.errors.ProviderRefused("no"),
        rm.errors.Limited("entities-wikidata", "", "open", 30.0),
    ],
)
async def test_all_of_them_can_be_counted(database_url: str, failure: Exception) -> None:
    """E4."""
    wise = fake_source()
    wise.failure = failure
    async with entities_on(database_url, wise, count_outages=True, max_attempts=2, **AWAY) as harness:
        id = await harness.put("Ada Lovelace", entity_type="person")
        for _ in range(2):
            await harness.drain()
            await harness.bench.advance(100)
        assert await harness.status(id) == "FAILED"


@pytest.mark.parametrize("count_outages", [True, False])
async def test_to_wait_for_room_in_a_limit_of_ours_is_no_failure(sqlite_url: str, count_outages: bool) -> None:
    async with entities_on(sqlite_url, fake_source(), count_outages=count_outages, **AWAY) as harness:
        full = rm.errors.Limited("entities-wikidata", "", "rate", 30.0)
        with pytest.raises(rm.errors.Limited):
            await put_back(harness.entities, full)


async def test_in_an_outage_nothing_is_counted(database_url: str) -> None:
    """E4: however long it lasts, the breaker of the whole fleet is open."""
    wise = fake_source()
    wise.failure = rm.errors.ProviderDown("away")
    async with entities_on(database_url, wise, **AWAY) as harness:

        async def open_breaker() -> None:
            for _ in range(5):
                with pytest.raises(rm.errors.ProviderDown):
                    async with harness.entities.limits["wikidata"].call():
                        raise rm.errors.ProviderDown("away")

        await open_breaker()
        id = await harness.put("Ada Lovelace", entity_type="person")
        for _ in range(5):
            await harness.drain()
            await harness.bench.advance(3600)
        row = await harness.entity(id)
        assert row.enrichment_retry_count == 0
        assert row.enrichment_status in ("PENDING", "LINK_FAILED")
