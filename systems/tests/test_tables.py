"""The five tables of requirements.md, declared as they are, through their whole lives, on both stores.

Each test names the requirements that it proves.
"""

import uuid
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

import rowmill as rm
from rowmill.operator.change import requeue
from rowmill.operator.filters import Filter
from rowmill.store.rescue import Rescued
from systems.tests.tables import articles, companies, entities, files, outbox
from tests.conformance.fleet import Member, fleet, worker


async def one(member: Member) -> Any:
    return await member.row()


async def enqueue_names(member: Member, *names: str) -> int:
    rows = [{"raw_name": name, "normalized_name": name.strip().lower()} for name in names]
    insert = member.queue.insert(rows, unique=["normalized_name"])
    return await member.mill.run(lambda connection: connection.execute(insert).rowcount)


async def test_companies_one_open_request_per_name(database_url: str) -> None:
    """C1: de-duplicated on enqueue while a request is open, `pending` or `processing`; open again after."""
    async with worker(database_url, companies) as member:
        assert await enqueue_names(member, "ACME", "Bolt") == 2
        assert await enqueue_names(member, " acme ", "Cog") == 1
        await member.claim(10)
        assert await enqueue_names(member, "acme") == 0
        assert {row.status for row in await member.rows()} == {"processing"}
        await member.sql(f"UPDATE {member.store.sql(member.queue).table} SET status = 'done'")
        assert await enqueue_names(member, "acme") == 1


async def test_companies_through_their_whole_life(database_url: str) -> None:
    """C1, C7: waits of 1, 5 minutes; the third failure is `failed`, permanent, and not touched again."""
    async with worker(database_url, companies) as member:
        await enqueue_names(member, "ACME", "Nobody")

        @member.queue.handler()
        async def resolve(request: rm.Lease[rm.Record]) -> dict[str, str]:
            if request.row.raw_name == "Nobody":
                raise rm.TransientError("the service is busy", code="eqc_503")
            return {"resolved_company_id": "C-1"}

        await member.bench.drain()
        acme, nobody = await member.rows()
        assert (acme.status, acme.resolved_company_id, acme.attempts) == ("done", "C-1", 1)
        assert (nobody.status, nobody.last_error) == ("pending", "eqc_503: the service is busy")
        for wait in (60, 300):
            await member.bench.advance(wait - 5)
            assert (await member.bench.drain()).claimed == 0
            await member.bench.advance(5)
            assert (await member.bench.drain()).claimed == 1
        _, nobody = await member.rows()
        assert (nobody.status, nobody.attempts) == ("failed", 3)
        await member.bench.advance(100_000)
        assert (await member.bench.drain()).claimed == 0


async def test_companies_left_in_progress_return_when_the_next_run_starts(database_url: str) -> None:
    """C8: marked `processing` before work; after 15 minutes a run that was interrupted loses nothing."""
    async with fleet(database_url, companies, size=2) as [interrupted, following]:
        await enqueue_names(interrupted, "ACME")
        await interrupted.claim()
        assert (await one(following)).status == "processing"

        @following.queue.handler()
        async def resolve(request: rm.Lease[rm.Record]) -> dict[str, str]:
            return {"resolved_company_id": f"C-{request.attempt}"}

        await following.bench.advance(14 * 60)
        assert (await following.bench.drain()).claimed == 0
        await following.bench.advance(61)
        report = await following.bench.drain()
        assert (report.rescued, report.done) == (1, 1)
        assert (await one(following)).resolved_company_id == "C-2"


async def test_failed_companies_can_be_put_back(database_url: str) -> None:
    """C14: all, or by filter, attempts at zero."""
    async with worker(database_url, companies) as member:
        await enqueue_names(member, "a", "b", "c")
        a, b, c = await member.claim(3)
        await member.settle((a, rm.Dead("not_found")), (b, rm.Dead("eqc_503")), (c, None))
        assert (await requeue(member.store, member.queue, Filter(error_code="eqc_503"))).rows == 1
        assert [row.status for row in await member.rows()] == ["failed", "pending", "done"]
        assert (await requeue(member.store, member.queue, Filter(states=("failed",)))).rows == 1
        rows = await member.rows()
        assert [(row.status, row.attempts, row.last_error) for row in rows[:2]] == [("pending", 0, None)] * 2


