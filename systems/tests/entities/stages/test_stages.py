"""Entities on their way: PENDING → LINKING → LINKED → ENRICHING → ENRICHED → COMPLETE."""

import asyncio

import sqlalchemy as sa

import rowmill as rm
from rowmill.store.clock import as_moment
from rowmill.store.own.schema import own_tables
from rowmill.testing import QUICK
from rowmill_systems.entities.deciding import queue_again
from rowmill_systems.entities.models import EntityId
from systems.tests.entities.harness import EntitiesHarness, FakeSource, entities_on

ADA = {"birth_date": "1815-12-10", "birth_place": {"id": "Q84", "label": "London"}}


def fake_source() -> FakeSource:
    found = FakeSource()
    found.learn("Ada Lovelace", "Q7259", **ADA)
    return found


async def waits(harness: EntitiesHarness, id: EntityId) -> float:
    """Seconds between an entity's last failure and its next try, both by the database's clock."""
    attempt = own_tables(harness.mill.url.get_backend_name()).attempt
    wanted = sa.select(attempt.c.ended_at).where(attempt.c.key == str(id)).order_by(attempt.c.id.desc()).limit(1)
    [last] = await harness.read(wanted)
    waited = as_moment((await harness.entity(id)).enrichment_available_at), as_moment(last.ended_at)
    assert waited[0] is not None
    assert waited[1] is not None
    return round((waited[0] - waited[1]).total_seconds(), 1)


async def test_an_entity_is_linked_enriched_and_complete(database_url: str) -> None:
    """E1, E5."""
    wise = fake_source()
    async with entities_on(database_url, wise) as harness:
        id = await harness.put("Ada Lovelace", entity_type="person", properties={"occupation": ["poet"]})
        assert await harness.status(id) == "PENDING"
        await harness.drain()
        row = await harness.entity(id)
        assert (row.enrichment_status, row.enrichment_error) == ("COMPLETE", None)
        assert row.enriched_at is not None
        assert row.enrichment_retry_count == 0, "no try failed"
        assert (row.wikidata_id, row.linking_source, row.linking_label) == ("Q7259", "wikidata", "Ada Lovelace")
        assert row.linking_confidence >= harness.entities.settings.link_threshold
        assert row.enrichment_seconds > 0
        assert await harness.merged(id) == {
            "occupation": ["poet"], "birth_date": ["1815-12-10"], "birth_place": [{"id": "Q84", "label": "London"}],
        }  # fmt: skip
        assert row.properties == {"occupation": ["poet"]}, "what is local is not written to"
        assert await harness.history(id) == ["linked", "facts", "merged"]


async def test_an_entity_that_somebody_else_inserts_is_queued(database_url: str) -> None:
    """E1: by an INSERT of a name, and nothing else."""
    async with entities_on(database_url, fake_source()) as harness:
        await harness.execute(sa.text("INSERT INTO entities (entity_id, name) VALUES ('a/1', 'Ada Lovelace')"))
        await harness.drain()
        assert await harness.bench.states(harness.entities.queue) == {"COMPLETE": 1}


async def test_without_a_link_it_is_complete_and_says_so(database_url: str) -> None:
    """E6."""
    async with entities_on(database_url, fake_source()) as harness:
        id = await harness.put("Nobody at All", entity_type="person", properties={"birth_date": "1900"})
        await harness.drain()
        row = await harness.entity(id)
        assert (row.enrichment_status, row.enrichment_note) == ("COMPLETE", "No external link found")
        assert (row.wikidata_id, row.linking_confidence) == (None, None)
        assert await harness.merged(id) == {"birth_date": ["1900"]}


