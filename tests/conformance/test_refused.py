"""Rows that the table does not let be claimed: they are stepped over, and keep no other."""

from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Lease, Mill, Order, OrderPerKey, Queue, Retry
from rowmill.errors import DeclarationError
from rowmill.store.refused_rows import MOST
from tests.conformance.fleet import Member, jobs, worker


def plain(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs(), retry=Retry(attempts=3))


def ranked(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs(Column("rank", sa.Integer, nullable=False)), order=Order(priority="rank"))


def per_owner(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs(Column("owner", sa.Text)), order_per_key=OrderPerKey(per="owner"))


def two_parts(mill: Mill) -> Queue[Any]:
    key = [Column("part", sa.Text, primary_key=True), Column("number", sa.Uuid, primary_key=True)]
    return mill.queue(jobs(key=key))


async def forbid(member: Member, raising: str = "ABORT") -> None:
    """A trigger of somebody's: a row that is called bad can't be changed."""
    if member.postgres:
        await member.sql(
            "CREATE FUNCTION forbid() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "IF OLD.title LIKE 'bad%' THEN RAISE EXCEPTION 'not this one: %', OLD.title; END IF; RETURN NEW; END $$"
        )
        await member.sql("CREATE TRIGGER forbid BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION forbid()")
    else:
        await member.sql(
            "CREATE TRIGGER forbid BEFORE UPDATE ON jobs WHEN OLD.title LIKE 'bad%' "
            f"BEGIN SELECT RAISE({raising}, 'not this one'); END"
        )


async def allow(member: Member) -> None:
    await member.sql("DROP TRIGGER forbid" + (" ON jobs" if member.postgres else ""))


def heard_by(member: Member) -> list[dict[str, Any]]:
    heard: list[dict[str, Any]] = []
    member.mill.observe(lambda event, fields: heard.append(dict(fields)) if event == "refused" else None)
    return heard


def titles(leases: list[Lease[Any]]) -> list[str]:
    return [lease.row.title for lease in leases]


@pytest.mark.parametrize("concurrency", [1, 50])
async def test_a_row_that_may_not_be_claimed_keeps_no_other(database_url: str, concurrency: int) -> None:
    async with worker(database_url, plain) as member:

        @member.queue.handler(concurrency=concurrency)
        async def work(lease: Lease[Any]) -> None:
            pass

        heard = heard_by(member)
        await member.put({"title": "bad"}, *({"title": "good"} for _ in range(30)), {"title": "bad"}, {"title": "good"})
        await forbid(member)
        report = await member.bench.drain()
        assert (report.done, report.lost) == (31, 0)
        rows = await member.rows()
        assert [(row.title, row.state, row.attempts) for row in rows if row.title == "bad"] == [("bad", "ready", 0)] * 2
        assert {row.state for row in rows if row.title == "good"} == {"done"}
        assert [fields["key"] for fields in heard] == [str(row.id) for row in rows if row.title == "bad"]
        kept = [(entry.key, entry.code, entry.attempt) for entry in await member.own("attempt")]
        assert kept == [(fields["key"], "claim_refused", 0) for fields in heard]


@pytest.mark.parametrize("place", [0, 1, 63, 99])
async def test_the_others_are_claimed_at_once_and_in_their_order(database_url: str, place: int) -> None:
    async with worker(database_url, plain) as member:
        names = [f"{n}" for n in range(100)]
        names[place] = "bad"
        await member.put(*({"title": title} for title in names))
        await forbid(member)
        assert titles(await member.claim(100)) == [title for title in names if title != "bad"]
        assert await member.claim(100) == []


async def test_it_is_said_once(database_url: str) -> None:
    """The reason is the database's word for it: never what is in the row, which the trigger's message may hold."""
    async with worker(database_url, plain) as member:
        heard = heard_by(member)
        await member.put({"title": "bad secret"}, {"title": "good"})
        await forbid(member)
        for _ in range(3):
            member.store.forget(member.queue)
            await member.claim()
        [fields] = heard
        assert set(fields) == {"queue", "stage", "key", "reason"}
        assert "secret" not in str(fields)
        assert len(await member.own("attempt")) == 1


