"""Settling: each outcome is written where its lease still holds, and nowhere else."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Cancel, Dead, Done, Lease, Mill, Queue, Retry, RetryLater, Stage, States
from rowmill.maintenance import cleanup
from rowmill.model import lifecycle
from rowmill.model.judge import Verdict, judge
from tests.conformance.fleet import Member, fleet, jobs, worker


def plain(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs(Column("result", sa.Text)), states=States(cancelled="cancelled", waiting="waiting"))


def staged(mill: Mill) -> Queue[Any]:
    return mill.queue(
        jobs(Column("result", sa.Text)),
        stages=[Stage("first", "ready", "running"), Stage("second", "ready 2", "running 2")],
    )


MOVES: dict[str, Callable[[Lease[Any]], Verdict]] = {
    "done": lambda lease: Verdict(lease, lifecycle.DONE, values={"result": "stale"}),
    "again": lambda lease: Verdict(lease, lifecycle.AGAIN, 5.0, "again", "stale"),
    "park": lambda lease: Verdict(lease, lifecycle.PARK, 5.0, "park", "stale"),
    "dead": lambda lease: Verdict(lease, lifecycle.DIE, 0.0, "dead", "stale"),
    "abandon": lambda lease: Verdict(lease, lifecycle.ABANDON, 0.0, "cancelled", "stale"),
    "release": lambda lease: Verdict(lease, lifecycle.RELEASE),
    "hold": lambda lease: Verdict(lease, lifecycle.HOLD, 5.0, "limit_rate", "stale"),
}


async def lose(member: Member) -> None:
    """Let the lease of every running row go to waste, as a dead worker's would."""
    await member.expire()
    assert (await member.rescue()).returned


@pytest.mark.parametrize("move", MOVES)
async def test_a_stale_token_settles_nothing(database_url: str, move: str) -> None:
    """The row has been rescued and claimed by another: whatever the late worker says is refused."""
    async with fleet(database_url, plain, size=2) as [late, other]:
        await late.put({})
        [stale] = await late.claim()
        await lose(other)
        [held] = await other.claim()
        before = await other.row()
        settled = await late.store.settle([MOVES[move](stale)])
        assert (settled.kept, [verdict.lease for verdict in settled.lost]) == (0, [stale])
        assert await other.row() == before
        assert (await other.settle((held, {"result": "good"}))).kept == 1
        assert (await other.row()).result == "good"


@pytest.mark.parametrize("move", MOVES)
async def test_a_token_of_a_row_that_went_back_settles_nothing(database_url: str, move: str) -> None:
    """Rescued, and not claimed again yet: the lease is NULL, which is no token."""
    async with worker(database_url, plain) as member:
        await member.put({})
        [stale] = await member.claim()
        await lose(member)
        before = await member.row()
        assert before.lease is None
        assert (await member.store.settle([MOVES[move](stale)])).kept == 0
        assert await member.row() == before


async def test_a_stale_advance_is_refused(database_url: str) -> None:
    async with worker(database_url, staged) as member:
        await member.put({})
        [stale] = await member.claim()
        await lose(member)
        [held] = await member.claim()
        assert (await member.settle((stale, None))).kept == 0
        assert (await member.settle((held, None))).kept == 1
        assert (await member.row()).state == "ready 2"