async def test_a_retry_resumes_at_the_stage_that_failed(database_url: str) -> None:
    """E2, E4: a link that was found is not looked up again; waits of 1, 2 s, then it has failed."""
    wise = fake_source()
    wise.failure, wise.failing = rm.TransientError("odd", code="odd_answer"), "facts"
    async with entities_on(database_url, wise) as harness:
        id = await harness.put("Ada Lovelace", entity_type="person")
        for attempt, wait in ((1, 1), (2, 2)):
            await harness.drain_until_asked(wise, "facts Q7259")
            row = await harness.entity(id)
            assert (row.enrichment_status, row.enrichment_retry_count) == ("ENRICH_FAILED", attempt)
            assert row.enrichment_error.startswith("odd_answer")
            assert await waits(harness, id) == wait
            await harness.bench.advance(wait)
        await harness.drain()
        row = await harness.entity(id)
        assert (row.enrichment_status, row.enrichment_retry_count, row.enriched_at) == ("FAILED", 3, None)
        assert wise.asked == ["candidates Ada Lovelace", *["facts Q7259"] * 3]


async def test_a_linking_that_fails_waits_as_such_and_is_tried_again(database_url: str) -> None:
    """E2."""
    wise = fake_source()
    wise.failure = rm.TransientError("odd", code="odd_answer")
    async with entities_on(database_url, wise) as harness:
        id = await harness.put("Ada Lovelace", entity_type="person")
        await harness.drain_until_asked(wise, "candidates Ada Lovelace")
        assert await harness.status(id) == "LINK_FAILED"
        wise.failure = None
        await harness.bench.advance(2)
        await harness.drain()
        row = await harness.entity(id)
        assert (row.enrichment_status, row.enrichment_retry_count) == ("COMPLETE", 0), "at its last stage none failed"


async def test_one_failed_try_at_the_last_stage_is_counted(database_url: str) -> None:
    """E1: a success after it leaves the count of failed tries as it is."""
    wise = fake_source()
    wise.failure, wise.failing = rm.TransientError("odd", code="odd_answer"), "candidates"
    async with entities_on(database_url, wise) as harness:
        id = await harness.put("Nobody at All")
        await harness.drain_until_asked(wise, "candidates Nobody at All")
        wise.failure = None
        await harness.bench.advance(2)
        await harness.drain()
        row = await harness.entity(id)
        assert (row.enrichment_status, row.enrichment_note) == ("COMPLETE", "No external link found")
        assert row.enrichment_retry_count == 1


async def test_the_states_are_written_as_it_happens(database_url: str) -> None:
    """E2, E3: whoever looks sees each entity where it is."""
    wise = fake_source()
    wise.learn("Charles Babbage", "Q46633")
    async with entities_on(database_url, wise) as harness:
        wise.go.clear()
        ada = await harness.put("Ada Lovelace", entity_type="person")
        async with harness.mill.worker(settings=QUICK) as worker:
            running = asyncio.create_task(worker.run())
            await wise.asking.wait()
            assert await harness.status(ada) == "LINKING"
            wise.stop_at = "facts"
            wise.go.set()
            while not any(asked.startswith("facts") for asked in wise.asked):
                wise.asking.clear()
                await wise.asking.wait()
            assert await harness.status(ada) == "ENRICHING"
            wise.go.set()
            while await harness.status(ada) != "COMPLETE":
                await asyncio.sleep(0.01)
            worker.stop()
            await running


async def test_fifty_at_once(database_url: str) -> None:
    """E3: batches of 50, run concurrently."""
    wise = fake_source()
    wise.go.clear()
    async with entities_on(database_url, wise) as harness:
        await harness.put_all(*({"name": f"Name {number}"} for number in range(120)))
        async with harness.mill.worker(settings=QUICK) as worker:
            running = asyncio.create_task(worker.run())
            while len(wise.asked) < 50:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)  # nothing says that something will not happen
            assert len(wise.asked) == 50
            wise.go.set()
            while (await harness.bench.states(harness.entities.queue)).get("COMPLETE") != 120:
                await asyncio.sleep(0.01)
            worker.stop()
            await running


