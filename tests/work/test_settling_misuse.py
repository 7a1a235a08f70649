"""What would write twice, or not at all, is refused with the way to do it; and nothing is written."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import rowmill as rm
from rowmill import Lease, Mill, QueueMixin, Retry, fixed
from rowmill.errors import LeaseLost, TransactionMisused
from tests.work.shop import SECONDS, Shop, shop_on, until

LATER = Retry(attempts=3, backoff=fixed(3600.0))
KINDS = pytest.mark.parametrize("kind", ["async", "sync"])
Use = Callable[[Any], Any]


def handle(shop: Shop, kind: str, use: Use, seen: list[BaseException]) -> None:
    """A handler that writes an effect and then uses its transaction in some way."""
    insert = sa.insert(shop.effects)

    if kind == "sync":

        @shop.jobs.handler()
        def work_sync(job: Lease[Any]) -> None:
            try:
                with job.settling() as tx:
                    tx.execute(insert.values(job=job.key))
                    use(tx)
            except BaseException as error:
                seen.append(error)
                raise

    else:

        @shop.jobs.handler()
        async def work(job: Lease[Any]) -> None:
            try:
                async with job.settling() as tx:
                    await tx.execute(insert.values(job=job.key))
                    found = use(tx)
                    if hasattr(found, "__await__"):
                        await found
                    elif hasattr(found, "__aenter__"):
                        async with found:
                            pass
            except BaseException as error:
                seen.append(error)
                raise


@KINDS
@pytest.mark.parametrize(
    ("use", "fix"),
    [
        (lambda tx: tx.commit(), "the block commits by itself"),
        (lambda tx: tx.rollback(), "raise an exception out of the block"),
        (lambda tx: tx.close(), "the block closes its session"),
        (lambda tx: tx.begin(), "has begun the transaction already"),
    ],
    ids=["commit", "rollback", "close", "begin"],
)
async def test_a_transaction_that_the_handler_ends_is_refused(database_url: str, kind: str, use: Use, fix: str) -> None:
    async with shop_on(database_url, retry=LATER) as shop:
        seen: list[BaseException] = []
        handle(shop, kind, use, seen)
        await shop.put(1)
        await shop.drain()

        assert [type(error) for error in seen] == [TransactionMisused]
        assert fix in str(seen[0])
        assert await shop.effected() == []
        assert await shop.states() == {"waiting": 1}
        assert await shop.failures() == [(1, "TransactionMisused")]


@KINDS
@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_transaction_that_is_ended_by_its_connection_is_refused(database_url: str, kind: str, end: str) -> None:
    async with shop_on(database_url, retry=LATER) as shop:
        seen: list[BaseException] = []

        async def end_async(tx: Any) -> None:
            await getattr(await tx.connection(), end)()

        def end_sync(tx: Any) -> None:
            getattr(tx.connection(), end)()

        handle(shop, kind, end_async if kind == "async" else end_sync, seen)
        await shop.put(1)
        await shop.drain()

        assert [type(error) for error in seen] == [TransactionMisused]
        assert await shop.effected() == []
        assert await shop.states() == {"waiting": 1}


@KINDS
async def test_a_commit_as_a_statement_leaves_the_row_unsettled_and_is_said(pg_url: str, kind: str) -> None:
    async with shop_on(pg_url, retry=LATER) as shop:
        seen: list[BaseException] = []
        handle(shop, kind, lambda tx: tx.execute(sa.text("COMMIT")), seen)
        await shop.put(1)
        await shop.drain()

        assert [type(error) for error in seen] == [TransactionMisused]
        assert await shop.states() == {"waiting": 1}


@KINDS
async def test_savepoints_stay_usable(database_url: str, kind: str) -> None:
    async with shop_on(database_url) as shop:
        insert = sa.insert(shop.effects)

        if kind == "sync":

            @shop.jobs.handler()
            def work_sync(job: Lease[Any]) -> None:
                with job.settling() as tx:
                    tx.execute(insert.values(job=1))
                    with suppress(ZeroDivisionError), tx.begin_nested():
                        tx.execute(insert.values(job=2))
                        raise ZeroDivisionError
                    with tx.begin_nested():
                        tx.execute(insert.values(job=3))

        else:

            @shop.jobs.handler()
            async def work(job: Lease[Any]) -> None:
                async with job.settling() as tx:
                    await tx.execute(insert.values(job=1))
                    with suppress(ZeroDivisionError):
                        async with tx.begin_nested():
                            await tx.execute(insert.values(job=2))
                            raise ZeroDivisionError
                    async with tx.begin_nested():
                        await tx.execute(insert.values(job=3))

        await shop.put(1)
        report = await shop.drain()

        assert report.done == 1
        assert await shop.effected() == [1, 3]


async def test_a_statement_that_fails_in_a_savepoint_leaves_the_block_usable(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        insert = sa.insert(shop.effects)

        @shop.jobs.handler()
        async def work(job: Lease[Any]) -> None:
            async with job.settling() as tx:
                await tx.execute(insert.values(id=1, job=1))
                with pytest.raises(sa.exc.IntegrityError):
                    async with tx.begin_nested():
                        await tx.execute(insert.values(id=1, job=2))
                await tx.execute(insert.values(id=3, job=3))

        await shop.put(1)
        await shop.drain()

        assert await shop.states() == {"done": 1}
        assert await shop.effected() == [1, 3]


@KINDS
async def test_a_second_block_of_a_row_is_refused_while_the_first_is_open_and_after_it(
    database_url: str, kind: str
) -> None:
    async with shop_on(database_url) as shop:
        said: list[str] = []
        insert = sa.insert(shop.effects)

        if kind == "sync":

            @shop.jobs.handler()
            def work_sync(job: Lease[Any]) -> None:
                with job.settling() as tx:
                    tx.execute(insert.values(job=1))
                    with pytest.raises(TransactionMisused) as nested, job.settling():
                        pass
                with pytest.raises(TransactionMisused) as second, job.settling():
                    pass
                said.extend(map(str, (nested.value, second.value)))

        else:

            @shop.jobs.handler()
            async def work(job: Lease[Any]) -> None:
                async with job.settling() as tx:
                    await tx.execute(insert.values(job=1))
                    with pytest.raises(TransactionMisused) as nested:
                        async with job.settling():
                            pass
                with pytest.raises(TransactionMisused) as second:
                    async with job.settling():
                        pass
                said.extend(map(str, (nested.value, second.value)))

        await shop.put(1)
        report = await shop.drain()

        assert report.done == 1
        assert await shop.effected() == [1]
        assert "is open already" in said[0]
        assert "was settled by an earlier settling() block" in said[1]


@KINDS
async def test_an_empty_block_settles_its_row(database_url: str, kind: str) -> None:
    async with shop_on(database_url) as shop:
        if kind == "sync":

            @shop.jobs.handler()
            def work_sync(job: Lease[Any]) -> None:
                with job.settling(rm.Done({"result": "kept"})):
                    pass

        else:

            @shop.jobs.handler()
            async def work(job: Lease[Any]) -> None:
                async with job.settling(rm.Done({"result": "kept"})):
                    pass

        await shop.put(1)
        await shop.drain()

        row = await shop.row()
        assert (row.state, row.result) == ("done", "kept")


async def test_a_thread_that_is_inside_its_block_when_its_time_is_over_writes_nothing(database_url: str) -> None:
    """The time-out was judged first: what the block would write is refused, whatever the database has heard of it."""
    async with shop_on(database_url, retry=LATER) as shop:
        inside, go_on = threading.Event(), threading.Event()
        seen: list[BaseException] = []

        @shop.jobs.handler(concurrency=1, timeout=0.2)
        def work(job: Lease[Any]) -> None:
            try:
                with job.settling() as tx:
                    inside.set()
                    go_on.wait(SECONDS)
                    tx.execute(sa.insert(shop.effects).values(job=job.key))
            except BaseException as error:
                seen.append(error)
                raise

        await shop.put(1)
        async with shop.working() as working:
            await until(inside.is_set)
            await until(lambda: shop.named("overdue"))
            go_on.set()
            await until(lambda: seen)
            await working.stop()

        assert [type(error) for error in seen] == [LeaseLost]
        assert await shop.effected() == []
        assert await shop.states() == {"waiting": 1}
        assert await shop.failures() == [(1, "timeout")]


async def test_a_time_out_waits_for_a_block_that_commits_already(pg_url: str) -> None:
    """The block has decided: its row is done, and no time-out is written."""
    async with shop_on(pg_url, retry=LATER) as shop:
        ran: list[int] = []

        @shop.jobs.handler(concurrency=1, timeout=0.3)
        def work(job: Lease[Any]) -> None:
            with job.settling() as tx:
                tx.execute(sa.insert(shop.effects).values(job=job.key))
            ran.append(job.key)

        # The commit is held up by a constraint trigger that waits for this lock.
        await shop.sql(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN PERFORM pg_advisory_xact_lock(77); RETURN NULL; END$$"
        )
        await shop.sql(
            "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON effect DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION wait()"
        )
        async with shop.mill.store.engine.connect() as holder:
            await holder.execute(sa.text("SELECT pg_advisory_lock(77)"))
            await shop.put(1)
            async with shop.working() as working:
                await until(lambda: any(lease.phase.name == "COMMITTING" for lease in working.worker._in_flight.leases))
                async with shop.mill.store.engine.connect() as clock:
                    await clock.execute(sa.text("SELECT pg_sleep(0.5)"))  # the time of the handler is over
                assert not shop.named("settled")
                await holder.execute(sa.text("SELECT pg_advisory_unlock(77)"))
                await until(lambda: working.worker.report.done == 1)
                report = await working.stop()

        assert ran == [1]
        assert (report.done, report.lost) == (1, 0)
        assert await shop.effected() == [1]
        assert await shop.failures() == []


async def test_an_async_time_out_during_the_commit_finds_the_row_settled(pg_url: str) -> None:
    async with shop_on(pg_url, retry=LATER) as shop:

        @shop.jobs.handler(concurrency=1, timeout=0.3)
        async def work(job: Lease[Any]) -> None:
            async with job.settling() as tx:
                await tx.execute(sa.insert(shop.effects).values(job=job.key))

        await shop.sql(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN PERFORM pg_sleep(0.6); RETURN NULL; END$$"
        )
        await shop.sql(
            "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON effect DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION wait()"
        )
        await shop.put(1)
        report = await shop.drain()

        assert (report.done, report.lost) == (1, 0)
        assert await shop.effected() == [1]
        assert await shop.failures() == []


async def test_a_connection_that_was_cut_while_nobody_used_it_is_replaced(pg_url: str) -> None:
    async with shop_on(pg_url) as shop:

        @shop.jobs.handler(concurrency=1)
        async def work(job: Lease[Any]) -> None:
            async with job.settling() as tx:
                await tx.execute(sa.insert(shop.effects).values(job=job.key))

        cut = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rowmill' "
            "AND pid <> pg_backend_pid() AND datname = current_database()"
        )
        for _ in range(3):
            await shop.put(2)
            await shop.drain()
            await shop.run(lambda connection: connection.execute(sa.text(cut)).all())

        assert await shop.states() == {"done": 6}
        assert await shop.effected() == [1, 2, 3, 4, 5, 6]


async def test_a_commit_whose_answer_is_lost_is_known_by_its_receipt(
    pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks after the server has committed: the row is done, and so says the worker."""
    execute = asyncpg.Connection.execute
    broken: list[str] = []

    async def commit_and_break(connection: Any, statement: str, *arguments: Any, **options: Any) -> str:
        status = await execute(connection, statement, *arguments, **options)
        if statement == "COMMIT" and not broken:
            broken.append(statement)
            connection.terminate()
            raise ConnectionResetError("the answer is lost")
        return str(status)

    async with shop_on(pg_url, retry=LATER) as shop:

        @shop.jobs.handler(concurrency=1)
        async def work(job: Lease[Any]) -> None:
            async with job.settling() as tx:
                await tx.execute(sa.insert(shop.effects).values(job=job.key))

        await shop.put(2)
        monkeypatch.setattr(asyncpg.Connection, "execute", commit_and_break)
        report = await shop.drain()

        assert broken == ["COMMIT"]
        assert (report.done, report.lost, report.again) == (2, 0, 0)
        assert await shop.effected() == [1, 2]