async def publish(member: Member, *articles: tuple[str, int, timedelta]) -> dict[str, uuid.UUID]:
    """Articles by title, priority and age, each with its place in the queue."""
    contents = member.queue.table.metadata.tables["contents"]
    keys = {title: uuid.uuid4() for title, _, _ in articles}
    now = datetime.now(UTC)

    def work(connection: sa.Connection) -> None:
        connection.execute(sa.insert(contents), [{"id": key, "title": title} for title, key in keys.items()])
        rows = [
            {"content_id": keys[title], "priority": priority, "created_at": now - age}
            for title, priority, age in articles
        ]
        connection.execute(member.queue.insert(rows))

    await member.mill.run(work)
    return keys


async def test_articles_by_priority_then_oldest_first(database_url: str) -> None:
    """A2, A3: priority, then oldest first; counted in `retry_count`."""
    async with worker(database_url, articles) as member:
        hour = timedelta(hours=1)
        keys = await publish(
            member, ("old", 0, 100 * hour), ("new", 10, hour), ("newer", 10, 0 * hour), ("middle", 5, 50 * hour)
        )
        titles = {key: title for title, key in keys.items()}
        leases = [lease for _ in range(5) for lease in await member.claim(1)]
        assert [titles[lease.row.content_id] for lease in leases] == ["new", "newer", "middle", "old"]
        assert {row.retry_count for row in await member.rows()} == {1}


async def test_articles_are_classified_in_batches_and_a_bad_one_fails_alone(database_url: str) -> None:
    """A2, A4, A5: ten at once; topics and completion in one transaction; three tries, then `failed`."""
    async with worker(database_url, articles) as member:
        contents = member.queue.table.metadata.tables["contents"]
        keys = await publish(member, *((f"article {n}", 0, timedelta(0)) for n in range(12)), ("bad", 0, timedelta(0)))
        sizes: list[int] = []

        @member.queue.batch_handler(size=10)
        async def classify(leases: list[rm.Lease[rm.Record]]) -> dict[Any, Any]:
            sizes.append(len(leases))
            failed: dict[Any, Any] = {}
            for lease in leases:
                if lease.row.content_id == keys["bad"]:
                    failed[lease.key] = rm.RetryLater(0, "model_failed")
                    continue
                async with lease.settling() as session:
                    chosen = sa.update(contents).where(contents.c.id == lease.row.content_id)
                    await session.execute(chosen.values(topics=["news"]))
            return failed

        await member.bench.drain()
        assert sizes[0] == 10
        rows = {row.content_id: row for row in await member.rows()}
        bad = rows.pop(keys["bad"])
        assert (bad.status, bad.retry_count, bad.error_message) == ("failed", 3, "model_failed")
        assert {(row.status, row.retry_count) for row in rows.values()} == {("completed", 1)}
        assert all(row.processed_at is not None for row in rows.values())
        topics = {row.title: row.topics for row in await member.read(sa.select(contents))}
        assert topics.pop("bad") is None
        assert set(map(str, topics.values())) == {"['news']"}


async def test_articles_deleted_while_queued_or_running(database_url: str) -> None:
    """A6: its row is gone with it, or `cancelled`; never an error loop."""
    async with worker(database_url, articles) as member:
        contents = member.queue.table.metadata.tables["contents"]
        keys = await publish(
            member, ("gone", 2, timedelta(0)), ("running", 1, timedelta(0)), ("unwanted", 0, timedelta(0))
        )

        async def delete(title: str) -> None:
            gone = sa.delete(contents).where(contents.c.id == keys[title])
            await member.mill.run(lambda connection: connection.execute(gone).close())

        @member.queue.handler(concurrency=1)
        async def classify(lease: rm.Lease[rm.Record]) -> Any:
            if lease.row.content_id == keys["running"]:
                await delete("running")
                return None
            return rm.Cancel("nobody wants it")

        await delete("gone")
        report = await member.bench.drain()
        assert (report.claimed, report.lost, report.cancelled) == (2, 1, 1)
        assert (await one(member)).status == "cancelled"
        assert (await member.bench.drain()).claimed == 0


def file(name: str, **more: Any) -> dict[str, Any]:
    return {"organization_id": 1, "project_id": 1, "filename": name, **more}


