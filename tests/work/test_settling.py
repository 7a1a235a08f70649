"""`settling()`: the user's own writes and the row's outcome are one fenced transaction, in async and sync handlers."""

import asyncio
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill import Dead, Done, Lease, Mill, Outcome, Retry, RetryLater, fixed
from rowmill.errors import LeaseLost
from rowmill.model.errors import BadRequest
from rowmill.worker import row_runner
from tests.work.shop import TWO_STAGES, Shop, shop_on, until

LATER = Retry(attempts=3, backoff=fixed(3600.0))
KINDS = pytest.mark.parametrize("kind", ["async", "sync"])


class Stumble(Exception):
    """Raised inside a block."""


def register(
    shop: Shop,
    kind: str,
    *,
    outcome: Outcome | None = None,
    within: Callable[[Lease[Any]], Any] = lambda job: None,
    after: Callable[[Lease[Any]], Any] = lambda job: None,
    stage: str | None = None,
    seen: list[BaseException] | None = None,
) -> None:
    """A handler that writes an effect, does what the test wants within the block and after it, keeps what it saw."""

    def note(error: BaseException) -> None:
        if seen is not None:
            seen.append(error)

    if kind == "sync":

        @shop.jobs.handler(stage=stage, concurrency=3)
        def handle_sync(job: Lease[Any]) -> Any:
            try:
                with job.settling(outcome) as session:
                    session.execute(sa.insert(shop.effects).values(job=job.key))
                    within(job)
            except BaseException as error:
                note(error)
                raise
            return after(job)

    else:

        @shop.jobs.handler(stage=stage, concurrency=3)
        async def handle(job: Lease[Any]) -> Any:
            try:
                async with job.settling(outcome) as session:
                    await session.execute(sa.insert(shop.effects).values(job=job.key))
                    within(job)
            except BaseException as error:
                note(error)
                raise
            return after(job)


@KINDS
async def test_writes_and_completion_commit_together(database_url: str, kind: str) -> None:
    async with shop_on(database_url) as shop:
        register(shop, kind)

        await shop.put(20)
        report = await shop.drain()

        assert report.settled == {"done": 20}
        assert await shop.states() == {"done": 20}
        assert await shop.effected() == list(range(1, 21))
        assert len(shop.named("settled")) == 20


@KINDS
async def test_what_the_handler_returns_afterwards_is_not_written(database_url: str, kind: str) -> None:
    async with shop_on(database_url) as shop:
        register(shop, kind, after=lambda job: Dead("too late"))

        await shop.put(1)
        report = await shop.drain()

        assert (await shop.row()).state == "done"
        assert report.settled == {"done": 1}
        assert report.lost == 0


@KINDS
async def test_what_the_handler_raises_afterwards_changes_nothing(database_url: str, kind: str) -> None:
    async with shop_on(database_url) as shop:

        def stumble(job: Lease[Any]) -> None:
            raise Stumble

        register(shop, kind, after=stumble)
        await shop.put(1)
        await shop.drain()

        assert (await shop.row()).state == "done"
        assert await shop.effected() == [1]


@KINDS
async def test_an_exception_in_the_block_rolls_back_the_users_writes(database_url: str, kind: str) -> None:
    async with shop_on(database_url, retry=LATER) as shop:

        def stumble(job: Lease[Any]) -> None:
            raise Stumble("over")

        register(shop, kind, within=stumble)
        await shop.put(1)
        await shop.drain()

        row = await shop.row()
        assert (row.state, row.error) == ("waiting", "Stumble: over")
        assert await shop.effected() == []


@KINDS
async def test_a_lost_lease_rolls_back_the_users_writes_and_is_raised(database_url: str, kind: str) -> None:
    async with shop_on(database_url) as shop:
        seen: list[BaseException] = []
        # The table is changed before the block takes its connection: SQLite has one writer.
        robbed = asyncio.Event()

        async def rob() -> None:
            await shop.rob()
            robbed.set()

        if kind == "async":

            @shop.jobs.handler()
            async def handle(job: Lease[Any]) -> None:
                await rob()
                try:
                    async with job.settling() as session:
                        await session.execute(sa.insert(shop.effects).values(job=job.key))
                except LeaseLost as error:
                    seen.append(error)
                    raise

        else:
            loop = asyncio.get_running_loop()

            @shop.jobs.handler()
            def handle_sync(job: Lease[Any]) -> None:
                asyncio.run_coroutine_threadsafe(rob(), loop).result(20)
                try:
                    with job.settling() as session:
                        session.execute(sa.insert(shop.effects).values(job=job.key))
                except LeaseLost as error:
                    seen.append(error)
                    raise

        await shop.put(1)
        report = await shop.drain()

        assert robbed.is_set()
        assert [type(error) for error in seen] == [LeaseLost]
        assert await shop.effected() == []
        assert (await shop.row()).lease == 77, "the other worker's claim is untouched"
        assert report.lost == 1
        assert len(shop.named("lost")) == 1


@KINDS
@pytest.mark.parametrize(
    ("outcome", "state", "result"),
    [
        (Done({"result": "kept"}), "done", "kept"),
        (RetryLater(after=3600.0, values={"result": "half"}), "waiting", "half"),
        (Dead("wrong", "for good"), "dead", None),
    ],
)
async def test_any_outcome_can_be_settled_with_its_values(
    database_url: str, kind: str, outcome: Outcome, state: str, result: str | None
) -> None:
    async with shop_on(database_url) as shop:
        register(shop, kind, outcome=outcome)

        await shop.put(1)
        await shop.drain()

        row = await shop.row()
        assert (row.state, row.result) == (state, result)
        assert await shop.effected() == [1]
        assert len(await shop.failures()) == (0 if state == "done" else 1)