class Base(DeclarativeBase):
    pass


class Article(QueueMixin, Base):
    __tablename__ = "article"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str | None]
    score: Mapped[int | None]


@pytest.mark.parametrize("strict", [False, True])
async def test_a_change_of_the_row_that_nothing_writes_is_said_or_fails_the_row(
    database_url: str, strict: bool
) -> None:
    mill, events = Mill(database_url, settings=rm.worker.WorkerSettings(strict=strict, poll_base=0.01)), []
    articles = mill.queue(Article)
    mill.observe(lambda event, fields: events.append((event, dict(fields))))

    @articles.handler()
    async def classify(article: Lease[Article]) -> dict[str, Any] | None:
        article.row.title = "changed"
        if article.key == 2:
            return {"title": "changed"}  # it is written: nothing to say
        return None

    async with mill.opened():
        await mill.migrate(tables=True)
        rows = [{"id": key} for key in (1, 2, 3)]
        await mill.run(lambda connection: connection.execute(articles.insert(rows)).close())
        async with asyncio.timeout(SECONDS):
            await mill.drain()
        found = await mill.run(
            lambda c: c.execute(sa.select(Article.id, Article.state, Article.error).order_by(Article.id)).all(),
            write=False,
        )

    said = [fields for event, fields in events if event == "row_changed"]
    if strict:
        assert [row.state for row in found] == ["dead", "done", "dead"]
        assert "Return the values instead: return {'title': ...}" in found[0].error
        assert said == []
    else:
        assert [row.state for row in found] == ["done", "done", "done"]
        assert said == [{"queue": "article", "stage": "work", "columns": "title"}]