async def test_files_are_claimed_oldest_first_and_counted_at_the_claim(database_url: str) -> None:
    """F1, F3: NULL available first, then by time, then created_at; a claim counts and clears the error."""
    async with worker(database_url, files) as member:
        now = datetime.now(UTC)
        for name, available, created in (
            ("waited long", now - timedelta(hours=2), now),
            ("waited less", now - timedelta(hours=1), now - timedelta(days=9)),
            ("second", None, now),
            ("first", None, now - timedelta(days=1)),
            ("later", now + timedelta(hours=1), now - timedelta(days=9)),
        ):
            await member.put(file(name, processing_available_at=available, created_at=created, processing_error="old"))
        leases = [lease for _ in range(5) for lease in await member.claim(1)]
        assert [lease.row.filename for lease in leases] == ["first", "second", "waited long", "waited less"]
        claimed = [row for row in await member.rows() if row.filename != "later"]
        assert {(row.processing_status, row.processing_attempts, row.processing_error) for row in claimed} == {
            ("processing", 1, None)
        }
        assert all(row.processing_started_at is not None for row in claimed)


async def test_files_of_dead_workers_are_recovered(database_url: str) -> None:
    """F2, F3, F4: `processing` is a lease. Stale files go back as `stale_processing_requeued`, the third time they
    are `failed` as `stale_processing_max_attempts`; a bounded number per sweep; by the database's clock."""
    async with fleet(database_url, files, size=2) as [dead, keeper]:
        await dead.put(*(file(str(n)) for n in range(5)))
        await dead.claim(5)
        await keeper.bench.advance(15 * 60 - 5)
        assert await keeper.rescue() == Rescued()
        await keeper.bench.advance(6)
        assert [await keeper.rescue(most=2) for _ in range(4)] == [
            Rescued(returned=2),
            Rescued(returned=2),
            Rescued(returned=1),
            Rescued(),
        ]
        rows = await keeper.rows()
        assert {(row.processing_status, row.processing_attempts, row.processing_error) for row in rows} == {
            ("queued", 1, "stale_processing_requeued")
        }
        for _ in range(2):
            await dead.claim(5)
            await keeper.expire()
            await keeper.rescue()
        rows = await keeper.rows()
        assert {(row.processing_status, row.processing_attempts, row.processing_error) for row in rows} == {
            ("failed", 3, "stale_processing_max_attempts")
        }
        assert all(row.processed_at is not None for row in rows)


async def test_files_that_fail(database_url: str) -> None:
    """F5, F6, F7: typed errors with codes; 30, 60 seconds; permanent, or no attempts left: `failed` with
    processed_at; the error's text is cut."""
    async with worker(database_url, files) as member:
        await member.put(file("broken"), file("slow"))

        @member.queue.handler()
        async def ingest(lease: rm.Lease[rm.Record]) -> None:
            if lease.row.filename == "broken":
                raise rm.PermanentError("x" * 5000, code="empty_file")
            raise TimeoutError("no answer")

        await member.bench.drain()
        broken, slow = await member.rows()
        assert (broken.processing_status, broken.processing_attempts) == ("failed", 1)
        assert broken.processing_error.startswith("empty_file: xxx")
        assert len(broken.processing_error) <= 1000
        assert broken.processed_at is not None
        assert (slow.processing_status, slow.processing_error) == ("queued", "TimeoutError: no answer")
        for wait in (30, 60):
            await member.bench.advance(wait - 5)
            assert (await member.bench.drain()).claimed == 0
            await member.bench.advance(5)
            assert (await member.bench.drain()).claimed == 1
        _, slow = await member.rows()
        assert (slow.processing_status, slow.processing_attempts) == ("failed", 3)
        assert slow.processed_at is not None


async def test_the_backoff_of_files_is_capped() -> None:
    """F6: min(30·2^(n−1), 600)."""
    retry = rm.Retry(backoff=rm.exponential(30, cap=600))
    assert [retry.wait(n, 0.0) for n in range(1, 8)] == [30, 60, 120, 240, 480, 600, 600]


