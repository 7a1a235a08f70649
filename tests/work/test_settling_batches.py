"""`batch.settling()`: the writes of a batch handler and the outcomes of all its rows are one fenced transaction."""

import asyncio
import threading
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill import Batch, Dead, Done, Lease, Retry, fixed
from rowmill.errors import LeaseLost, TransactionMisused
from tests.work.shop import SECONDS, Shop, shop_on, until

LATER = Retry(attempts=3, backoff=fixed(3600.0))
KINDS = pytest.mark.parametrize("kind", ["async", "sync"])


def register(shop: Shop, kind: str, outcomes: Any = None, calls: list[int] | None = None, bad: int = 0) -> None:
    """A handler that writes the effects of its batch. One row may be bad: its batch fails."""
    insert = sa.insert(shop.effects)

    def effects(tx: Any) -> list[dict[str, int]]:
        if calls is not None:
            calls.append(len(tx.leases))
        if any(lease.key == bad for lease in tx.leases):
            raise ValueError("a bad row")
        return [{"job": lease.key} for lease in tx.leases]

    if kind == "sync":

        @shop.jobs.batch_handler(size=10)
        def work_sync(batch: Batch[Any]) -> None:
            with batch.settling(outcomes) as tx:
                tx.execute(insert, effects(tx))

    else:

        @shop.jobs.batch_handler(size=10)
        async def work(batch: Batch[Any]) -> None:
            async with batch.settling(outcomes) as tx:
                await tx.execute(insert, effects(tx))


@KINDS
async def test_the_writes_of_a_batch_and_its_rows_commit_together(database_url: str, kind: str) -> None:
    async with shop_on(database_url) as shop:
        calls: list[int] = []
        register(shop, kind, calls=calls)
        await shop.put(30)
        report = await shop.drain()

        assert report.settled == {"done": 30}
        assert await shop.states() == {"done": 30}
        assert await shop.effected() == list(range(1, 31))
        assert max(calls) > 1


@KINDS
async def test_an_outcome_for_each_row(database_url: str, kind: str) -> None:
    async with shop_on(database_url) as shop:
        register(shop, kind, outcomes={2: Dead("wrong"), 3: {"result": "kept"}})
        await shop.put(4)
        report = await shop.drain()

        rows = await shop.rows()
        assert {key: (row.state, row.result) for key, row in rows.items()} == {
            1: ("done", None), 2: ("dead", None), 3: ("done", "kept"), 4: ("done", None),
        }  # fmt: skip
        assert report.settled == {"done": 3, "dead": 1}
        assert await shop.failures(2) == [(1, "wrong")]


@KINDS
async def test_rows_that_are_gone_are_told_before_anything_is_written(database_url: str, kind: str) -> None:
    async with shop_on(database_url, retry=LATER) as shop:
        parts: list[tuple[list[int], list[int]]] = []
        insert = sa.insert(shop.effects)

        def of(tx: Any) -> list[dict[str, int]]:
            parts.append(([lease.key for lease in tx.leases], [lease.key for lease in tx.lost]))
            return [{"job": lease.key} for lease in tx.leases]

        if kind == "sync":
            loop = asyncio.get_running_loop()

            @shop.jobs.batch_handler(size=10)
            def work_sync(batch: Batch[Any]) -> None:
                asyncio.run_coroutine_threadsafe(shop.rob(2), loop).result(SECONDS)
                with batch.settling() as tx:
                    tx.execute(insert, of(tx))

        else:

            @shop.jobs.batch_handler(size=10)
            async def work(batch: Batch[Any]) -> None:
                await shop.rob(2)
                async with batch.settling() as tx:
                    await tx.execute(insert, of(tx))

        await shop.put(3)
        report = await shop.drain()

        assert parts == [([1, 3], [2])]
        assert await shop.effected() == [1, 3]
        assert (await shop.row(2)).lease == 77, "the other worker's claim is untouched"
        assert (report.done, report.lost) == (2, 1)


async def test_rows_of_a_block_can_not_be_taken_while_it_is_open(pg_url: str) -> None:
    """What the block was told stays true until it commits."""
    async with shop_on(pg_url) as shop:
        taken: list[str] = []

        @shop.jobs.batch_handler(size=10)
        async def work(batch: Batch[Any]) -> None:
            async with batch.settling():
                try:
                    await shop.run(
                        lambda c: c.execute(sa.text("SELECT 1 FROM job WHERE id = 1 FOR UPDATE NOWAIT")).all()
                    )
                except sa.exc.DBAPIError as error:
                    taken.append(type(error.orig.__cause__).__name__ if error.orig else "")

        await shop.put(2)
        report = await shop.drain()

        assert taken == ["LockNotAvailableError"]
        assert (report.done, report.lost) == (2, 0)