async def test_a_changed_row_that_is_added_to_the_blocks_session_is_written(database_url: str) -> None:
    mill, events = Mill(database_url, settings=rm.worker.WorkerSettings(strict=True, poll_base=0.01)), []
    articles = mill.queue(Article)
    mill.observe(lambda event, fields: events.append(event))

    @articles.handler()
    async def classify(article: Lease[Article]) -> None:
        async with article.settling() as tx:
            tx.add(article.row)
            article.row.score = 7

    async with mill.opened():
        await mill.migrate(tables=True)
        await mill.run(lambda connection: connection.execute(articles.insert([{"id": 1}])).close())
        async with asyncio.timeout(SECONDS):
            await mill.drain()
        [row] = await mill.run(lambda c: c.execute(sa.select(Article.state, Article.score)).all(), write=False)

    assert tuple(row) == ("done", 7)
    assert "row_changed" not in events


async def test_rows_are_given_back_only_if_their_block_does_not_commit(pg_url: str) -> None:
    """A worker that leaves waits for a commit that is under way instead of giving the row back beside it."""
    async with shop_on(pg_url) as shop:

        @shop.jobs.handler(concurrency=1)
        def work(job: Lease[Any]) -> None:
            with job.settling() as tx:
                tx.execute(sa.insert(shop.effects).values(job=job.key))

        await shop.sql(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN PERFORM pg_sleep(1.0); RETURN NULL; END$$"
        )
        await shop.sql(
            "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON effect DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION wait()"
        )
        await shop.put(1)
        async with shop.working(grace=0.0) as working:
            await until(lambda: any(lease.phase.name == "COMMITTING" for lease in working.worker._in_flight.leases))
            report = await working.stop()

        assert (report.done, report.lost) == (1, 0)
        assert await shop.states() == {"done": 1}
        assert not any(fields["move"] == "release" for fields in shop.named("settled"))