class Enrichment:
    """The handlers of the three stages."""

    def __init__(self, member: Member, **failures: int) -> None:
        self.calls: list[tuple[str, int]] = []
        self.failures = failures
        self.seen: list[str] = []
        self.member = member
        for stage in ("link", "enrich", "save"):
            member.queue.handler(stage=stage)(self.handle)

    async def handle(self, lease: rm.Lease[rm.Record]) -> Any:
        self.calls.append((lease.stage, lease.attempt))
        self.seen.append((await one(self.member)).enrichment_status)
        if self.failures.get(lease.stage, 0) > 0:
            self.failures[lease.stage] -= 1
            raise rm.TransientError("the service is busy", code=f"{lease.stage}_failed")
        match lease.stage:
            case "link":
                return (
                    {"wikidata_id": "Q42"}
                    if lease.row.name != "unknown"
                    else rm.Done({"note": "No external link found"}, finish=True)
                )
            case "enrich":
                assert lease.row.wikidata_id == "Q42"
                return {"properties": {"born": 1952}}
            case _:
                return None


async def test_entities_go_through_their_stages(database_url: str) -> None:
    """E1, E2: PENDING → LINKING → LINKED → ENRICHING → ENRICHED → COMPLETE."""
    async with worker(database_url, entities) as member:
        work = Enrichment(member)
        await member.put({"name": "Douglas Adams"})
        assert (await one(member)).enrichment_status == "PENDING"
        await member.bench.drain()
        row = await one(member)
        assert work.seen == ["LINKING", "ENRICHING", "SAVING"]
        assert (row.enrichment_status, row.wikidata_id, row.properties) == ("COMPLETE", "Q42", {"born": 1952})
        assert row.enriched_at is not None


async def test_a_retry_of_an_entity_resumes_at_the_stage_that_failed(database_url: str) -> None:
    """E2, E4: waits as ENRICH_FAILED, 1 s, then 2; a link that was found is not looked up again."""
    async with worker(database_url, entities) as member:
        work = Enrichment(member, enrich=2)
        await member.put({"name": "Douglas Adams"})
        await member.bench.drain()
        row = await one(member)
        assert (row.enrichment_status, row.enrichment_error) == ("ENRICH_FAILED", "enrich_failed: the service is busy")
        await member.bench.advance(1)
        await member.bench.drain()
        row = await one(member)
        assert (row.enrichment_status, row.enrichment_retry_count) == ("ENRICH_FAILED", 2)
        await member.bench.advance(2)
        await member.bench.drain()
        assert (await one(member)).enrichment_status == "COMPLETE"
        assert work.calls == [("link", 1), ("enrich", 1), ("enrich", 2), ("enrich", 3), ("save", 1)]


async def test_an_entity_that_can_t_be_linked(database_url: str) -> None:
    """E2, E4: LINK_FAILED while it waits; after three tries FAILED."""
    async with worker(database_url, entities) as member:
        Enrichment(member, link=9)
        await member.put({"name": "Douglas Adams"})
        states = []
        for _ in range(4):
            await member.bench.drain()
            row = await one(member)
            states.append((row.enrichment_status, row.enrichment_retry_count))
            await member.bench.advance(100)
        assert states == [("LINK_FAILED", 1), ("LINK_FAILED", 2), ("FAILED", 3), ("FAILED", 3)]


async def test_the_waits_of_entities() -> None:
    """E4: 1, 2, 4, 8 seconds by attempt."""
    assert [rm.steps(1, 2, 4, 8)(n) for n in range(1, 6)] == [1, 2, 4, 8, 8]


async def test_an_entity_without_a_link_is_complete(database_url: str) -> None:
    """E6: COMPLETE with the note "No external link found"."""
    async with worker(database_url, entities) as member:
        work = Enrichment(member)
        await member.put({"name": "unknown"})
        await member.bench.drain()
        row = await one(member)
        assert (row.enrichment_status, row.note) == ("COMPLETE", "No external link found")
        assert work.calls == [("link", 1)]


async def test_an_enriched_entity_can_be_queued_again(database_url: str) -> None:
    """E7: also an enriched one, retries at zero, from the first stage."""
    async with worker(database_url, entities) as member:
        Enrichment(member)
        await member.put({"name": "Douglas Adams"})
        await member.bench.drain()
        row = await one(member)
        await requeue(member.store, member.queue, Filter(keys=(str(row.id),)))
        row = await one(member)
        assert (row.enrichment_status, row.enrichment_retry_count) == ("PENDING", 0)
        await member.bench.drain()
        assert (await one(member)).enrichment_status == "COMPLETE"