@KINDS
async def test_a_row_that_moves_on_wakes_its_next_stage(database_url: str, kind: str) -> None:
    """In a thread, there is no loop to ask: what follows from a settlement must get back to it."""
    async with shop_on(database_url, stages=TWO_STAGES) as shop:
        register(shop, kind, stage="first")

        @shop.jobs.handler(stage="second")
        async def end(job: Lease[Any]) -> None: ...

        await shop.put(3)
        async with shop.working(poll_base=3600.0, poll_max=3600.0) as working:
            await until(lambda: working.worker.report.done == 3)
            report = await working.stop()

        assert report.settled == {"advance": 3, "done": 3}
        assert await shop.states() == {"done": 3}
        assert await shop.failures() == []


@KINDS
async def test_a_value_that_the_database_refuses_fails_the_row_and_rolls_back(pg_url: str, kind: str) -> None:
    async with shop_on(pg_url, retry=LATER) as shop:
        await shop.sql("ALTER TABLE job ADD CONSTRAINT short CHECK (length(result) < 5)")
        register(shop, kind, outcome=Done({"result": "much too long"}))

        await shop.put(1)
        await shop.drain()

        row = await shop.row()
        assert row.state in ("waiting", "dead")
        assert "much too long" not in row.error
        assert await shop.effected() == []


async def test_pace_is_learned_from_rows_that_settle_themselves(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage that always settles itself would otherwise claim one row at a time, for ever. By this clock each row
    takes some milliseconds, however busy the machine is."""
    monkeypatch.setattr(row_runner, "time", SimpleNamespace(perf_counter=count(0, 0.001).__next__))
    async with shop_on(database_url) as shop:
        register(shop, "async")

        await shop.put(60)
        await shop.drain()

        assert max(fields["rows"] for fields in shop.named("claimed")) > 3


async def test_transactions_of_handlers_leave_a_connection_for_upkeep(pg_url: str) -> None:
    """Otherwise a worker whose handlers keep every one of the pool would give no sign of life, and rescue nothing."""
    async with shop_on(pg_url) as shop:
        inside, release = [], asyncio.Event()

        @shop.jobs.handler(concurrency=16)
        async def handle(job: Lease[Any]) -> None:
            async with job.settling() as session:
                await session.execute(sa.text("SELECT 1"))
                inside.append(job.key)
                await release.wait()

        await shop.put(16)
        async with shop.working():
            await until(lambda: len(inside) == 15)
            async with asyncio.timeout(10):
                await shop.count()
            release.set()
            await until(lambda: len(inside) == 16)


async def test_as_many_transactions_of_handlers_as_the_mill_has_connections_for(pg_url: str) -> None:
    async with shop_on(pg_url, connections=20) as shop:
        met = asyncio.Barrier(20)

        @shop.jobs.handler(concurrency=20)
        async def handle(job: Lease[Any]) -> None:
            async with job.settling() as session:
                await session.execute(sa.text("SELECT 1"))
                await met.wait()

        await shop.put(20)
        report = await shop.drain()

        assert report.done == 20


async def test_a_mill_needs_a_connection_for_them(sqlite_url: str) -> None:
    with pytest.raises(BadRequest, match="connections must be 1 or more, not 0"):
        Mill(sqlite_url, connections=0)


@KINDS
async def test_success_within_a_transaction_takes_the_try_back_where_failures_are_counted(
    database_url: str, kind: str
) -> None:
    async with shop_on(database_url, retry=Retry(attempts=3, backoff=fixed(0.0)), counts="failures") as shop:
        tries: list[int] = []

        def stumble_once(job: Lease[Any]) -> None:
            tries.append(job.attempt)
            if job.attempt == 1:
                raise Stumble

        register(shop, kind, within=stumble_once)
        await shop.put(1)
        await shop.drain()

        row = await shop.row()
        assert (row.state, row.attempts, tries) == ("done", 1, [1, 2])
        assert await shop.effected() == [1]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_connection_that_breaks_in_a_block_fails_its_own_row_alone(pg_url: str, kind: str) -> None:
    """Others use the same pool, and none of their connections is dropped for it."""
    async with shop_on(pg_url, retry=Retry(attempts=3, backoff=fixed(0))) as shop:
        pid = sa.text("SELECT pg_backend_pid()")

        def end(connection: sa.Connection, which: int) -> None:
            connection.exec_driver_sql(f"SELECT pg_terminate_backend({which})").close()

        async def settle(job: Lease[Any]) -> None:
            async with job.settling() as tx:
                if job.key == 5 and job.attempt == 1:
                    which = (await tx.execute(pid)).scalar_one()
                    await shop.run(lambda connection: end(connection, which))
                await tx.execute(sa.insert(shop.effects).values(job=job.key))

        def settle_sync(job: Lease[Any]) -> None:
            with job.settling() as tx:
                if job.key == 5 and job.attempt == 1:
                    with shop.mill.store.sync_engine.begin() as connection:
                        end(connection, tx.execute(pid).scalar_one())
                tx.execute(sa.insert(shop.effects).values(job=job.key))

        shop.jobs.handler(concurrency=4)(settle if kind == "async" else settle_sync)
        await shop.put(40)
        report = await shop.drain()
        effected = await shop.effected()

    assert (report.done, report.again, report.dead) == (40, 1, 0)
    assert effected == list(range(1, 41))
