"""A service that is away costs nothing but time."""

import pytest

import rowmill as rm
from rowmill.systems.entities.stages import outage
from tests.systems.entities.house import Sage, house_on

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
        rm.ProviderRefused("no"),
        rm.ProviderDown("away"),
        rm.Limited("entities-wikidata", "", "parked", 30.0),
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
    other.failure = rm.ProviderDown("away")
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


async def test_a_question_at_which_a_well_service_fails_again_and_again_ends(database_url: str) -> None:
    """E4: while others get their answers it is not an outage."""
    wise = sage()
    wise.failure = rm.ProviderDown("status 500")
    async with house_on(database_url, wise, **AWAY) as house:
        id = await house.put("Ada Lovelace", entity_type="person")
        for _ in range(outage.MOST_FAILURES):
            await house.drain()
            assert (await house.entity(id)).enrichment_retry_count == 0
            await house.bench.advance(100)
        for _ in range(3):
            await house.drain()
            await house.bench.advance(100)
        row = await house.entity(id)
        assert (row.enrichment_status, row.service_failures) == ("FAILED", 0), "who puts it back wants it tried anew"
        wise.failure = None
        await house.entities.queue.requeue(id, stage="link")
        await house.drain()
        assert ((await house.entity(id)).enrichment_status, (await house.entity(id)).service_failures) == (
            "COMPLETE",
            0,
        )


async def test_in_an_outage_nothing_is_counted(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it lasts: the breaker of the whole fleet is open."""
    wise = sage()
    wise.failure = rm.ProviderDown("away")
    async with house_on(database_url, wise, **AWAY) as house:

        async def open_breaker() -> None:
            for _ in range(5):
                with pytest.raises(rm.ProviderDown):
                    async with house.entities.limits["wikidata"].call():
                        raise rm.ProviderDown("away")

        await open_breaker()
        id = await house.put("Ada Lovelace", entity_type="person")
        for _ in range(3 * outage.MOST_FAILURES):
            await house.drain()
            await house.bench.advance(3600)
        row = await house.entity(id)
        assert (row.enrichment_retry_count, row.service_failures) == (0, 0)
        assert row.enrichment_status in ("PENDING", "LINK_FAILED")