def event(aggregate: str, number: int) -> dict[str, Any]:
    return {"event_type": "document.process", "aggregate_id": aggregate, "payload": {"number": number}}


async def test_a_business_change_and_its_event_are_one_transaction(database_url: str) -> None:
    """K1: both, or none."""
    async with worker(database_url, outbox) as member:
        documents = member.queue.table.metadata.tables["documents"]

        async def change(title: str, fail: bool) -> None:
            async with AsyncSession(member.store.engine) as session, session.begin():
                await session.execute(sa.insert(documents).values(title=title))
                await session.execute(member.queue.insert(event(title, 1)))
                if fail:
                    raise RuntimeError("changed my mind")

        with pytest.raises(RuntimeError):
            await change("undone", True)
        await change("done", False)
        assert [row.title for row in await member.read(sa.select(documents))] == ["done"]
        assert [lease.row.aggregate_id for lease in await member.claim(10)] == ["done"]


async def test_events_are_dispatched_in_order_per_aggregate(database_url: str) -> None:
    """K1, K2: first in, first out; strictly in order per aggregate, also past a failure; processed_at on success."""
    async with worker(database_url, outbox) as member:
        seen: defaultdict[str, list[int]] = defaultdict(list)

        @member.queue.handler(concurrency=4)
        async def dispatch(lease: rm.Lease[rm.Record]) -> Any:
            number = lease.row.payload["number"]
            if lease.row.aggregate_id == "a" and number == 2 and lease.attempt == 1:
                return rm.RetryLater(30, "busy")
            seen[lease.row.aggregate_id].append(number)
            return None

        await member.put(*(event(aggregate, number) for number in range(1, 5) for aggregate in "ab"))
        await member.bench.drain()
        assert seen == {"a": [1], "b": [1, 2, 3, 4]}
        await member.bench.advance(31)
        await member.bench.drain()
        assert seen == {"a": [1, 2, 3, 4], "b": [1, 2, 3, 4]}
        rows = await member.rows()
        assert {row.state for row in rows} == {2}
        assert all(row.processed_at is not None for row in rows)


async def test_an_event_is_dead_at_five_attempts_and_holds_its_aggregate(database_url: str) -> None:
    """K2, K3: a claim is an attempt, so that crashes count; dead events are kept and never retried by themselves."""
    async with worker(database_url, outbox) as member:
        await member.put(event("a", 1), event("a", 2))
        for attempt in range(5):
            [lease] = await member.claim(10)
            assert (lease.row.payload["number"], lease.attempt) == (1, attempt + 1)
            if attempt % 2:
                await member.settle((lease, rm.RetryLater(0, "x" * 5000)))
            else:
                await member.expire()
                await member.rescue()
        first, second = await member.rows()
        assert (first.state, first.attempts, second.state) == (3, 5, 0)
        assert len(first.last_error) <= 1000
        assert await member.claim(10) == []
        await requeue(member.store, member.queue, Filter(states=("3",)))
        [lease] = await member.claim(10)
        assert (lease.row.payload["number"], lease.attempt) == (1, 1)


async def test_events_are_cleaned_up_daily_by_their_age(database_url: str) -> None:
    """K7: daily at 03:00 UTC, processed events older than 7 days and dead ones older than 30, counts logged."""
    keep = rm.Retention(done=rm.days(7), dead=rm.days(30), cron="0 3 * * *", tz="UTC")
    async with worker(database_url, lambda mill: outbox(mill, keep)) as member:
        now, table = datetime.now(UTC), member.queue.table
        for state, days in ((2, 8), (2, 6), (3, 8), (3, 31), (0, 100)):
            aged = event("a", days) | {"state": state, "processed_at": now - timedelta(days=days)}
            await member.mill.run(lambda c, aged=aged: c.execute(sa.insert(table).values(aged)).close())  # type: ignore[misc]
        counted: list[tuple[Any, ...]] = []
        member.mill.observe(lambda name, said: counted.append((name, *said.values())) if name == "pruned" else None)

        timing = member.mill.find_schedule("prune outbox").timing
        assert (timing.text, timing.zone) == ("0 3 * * *", "UTC")
        await member.bench.tick("prune outbox")

        assert [row.payload["number"] for row in await member.rows()] == [6, 8, 100]
        assert counted == [("pruned", "outbox", "done", 1, 0), ("pruned", "outbox", "dead", 1, 0)]