async def test_it_comes_back_when_its_cause_is_mended(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({"title": "bad"}, {"title": "good"})
        await forbid(member)
        assert titles(await member.claim(2)) == ["good"]
        await allow(member)
        assert await member.claim(2) == [], "it is not tried with every claim"
        member.store.forget(member.queue)
        [lease] = await member.claim(2)
        assert (lease.row.title, lease.attempt) == ("bad", 1)
        assert (await member.settle((lease, None))).kept == 1


async def test_a_row_that_somebody_took_or_deleted_meanwhile_is_forgotten(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({"title": "bad"}, {"title": "bad"})
        await forbid(member)
        assert await member.claim(2) == []
        await allow(member)
        await member.sql("DELETE FROM jobs WHERE id = 1")
        await member.sql("UPDATE jobs SET state = 'done' WHERE id = 2")
        member.store.forget(member.queue)
        assert await member.claim(2) == []
        await member.sql("UPDATE jobs SET state = 'ready' WHERE id = 2")
        assert len(await member.claim(2)) == 1


@pytest.mark.parametrize("good", [0, 5])
async def test_a_table_that_refuses_many_is_at_odds_with_the_queue(database_url: str, good: int) -> None:
    """The worker says so and ends. Nothing is left in progress behind it."""
    async with worker(database_url, plain) as member:

        @member.queue.handler()
        async def work(lease: Lease[Any]) -> None:
            pass

        await member.put(*({"title": "good"} for _ in range(good)), *({"title": "bad"} for _ in range(MOST * 3)))
        await forbid(member)
        with pytest.raises(DeclarationError, match="the table refuses it"):
            await member.bench.drain()
        assert {row.state for row in await member.rows() if row.title == "bad"} == {"ready"}
        assert {row.state for row in await member.rows() if row.title == "good"} == ({"done"} if good else set())


async def test_rows_behind_the_watermark_are_taken_before_refused_ones_are_met(pg_url: str) -> None:
    async with worker(pg_url, plain) as member:
        await member.put({"id": 100, "title": "good"}, {"id": 101, "title": "good"})
        await member.claim()
        await member.put(*({"id": n, "title": "bad"} for n in range(1, MOST * 2)))
        await forbid(member)
        assert titles(await member.claim(5)) == ["good"]
        with pytest.raises(DeclarationError):
            await member.claim(5)


async def test_just_as_many_as_are_stepped_over(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put(*({"title": "bad"} for _ in range(MOST)), *({"title": "good"} for _ in range(30)))
        await forbid(member)
        assert titles(await member.claim(20)) == ["good"] * 20
        assert titles(await member.claim(20)) == ["good"] * 10


async def test_what_is_wrong_with_the_whole_table_is_said_at_once(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({"title": "good"})
        await member.claim()
        await member.sql("ALTER TABLE jobs RENAME COLUMN error TO fault")
        with pytest.raises(DeclarationError):
            await member.claim()


async def test_those_behind_it_in_the_order_of_its_key_wait(database_url: str) -> None:
    async with worker(database_url, per_owner) as member:
        await member.put(
            {"title": "bad", "owner": "a"},
            {"title": "behind", "owner": "a"},
            {"title": "first", "owner": "b"},
            {"title": "second", "owner": "b"},
            {"title": "bad", "owner": None},
            {"title": "nobody's", "owner": None},
        )
        await forbid(member)
        first = await member.claim(1)
        first += await member.claim(10)
        assert titles(first) == ["first", "nobody's"]
        await member.settle(*((lease, None) for lease in first))
        assert titles(await member.claim(1)) == ["second"]
        await allow(member)
        member.store.forget(member.queue)
        mended = await member.claim(10)
        assert titles(mended) == ["bad", "bad"]
        await member.settle(*((lease, None) for lease in mended))
        assert titles(await member.claim(10)) == ["behind"]


async def test_it_does_not_overtake_one_that_came_before_it_meanwhile(database_url: str) -> None:
    async with worker(database_url, per_owner) as member:
        await member.put({"id": 5, "title": "bad", "owner": "a"})
        await forbid(member)
        assert await member.claim(10) == []
        await member.put({"id": 1, "title": "earlier", "owner": "a"})
        await allow(member)
        member.store.forget(member.queue)
        assert titles(await member.claim(10)) == ["earlier"]


async def test_priorities(database_url: str) -> None:
    async with worker(database_url, ranked) as member:
        rows = [{"title": title, "rank": rank} for rank in (1, 3, 2) for title in ("bad", "good")]
        await member.put(*rows)
        await forbid(member)
        taken = [await member.claim(1) for _ in range(4)]
        assert [[lease.row.rank for lease in leases] for leases in taken] == [[3], [2], [1], []]


async def test_a_key_of_several_parts(database_url: str) -> None:
    async with worker(database_url, two_parts) as member:
        rows = [
            {"part": part, "number": UUID(int=number), "title": "bad" if (part, number) == ("b", 1) else "good"}
            for part in ("a", "b", "c")
            for number in (1, 2)
        ]
        await member.put(*rows)
        heard = heard_by(member)
        await forbid(member)
        taken = await member.claim(3) + await member.claim(3)
        assert [lease.key for lease in taken] == [
            (row["part"], row["number"]) for row in rows if row["title"] == "good"
        ]
        assert [fields["key"] for fields in heard] == [f"b|{UUID(int=1)}"]


async def test_a_check_that_old_rows_do_not_meet(pg_url: str) -> None:
    async with worker(pg_url, plain) as member:
        await member.put({"title": ""}, {"title": "good"})
        heard = heard_by(member)
        await member.sql("ALTER TABLE jobs ADD CONSTRAINT has_title CHECK (title <> '') NOT VALID")
        assert titles(await member.claim(2)) == ["good"]
        assert [fields["reason"] for fields in heard] == ["CheckViolationError (constraint has_title)"]
        await member.sql("ALTER TABLE jobs DROP CONSTRAINT has_title")
        member.store.forget(member.queue)
        assert titles(await member.claim(2)) == [""]


async def test_a_trigger_that_rolls_everything_back(sqlite_url: str) -> None:
    async with worker(sqlite_url, plain) as member:
        await member.put({"title": "a"}, {"title": "bad"}, {"title": "c"})
        await forbid(member, "ROLLBACK")
        assert titles(await member.claim(3)) == ["a", "c"]
        assert [row.state for row in await member.rows()] == ["running", "ready", "running"]


async def test_a_row_that_a_trigger_leaves_as_it_was_is_not_worked_on(pg_url: str) -> None:
    async with worker(pg_url, plain) as member:
        await member.put({"title": "bad"}, {"title": "good"})
        await member.sql(
            "CREATE FUNCTION leave() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "IF OLD.title = 'bad' THEN RETURN OLD; END IF; RETURN NEW; END $$"
        )
        await member.sql("CREATE TRIGGER leave BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION leave()")
        assert titles(await member.claim(2)) == ["good"]
