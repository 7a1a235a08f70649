"""A service that can't be asked: what that costs an entity."""

import pytest

import rowmill as rm
from rowmill_systems.entities.stages.outage import put_back
from systems.tests.entities.house import Sage, house_on

AWAY = {"sources": "wikidata", "wikidata_url": "http://127.0.0.1:9/w/api.php"}
"""It is declared, so that it has a limit; who answers is the sage."""


def sage() -> Sage:
    found = Sage()
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
    wise = sage()
    wise.failing, wise.failure = stage, failure
    async with house_on(database_url, wise, **AWAY) as house:
        id = await house.put("Ada Lovelace", entity_type="person")
        for _ in range(5):
            await house.drain()
            row = await house.entity(id)
            assert row.enrichment_status in ("PENDING", "LINK_FAILED", "LINKED", "ENRICH_FAILED")
            assert row.enrichment_retry_count == 0
            assert row.enrichment_note is None
            await house.bench.advance(3600)
        wise.failure = None
        await house.drain()
        assert await house.status(id) == "COMPLETE"
        assert await house.merged(id) == {"birth_date": ["1815-12-10"]}


async def test_one_source_that_is_away_keeps_all_from_concluding(database_url: str) -> None:
    """E6: also where the other one has found somebody: who did not answer may have known better."""
    wise, other = sage(), Sage("dbpedia")
    other.failure = rm.errors.ProviderDown("away")
    async with house_on(database_url, wise, other, **AWAY) as house:
        id, nobody = await house.put("Ada Lovelace", entity_type="person"), await house.put("Nobody at All")
        await house.drain()
        for each in (id, nobody):
            assert await house.status(each) in ("PENDING", "LINK_FAILED")
        other.failure = None
        await house.bench.advance(100)
        await house.drain()
        assert await house.status(id) == "COMPLETE"
        assert (await house.entity(nobody)).enrichment_note == "No external link found"


async def test_failures_of_a_service_that_is_not_known_to_be_down_cost_attempts(database_url: str) -> None:
    """E4: 1, 2 seconds, three attempts, then FAILED."""
    wise = sage()
    wise.failure = rm.errors.ProviderDown("status 500")
    async with house_on(database_url, wise, **AWAY) as house:
        id = await house.put("Ada Lovelace", entity_type="person")
        for attempt in (1, 2):
            await house.drain_until_asked(wise, "candidates Ada Lovelace")
            row = await house.entity(id)
            assert (row.enrichment_status, row.enrichment_retry_count) == ("LINK_FAILED", attempt)
            assert row.enrichment_error.startswith("provider_down")
            await house.bench.advance(attempt)
        await house.drain()
        assert await house.status(id) == "FAILED"
        wise.failure = None
        await house.entities.queue.requeue(id, to_stage="link")
        await house.drain()
        assert await house.status(id) == "COMPLETE"


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
    wise = sage()
    wise.failure = failure
    async with house_on(database_url, wise, count_outages=True, max_attempts=2, **AWAY) as house:
        id = await house.put("Ada Lovelace", entity_type="person")
        for _ in range(2):
            await house.drain()
            await house.bench.advance(100)
        assert await house.status(id) == "FAILED"


@pytest.mark.parametrize("count_outages", [True, False])
async def test_to_wait_for_room_in_a_limit_of_ours_is_no_failure(sqlite_url: str, count_outages: bool) -> None:
    async with house_on(sqlite_url, sage(), count_outages=count_outages, **AWAY) as house:
        full = rm.errors.Limited("entities-wikidata", "", "rate", 30.0)
        with pytest.raises(rm.errors.Limited):
            await put_back(house.entities, full)


async def test_in_an_outage_nothing_is_counted(database_url: str) -> None:
    """E4: however long it lasts, the breaker of the whole fleet is open."""
    wise = sage()
    wise.failure = rm.errors.ProviderDown("away")
    async with house_on(database_url, wise, **AWAY) as house:

        async def open_breaker() -> None:
            for _ in range(5):
                with pytest.raises(rm.errors.ProviderDown):
                    async with house.entities.limits["wikidata"].call():
                        raise rm.errors.ProviderDown("away")

        await open_breaker()
        id = await house.put("Ada Lovelace", entity_type="person")
        for _ in range(5):
            await house.drain()
            await house.bench.advance(3600)
        row = await house.entity(id)
        assert row.enrichment_retry_count == 0
        assert row.enrichment_status in ("PENDING", "LINK_FAILED")