async def test_a_lease_settles_once(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({})
        [lease] = await member.claim()
        assert (await member.settle((lease, {"result": "first"}))).kept == 1
        assert (await member.settle((lease, {"result": "second"}))).kept == 0
        assert (await member.settle((lease, Dead()))).kept == 0
        row = await member.row()
        assert (row.state, row.result, row.error) == ("done", "first", None)


async def test_the_same_lease_twice_in_one_batch_is_written_once(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({})
        [lease] = await member.claim()
        settled = await member.settle((lease, Done({"result": "a"})), (lease, Dead("late")))
        assert (settled.kept, len(settled.lost)) == (1, 1)
        assert (await member.row()).state == "done"


async def test_a_row_that_is_gone_is_lost(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({})
        [lease] = await member.claim()
        await member.sql("DELETE FROM jobs")
        settled = await member.settle((lease, {"result": "a"}))
        assert (settled.kept, len(settled.lost)) == (0, 1)


async def test_outcomes_of_every_shape_in_one_batch(database_url: str) -> None:
    """Some with values, some with others, some failed: each row gets its own."""
    async with worker(database_url, plain) as member:
        await member.put(*({"title": str(n)} for n in range(8)))
        leases = await member.claim(10)
        answers: list[Any] = [
            None,
            {"result": "a"},
            {"result": "b", "title": "new"},
            {"title": "new", "result": "c"},
            RetryLater(30, "busy", "come back"),
            Dead("broken", "no use"),
            Cancel("not wanted"),
            RetryLater(0, "later", count_attempt=False),
        ]
        settled = await member.settle(*zip(leases, answers, strict=True))
        assert (settled.kept, settled.lost, settled.refused) == (8, [], [])
        rows = await member.rows()
        assert [row.state for row in rows] == [
            "done", "done", "done", "done", "waiting", "dead", "cancelled", "waiting",
        ]  # fmt: skip
        assert [row.result for row in rows] == [None, "a", "b", "c", None, None, None, None]
        assert [row.title for row in rows] == ["0", "1", "new", "new", "4", "5", "6", "7"]
        assert [row.error for row in rows[4:]] == [
            "busy: come back",
            "broken: no use",
            "cancelled: not wanted",
            "later",
        ]
        assert [row.attempts for row in rows] == [1, 1, 1, 1, 1, 1, 1, 0]
        assert all(row.lease is None and row.leased_until is None for row in rows)
        assert [row.finished_at is not None for row in rows] == [True] * 4 + [False, True, True, False]


async def test_lost_and_kept_are_told_apart_within_a_batch(database_url: str) -> None:
    async with fleet(database_url, plain, size=2) as [late, other]:
        await late.put(*({"title": str(n)} for n in range(9)))
        leases = await late.claim(9)
        stolen = {leases[n].key for n in (0, 4, 8)}
        await late.sql(f"UPDATE jobs SET lease = 1 WHERE id IN ({', '.join(map(str, stolen))})")
        settled = await late.settle(*((lease, {"result": lease.row.title}) for lease in leases))
        assert settled.kept == 6
        assert {verdict.lease.key for verdict in settled.lost} == stolen
        rows = await other.rows()
        assert [row.result for row in rows] == [None if row.id in stolen else row.title for row in rows]


async def test_values_go_to_their_own_rows(database_url: str) -> None:
    """A batch of hundreds, in an order that is not that of the keys."""
    async with worker(database_url, plain) as member:
        await member.queue.load([{"title": str(n)} for n in range(500)])
        leases = await member.claim(500)
        answers = [(lease, {"result": f"of {lease.row.title}"}) for lease in leases]
        assert (await member.settle(*reversed(answers))).kept == 500
        assert all(row.result == f"of {row.title}" for row in await member.rows())


async def test_workers_settle_each_other_s_neighbours_at_the_same_time(database_url: str) -> None:
    async with fleet(database_url, plain, size=4) as members:
        await members[0].queue.load([{"title": str(n)} for n in range(400)])

        async def work(member: Member) -> int:
            kept = 0
            while leases := await member.claim(10):
                kept += (await member.settle(*((lease, {"result": str(member.store.worker)}) for lease in leases))).kept
            return kept

        assert sum(await asyncio.gather(*(work(member) for member in members))) == 400
        assert {row.state for row in await members[0].rows()} == {"done"}


async def test_every_settle_leaves_a_receipt(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put(*({} for _ in range(5)))
        a, b, c, d, e = await member.claim(5)
        await member.settle((a, None), (b, None), (c, Dead("x")))
        await member.sql(f"UPDATE jobs SET lease = NULL WHERE id = {d.key}")
        await member.settle((d, None), (e, None))
        receipts = await member.own("receipt")
        assert sorted((r.move, r.rows) for r in receipts) == [("dead", 1), ("done", 1), ("done", 2)]
        assert {(r.worker, r.queue, r.stage) for r in receipts} == {(member.store.worker, "jobs", "work")}
        assert len({r.flush for r in receipts}) == 3


async def test_the_same_columns_in_another_order_are_settled_together(database_url: str) -> None:
    """Statements are kept: one for every order of columns would be more than anyone can keep."""
    async with worker(
        database_url, lambda mill: mill.queue(jobs(Column("a", sa.Text), Column("b", sa.Text)))
    ) as member:
        await member.put({}, {})
        first, second = await member.claim(2)
        await member.settle((first, {"a": "1a", "b": "1b"}), (second, {"b": "2b", "a": "2a"}))
        assert [(row.a, row.b) for row in await member.rows()] == [("1a", "1b"), ("2a", "2b")]
        assert [receipt.rows for receipt in await member.own("receipt")] == [2]


async def test_a_settle_whose_answer_was_lost_is_not_taken_for_a_lost_lease(pg_url: str) -> None:
    """The statement was carried out, then the connection broke: the second try finds its own receipt."""
    import asyncpg

    async with worker(pg_url, plain) as member:
        await member.put({}, {})
        leases = await member.claim(2)
        line = member.store.settles._first  # type: ignore[attr-defined]
        connection = await line.connect()
        fetch = connection.fetch
        broken: list[bool] = []

        async def break_after(*given: Any) -> Any:
            found = await fetch(*given)
            if not broken:
                broken.append(True)
                raise asyncpg.ConnectionDoesNotExistError("cut")
            return found

        line._connection = Proxy(connection, break_after)
        settled = await member.settle(*((lease, {"result": "a"}) for lease in leases))
        await connection.close()
        assert (settled.kept, settled.lost, broken) == (2, [], [True])
        assert [row.result for row in await member.rows()] == ["a", "a"]
        assert len(await member.own("receipt")) == 1


async def test_a_settle_whose_answer_was_lost_is_known_after_a_long_silence(pg_url: str) -> None:
    """The worker was cut off for an hour. Other workers did the upkeep meanwhile, and its last receipt is still there;
    transactions of handlers, which went on for a while, do not push it out."""
    import asyncpg

    async with worker(pg_url, plain) as member:
        await member.put(*({} for _ in range(30)))
        leases = await member.claim(30)
        line = member.store.settles._first  # type: ignore[attr-defined]
        connection = await line.connect()
        fetch = connection.fetch

        async def break_after(*given: Any) -> Any:
            await fetch(*given)
            verdicts = [judge(lease, None, 0.0) for lease in leases[2:]]
            kept: list[int] = []
            for verdict in verdicts:
                transaction = await member.store.begin()
                await transaction.finish([verdict], lambda settled: kept.append(settled.kept))
                await transaction.close()
            assert sum(kept) == len(verdicts)
            await member.sql("UPDATE rowmill.receipt SET at = at - interval '1 hour'")
            await member.sql("UPDATE rowmill.worker SET seen_at = seen_at - interval '1 hour'")
            assert await member.mill.run(cleanup.roll_up) == len(verdicts)
            raise asyncpg.ConnectionDoesNotExistError("cut")

        line._connection = Proxy(connection, break_after)
        settled = await member.settle(*((lease, {"result": "a"}) for lease in leases[:2]))
        await connection.close()
        assert (settled.kept, settled.lost) == (2, [])


class Proxy:
    """A connection with another `fetch`."""

    def __init__(self, connection: Any, fetch: Any) -> None:
        self._connection = connection
        self.fetch = fetch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


async def test_a_failure_is_cut_to_what_the_error_column_takes(database_url: str) -> None:
    """A varchar(20) for the error and 5 for the code: the failure is written all the same."""
    from rowmill import Columns

    def declare(mill: Mill) -> Queue[Any]:
        table = jobs(Column("error", sa.String(20)), Column("code", sa.String(5)))
        return mill.queue(table, columns=Columns(error_code="code"), retry=Retry(attempts=1))

    async with worker(database_url, declare) as member:
        await member.put({})
        [lease] = await member.claim()
        settled = await member.settle((lease, Dead("a long code", "and a long message")))
        assert (settled.kept, settled.refused) == (1, [])
        row = await member.row()
        assert row.state == "dead"
        assert len(row.error) <= 20
        assert row.error.startswith("a long code: and a")
        assert len(row.code) <= 5


async def test_crash_words_are_cut_too(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(Column("error", sa.String(8))))

    async with worker(database_url, declare) as member:
        await member.put({})
        await member.claim()
        await lose(member)
        assert (await member.row()).error == "lease_ex"
