"""E7: how enrichment stands, and an entity queued again."""

import asyncio
import uuid

import pytest
import sqlalchemy as sa

import rowmill as rm
from systems.tests.entities.harness import FakeSource
from systems.tests.entities.served import served

ASKED = {"sources": "wikidata", "wikidata_url": "http://127.0.0.1:9/w/api.php"}


def fake_source() -> FakeSource:
    found = FakeSource()
    found.learn("Ada Lovelace", "Q7259", birth_date="1815-12-10")
    return found


async def test_the_numbers(database_url: str) -> None:
    wise = fake_source()
    async with served(database_url, wise) as harness:
        empty = await harness.get("/enrichment/stats")
        assert (empty["total_entities"], empty["success_rate"], empty["failure_rate"]) == (0, 0.0, 0.0)
        await harness.put_all(*({"name": name} for name in ("Ada Lovelace", "Nobody", "Somebody")))
        await harness.drain()
        wise.failure = rm.PermanentError("no", code="rejected")
        await harness.put("Hapless")
        await harness.drain()
        wise.failure = rm.TransientError("no", code="odd")
        await harness.put("Waiting")
        await harness.drain()
        found = await harness.get("/enrichment/stats")
        assert found["total_entities"] == 5
        assert {status: number for status, number in found["by_status"].items() if number} == {
            "COMPLETE": 3, "FAILED": 1, "LINK_FAILED": 1,
        }  # fmt: skip
        assert (found["success_rate"], found["failure_rate"]) == (0.6, 0.2), "of all"
        assert (found["pending"], found["in_progress"]) == (0, 0), "PENDING alone"
        assert found["average_processing_time_seconds"] > 0
        assert found["waiting_for"] == {"odd": 1}


async def test_what_is_in_progress_is_counted_as_such(database_url: str) -> None:
    wise = fake_source()
    wise.go.clear()
    async with served(database_url, wise) as harness:
        id = await harness.put("Ada Lovelace")
        async with harness.mill.worker() as worker:
            running = asyncio.create_task(worker.run())
            await wise.asking.wait()
            found = await harness.get("/enrichment/stats")
            assert (found["pending"], found["in_progress"], found["by_status"]["LINKING"]) == (0, 1, 1)
            busy = await harness.client.post(f"/enrichment/queue/{id}")
            assert (busy.status_code, busy.json()["code"]) == (409, "in_progress")
            wise.go.set()
            worker.stop()
            await running


async def test_why_entities_wait_is_said(database_url: str) -> None:
    async with served(database_url, fake_source(), **ASKED) as harness:
        [service] = (await harness.get("/enrichment/stats"))["services"]
        assert service == {"service": "wikidata", "available": True, "why": None, "until": None}
        await harness.entities.limits["wikidata"].park(600)
        [service] = (await harness.get("/enrichment/stats"))["services"]
        assert (service["available"], service["why"]) == (False, "parked")
        assert service["until"] is not None


@pytest.mark.parametrize("end", ["COMPLETE", "FAILED"])
async def test_an_entity_is_queued_again(database_url: str, end: str) -> None:
    wise = fake_source()
    wise.failure = rm.PermanentError("no", code="rejected") if end == "FAILED" else None
    async with served(database_url, wise) as harness:
        id = await harness.put("Ada Lovelace")
        await harness.drain()
        assert await harness.status(id) == end
        answer = await harness.client.post(f"/enrichment/queue/{id}")
        assert (answer.status_code, answer.json()) == (202, {"status": "queued", "entity_id": str(id)})
        row = await harness.entity(id)
        assert (row.enrichment_retry_count, row.enrichment_error, row.enriched_at) == (0, None, None)
        wise.failure = None
        await harness.drain()
        assert await harness.status(id) == "COMPLETE"


async def test_an_unknown_entity_is_404(database_url: str) -> None:
    async with served(database_url, fake_source()) as harness:
        answer = await harness.client.post(f"/enrichment/queue/{uuid.uuid4()}")
        assert (answer.status_code, answer.json()["code"]) == (404, "no_such_entity")
        odd = await harness.client.post("/enrichment/queue/a/b%20c%00")
        assert (odd.status_code, odd.json()["code"]) == (404, "no_such_entity")


@pytest.mark.parametrize("status", ["PENDING", "LINKED", "ENRICHED", "LINK_FAILED", "ENRICH_FAILED"])
async def test_one_that_waits_begins_anew(database_url: str, status: str) -> None:
    """Wherever it waits, and also where it is ready already."""
    async with served(database_url, fake_source()) as harness:
        id = await harness.put("Ada Lovelace")
        changed = {"enrichment_status": status, "enrichment_retry_count": 2, "enrichment_error": "odd"}
        await harness.execute(sa.update(harness.tables.entity).values(changed))
        answer = await harness.client.post(f"/enrichment/queue/{id}")
        assert answer.status_code == 202
        row = await harness.entity(id)
        assert (row.enrichment_status, row.enrichment_retry_count, row.enrichment_error) == ("PENDING", 0, None)