@KINDS
async def test_a_batch_of_which_nothing_is_left_is_refused(database_url: str, kind: str) -> None:
    async with shop_on(database_url) as shop:
        seen: list[str] = []
        loop = asyncio.get_running_loop()

        async def rob() -> None:
            await shop.rob(1)
            await shop.rob(2)

        if kind == "sync":

            @shop.jobs.batch_handler(size=10)
            def work_sync(batch: Batch[Any]) -> None:
                asyncio.run_coroutine_threadsafe(rob(), loop).result(SECONDS)
                with pytest.raises(LeaseLost) as error, batch.settling():
                    pass
                seen.append(str(error.value))

        else:

            @shop.jobs.batch_handler(size=10)
            async def work(batch: Batch[Any]) -> None:
                await rob()
                with pytest.raises(LeaseLost) as error:
                    async with batch.settling():
                        pass
                seen.append(str(error.value))

        await shop.put(2)
        report = await shop.drain()

        assert seen == ["2 rows of job are held by somebody else now (1, 2); nothing was written"]
        assert (report.done, report.lost) == (0, 2)


@KINDS
async def test_a_block_that_fails_is_undone_and_its_rows_are_tried_alone(database_url: str, kind: str) -> None:
    async with shop_on(database_url, retry=LATER) as shop:
        calls: list[int] = []
        register(shop, kind, calls=calls, bad=2)
        await shop.put(3)
        await shop.drain()

        assert await shop.states() == {"done": 2, "waiting": 1}
        assert await shop.effected() == [1, 3]
        assert calls == [3, 1, 1, 1]
        assert await shop.failures(2) == [(1, "ValueError")]


@KINDS
async def test_a_value_that_the_database_refuses_fails_its_row_alone(pg_url: str, kind: str) -> None:
    async with shop_on(pg_url, retry=LATER) as shop:
        await shop.sql("ALTER TABLE job ADD CONSTRAINT short CHECK (length(result) < 5)")
        answers = {2: Done({"result": "much too long"})}
        insert = sa.insert(shop.effects)

        def mine(batch: Batch[Any]) -> dict[int, Any]:
            return {lease.key: answers[lease.key] for lease in batch if lease.key in answers}

        if kind == "sync":

            @shop.jobs.batch_handler(size=10)
            def work_sync(batch: Batch[Any]) -> None:
                with batch.settling(mine(batch)) as tx:
                    tx.execute(insert, [{"job": lease.key} for lease in tx.leases])

        else:

            @shop.jobs.batch_handler(size=10)
            async def work(batch: Batch[Any]) -> None:
                async with batch.settling(mine(batch)) as tx:
                    await tx.execute(insert, [{"job": lease.key} for lease in tx.leases])

        await shop.put(3)
        await shop.drain()

        assert await shop.states() == {"done": 2, "dead": 1}
        assert await shop.effected() == [1, 3]
        assert await shop.failures(2) == [(1, "value_refused")]


@pytest.mark.parametrize(
    ("outcomes", "fix"),
    [
        ([Done()], "got 1 outcomes for 2 rows"),
        ({99: Done()}, "outcomes for 1 keys that are not in it"),
        ("done", "not str"),
    ],
)
async def test_outcomes_that_fit_no_batch_are_refused(sqlite_url: str, outcomes: Any, fix: str) -> None:
    async with shop_on(sqlite_url, retry=LATER) as shop:
        seen: list[str] = []

        @shop.jobs.batch_handler(size=10)
        async def work(batch: Batch[Any]) -> None:
            if len(batch) > 1:
                with pytest.raises(TransactionMisused) as error:
                    async with batch.settling(outcomes) as tx:
                        await tx.execute(sa.insert(shop.effects).values(job=1))
                seen.append(str(error.value))

        await shop.put(2)
        await shop.drain()

        assert len(seen) == 1
        assert fix in seen[0]
        assert await shop.effected() == []


async def test_a_batch_whose_time_is_over_inside_its_block_writes_nothing(database_url: str) -> None:
    async with shop_on(database_url, retry=LATER) as shop:
        inside, go_on = threading.Event(), threading.Event()
        seen: list[BaseException] = []

        @shop.jobs.batch_handler(size=3, timeout=0.2)
        def work(batch: Batch[Any]) -> None:
            try:
                with batch.settling() as tx:
                    inside.set()
                    tx.execute(sa.insert(shop.effects), [{"job": lease.key} for lease in tx.leases])
                    go_on.wait(SECONDS)
            except BaseException as error:
                seen.append(error)
                raise

        await shop.put(3)
        async with shop.working() as working:
            await until(inside.is_set)
            await until(lambda: shop.named("overdue"))
            go_on.set()
            await until(lambda: seen)
            await until(lambda: working.worker.report.again == 3)
            await working.stop()

        assert [type(error) for error in seen] == [LeaseLost]
        assert await shop.effected() == []
        assert await shop.states() == {"waiting": 3}


async def test_a_plain_list_is_still_what_a_batch_handler_may_ask_for(sqlite_url: str) -> None:
    async with shop_on(sqlite_url) as shop:

        @shop.jobs.batch_handler(size=10)
        async def work(batch: list[Lease[Any]]) -> list[Done]:
            return [Done({"result": "kept"}) for _ in batch]

        await shop.put(3)
        report = await shop.drain()

        assert report.done == 3
