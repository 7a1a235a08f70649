"""Rows that the table does not let be changed any more, after they were claimed once."""

from rowmill.store.own.history import crashed_keys
from rowmill.store.postgres.store import PostgresStore
from tests.conformance.fleet import worker
from tests.conformance.test_refused import allow, forbid, plain, titles


async def test_a_crash_is_remembered_through_a_refusal(database_url: str) -> None:
    """A row that may have killed its worker gets its last chance alone, whatever the table said in between."""
    async with worker(database_url, plain) as member:
        await member.put({"title": "bad"})
        await member.claim()
        await member.expire()
        await member.rescue()
        await forbid(member)
        assert await member.claim() == []
        await allow(member)
        member.store.forget(member.queue)
        leases = await member.claim()
        found = await member.store.run(lambda connection: crashed_keys(connection, member.queue, leases))
        assert found == {leases[0].key}


async def test_a_running_row_that_may_not_be_renewed_keeps_no_other(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put(*({"title": title} for title in ("a", "bad", "c", "lost")))
        leases = await member.claim(4)
        await member.sql("UPDATE jobs SET lease = NULL WHERE title = 'lost'")
        await member.bench.advance(30)
        before = {row.title: row.leased_until for row in await member.rows()}
        await forbid(member)
        assert titles((await member.store.renew(leases)).lost) == ["lost"]
        after = {row.title: row.leased_until for row in await member.rows()}
        assert {title for title in before if after[title] > before[title]} == {"a", "c"}


async def test_rows_of_an_unanswered_claim_that_may_not_go_back_do_not_end_the_worker(pg_url: str) -> None:
    """They come back by their leases."""
    async with worker(pg_url, plain) as member:
        await member.put({"title": "bad"}, {"title": "good"})
        [lease] = await member.claim()
        assert isinstance(member.store, PostgresStore)
        member.store._unanswered[lease.token] = (member.queue, member.queue.step(), float("inf"))
        await forbid(member)
        assert titles(await member.claim(2)) == ["good"]
        assert not member.store._unanswered