async def test_a_second_run_changes_nothing(database_url: str) -> None:
    """E5."""
    async with entities_on(database_url, fake_source()) as harness:
        id = await harness.put("Ada Lovelace", entity_type="person", properties={"birth_date": "1816"})
        await harness.drain()
        before, facts, conflicts = await harness.entity(id), await harness.facts(id), await harness.conflicts(id)
        assert len(conflicts) == 1
        await queue_again(harness.entities, id)
        await harness.drain()
        after = await harness.entity(id)
        moved = {"enriched_at", "enrichment_seconds", "enrichment_available_at", "answers_since"}
        assert {key: value for key, value in after._mapping.items() if key not in moved} == {
            key: value for key, value in before._mapping.items() if key not in moved
        }
        assert await harness.facts(id) == facts
        assert await harness.conflicts(id) == conflicts
        assert await harness.history(id) == ["linked", "facts", "merged", "queued"]


async def test_another_link_takes_the_place_of_the_first_with_all_that_was_known(database_url: str) -> None:
    wise = fake_source()
    async with entities_on(database_url, wise) as harness:
        id = await harness.put("Ada Lovelace", entity_type="person")
        await harness.drain()
        wise.learn("Ada Lovelace", "Q99", death_date="1852-11-27")
        await queue_again(harness.entities, id)
        await harness.drain()
        assert (await harness.entity(id)).wikidata_id == "Q99"
        assert await harness.merged(id) == {"death_date": ["1852-11-27"]}
        wise.things.clear()
        await queue_again(harness.entities, id)
        await harness.drain()
        row = await harness.entity(id)
        assert (row.wikidata_id, row.enrichment_note) == (None, "No external link found")
        assert await harness.merged(id) == {}
        assert (await harness.history(id))[-3:] == ["unlinked", "facts", "merged"]


async def test_shutdown_in_the_middle(database_url: str) -> None:
    """E8: what runs finishes, what was not begun is ready, and nothing that is done is done again."""
    wise = fake_source()
    wise.go.clear()
    async with entities_on(database_url, wise, batch_size=5) as harness:
        await harness.put_all(*({"name": f"Name {number}"} for number in range(20)))
        async with harness.mill.worker(settings=QUICK) as worker:
            running = asyncio.create_task(worker.run())
            while len(wise.asked) < 5:
                await asyncio.sleep(0.01)
            worker.stop()
            wise.go.set()
            await running
        states = await harness.bench.states(harness.entities.queue)
        assert states == {"COMPLETE": 5, "PENDING": 15}
        first = list(wise.asked)
        await harness.drain()
        assert await harness.bench.states(harness.entities.queue) == {"COMPLETE": 20}
        assert sorted(wise.asked) == sorted({*wise.asked}), "nobody was asked twice"
        assert wise.asked[: len(first)] == first


async def test_local_facts_changed_while_it_is_enriched_are_the_ones_that_are_merged(database_url: str) -> None:
    wise = fake_source()
    async with entities_on(database_url, wise) as harness:
        id = await harness.put("Ada Lovelace", entity_type="person", properties={"birth_date": "1800"})
        wise.failing, wise.failure = "facts", rm.TransientError()
        await harness.drain()
        wise.failure = None
        entity = harness.tables.entity
        await harness.execute(sa.update(entity).where(entity.id == id).values(properties={"birth_date": "1815"}))
        await harness.bench.advance(2)
        await harness.drain()
        assert await harness.merged(id) == {"birth_date": ["1815"], "birth_place": [ADA["birth_place"]]}
        assert await harness.conflicts(id) == []


async def test_a_conflict_names_all_who_say_so_however_long_their_names_are(database_url: str) -> None:
    fake_sources = [FakeSource(letter * 60) for letter in "abc"]
    for fake_source, year in zip(fake_sources, ("1815", "1816", "1816"), strict=True):
        fake_source.learn("Ada Lovelace", "1", birth_date=year)
    async with entities_on(database_url, *fake_sources) as harness:
        id = await harness.put("Ada Lovelace", entity_type="person")
        linked = {"enrichment_status": "LINKED", "other_ids": {fake_source.name: "1" for fake_source in fake_sources}}
        await harness.execute(sa.update(harness.tables.entity).values(linked))
        await harness.drain()
        assert await harness.status(id) == "COMPLETE"
        [conflict] = await harness.conflicts(id)
        assert conflict.other_source == "+".join(["b" * 60, "c" * 60])
