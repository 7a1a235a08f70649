"""Counts, list, why, requeue, cancel and prune from Python: awaited, and from code without an event loop."""

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import rowmill as rm
from tests.work.shop import SECONDS, Shop, shop_on


async def worked(shop: Shop) -> None:
    """Four jobs: done, dead with the code broken, waiting for a retry, dead with the code hopeless."""

    @shop.jobs.handler
    async def handle(job: rm.Lease[Any]) -> Any:
        return {2: rm.Dead("broken"), 3: rm.RetryLater(600), 4: rm.Dead("hopeless")}.get(job.key)

    await shop.put(4)
    await shop.drain()


async def test_rows_are_counted_by_meaning_and_by_word(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        await worked(shop)
        await shop.sql("INSERT INTO job (id, state) VALUES (9, 'odd')")
        counts = await shop.jobs.counts()
    assert (counts.done, counts.dead, counts.waiting, counts.ready, counts.running) == (1, 2, 1, 0, 0)
    assert (counts.cancelled, counts.unknown, counts.total, counts.exact) == (0, 1, 5, True)
    assert (counts["dead"], counts["odd"]) == (2, 1)
    with pytest.raises(KeyError, match="no row has the state deed"):
        counts["deed"]


async def test_rows_are_listed_by_what_they_are_asked_for(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        await worked(shop)
        jobs, table = shop.jobs, shop.jobs.table

        async def keys(*named: Any, **which: Any) -> list[str]:
            return [row.key for row in await jobs.list(*named, **which)]

        assert await keys() == ["1", "2", "3", "4"]
        assert await keys(state="dead") == ["2", "4"]
        assert await keys(state=("done", "waiting")) == ["1", "3"]
        assert await keys(error_code="broken") == ["2"]
        assert await keys(1, 4, 99) == ["1", "4"]
        assert await keys(limit=2) == ["1", "2"]
        assert await keys(where=table.c.id > 2, state="dead") == ["4"]
        assert await keys(where=sa.text("id > 3")) == ["4"]
        assert await keys(state="done", since=rm.hours(1)) == ["1"]
        assert await keys(state="done", until=timedelta(hours=1)) == []
        assert await keys(state="done", until=datetime(2020, 1, 1, tzinfo=UTC)) == []
        dead = (await jobs.list(2))[0]
        assert (dead.state, dead.kind, dead.attempts) == ("dead", "dead", 1)
        with pytest.raises(rm.errors.BadRequest, match="no state deed"):
            await jobs.list(state="deed")
        with pytest.raises(rm.errors.BadRequest, match=r"sa\.text"):
            await jobs.list(where="id > 3")  # type: ignore[arg-type]


async def test_a_condition_of_an_orm_class_chooses_rows(database_url: str) -> None:
    class Base(DeclarativeBase): ...

    class Article(rm.QueueMixin, Base):
        __tablename__ = "article"
        id: Mapped[int] = mapped_column(primary_key=True)
        title: Mapped[str]

    mill = rm.Mill(database_url)
    articles = mill.queue(Article)
    async with mill.opened():
        await mill.migrate(tables=True)
        await mill.run(lambda c: c.execute(articles.insert([{"title": "a"}, {"title": "b"}])).close())
        assert [row.key for row in await articles.list(where=Article.title == "b")] == ["2"]
        assert await articles.cancel(where=Article.title == "b") == 1
        assert await articles.requeue(where=Article.title == "b", state="cancelled") == 1


async def test_why_says_what_holds_a_row(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        await worked(shop)
        why = await shop.jobs.why(2)
        assert (why.row.key, why.reason) == ("2", "dead")
        assert str(why).startswith("2 (dead)\n  dead: it is dead: attempt 1 of stage work failed with broken.")
        assert [hold.reason for hold in (await shop.jobs.why(3)).holds][:1] == ["backoff"]
        with pytest.raises(rm.errors.UnknownRow):
            await shop.jobs.why(99)


async def test_rows_are_requeued_by_a_filter(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        await worked(shop)
        assert await shop.jobs.requeue(error_code="broken") == 1
        assert await shop.jobs.requeue(since=rm.hours(1)) == 1, "a filter means dead rows"
        assert await shop.jobs.requeue(state="done", limit=0) == 0
        assert await shop.jobs.requeue(1, 3) == 2
        assert (await shop.jobs.counts()).ready == 4


async def test_finished_rows_are_pruned_by_age_and_state(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        await worked(shop)
        assert await shop.jobs.prune(rm.hours(1)) == 0, "none is as old"
        assert await shop.jobs.prune(0, state="dead", limit=1) == 1
        assert await shop.jobs.prune(timedelta(0)) == 1, "dead rows are pruned if they are named"
        assert [(row.key, row.state) for row in await shop.jobs.list()] == [("3", "waiting"), ("4", "dead")]
        assert await shop.jobs.prune(0, 3, 4) == 1, "a row that is not finished stays"
        with pytest.raises(rm.errors.BadRequest, match="an age can't be negative"):
            await shop.jobs.prune(-1)


async def test_rows_that_wait_are_cancelled(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        await worked(shop)
        await shop.put(2)
        assert await shop.jobs.cancel() == 0, "no rows are named"
        assert await shop.jobs.cancel(1, 3, 5) == 2, "a finished row stays"
        assert await shop.jobs.cancel(state="ready") == 1
        assert (await shop.jobs.counts()).cancelled == 3


async def test_the_parts_of_a_key_may_hold_the_separator(database_url: str) -> None:
    moment = sa.DateTime(timezone=True)
    table = sa.Table(
        "page", sa.MetaData(),
        sa.Column("site", sa.Text, primary_key=True), sa.Column("path", sa.Text, primary_key=True),
        sa.Column("state", sa.Text, nullable=False, server_default="ready"),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("available_at", moment), sa.Column("lease", sa.BigInteger), sa.Column("leased_until", moment),
        sa.Column("error", sa.Text), sa.Column("finished_at", moment),
    )  # fmt: skip
    mill = rm.Mill(database_url)
    pages = mill.queue(table, states=rm.States(cancelled="cancelled"))
    async with mill.opened():
        await mill.migrate(tables=True)
        await mill.run(lambda c: c.execute(pages.insert({"site": "a", "path": "b|c"})).close())
        assert (await pages.why(("a", "b|c"))).row.state == "ready"
        assert await pages.cancel(("a", "b|c")) == 1


async def test_keys_that_are_uuids_are_named_as_they_are(database_url: str) -> None:
    class Base(DeclarativeBase): ...

    class Page(rm.QueueMixin, Base):
        __tablename__ = "page"
        id: Mapped[UUID] = mapped_column(primary_key=True)

    mill = rm.Mill(database_url)
    pages, first, second = mill.queue(Page), UUID(int=1), UUID(int=2)
    async with mill.opened():
        await mill.migrate(tables=True)
        await mill.run(lambda c: c.execute(pages.insert([{"id": first}, {"id": second}])).close())
        assert [row.key for row in await pages.list(first, str(second))] == [str(first), str(second)]
        assert (await pages.why(first)).row.key == str(first)
        named = await mill.run(lambda c: c.execute(sa.select(Page.id).where(Page.id == second)).all())
        assert await pages.cancel(*named) == 1, "rows of a SELECT are keys"
        assert await pages.requeue(second) == 1


class Status(Enum):
    READY = "waiting for us"
    RUNNING = "busy"
    DONE = "finished"
    DEAD = "gone"


async def test_states_may_be_named_as_they_are_declared(database_url: str) -> None:
    moment = sa.DateTime(timezone=True)
    table = sa.Table(
        "page", sa.MetaData(),
        sa.Column("id", sa.Enum(Status, name="page_id"), primary_key=True),
        sa.Column("state", sa.Enum(Status, name="page_state"), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("available_at", moment), sa.Column("lease", sa.BigInteger), sa.Column("leased_until", moment),
        sa.Column("error", sa.Text), sa.Column("finished_at", moment),
    )  # fmt: skip
    mill = rm.Mill(database_url)
    words = rm.States(ready=Status.READY, running=Status.RUNNING, done=Status.DONE, dead=Status.DEAD)
    pages = mill.queue(table, states=words)
    rows = [{"id": each, "state": each} for each in Status]
    async with mill.opened():
        await mill.migrate(tables=True)
        await mill.run(lambda c: c.execute(sa.insert(table), rows).close())
        for state in (Status.DEAD, "dead", [Status.DEAD]):
            assert [row.key for row in await pages.list(state=state)] == ["Status.DEAD"]
        assert await pages.requeue(state=(Status.DEAD, Status.DONE), limit=1) == 1
        assert (await pages.why(Status.READY)).row.kind == "ready"


@pytest.mark.parametrize("key", [None, [1, 2], {1}, b"1", object()])
@pytest.mark.parametrize("method", ["list", "why", "requeue", "cancel"])
async def test_what_is_no_key_is_refused(sqlite_url: str, method: str, key: Any) -> None:
    """As text, it might be the key of another row."""
    async with shop_on(sqlite_url) as shop:
        with pytest.raises(
            rm.errors.BadRequest, match=r"the key of a row of job is a value.*Name several rows one by one"
        ):
            await getattr(shop.jobs, method)(key)


@pytest.mark.parametrize("key", ["one", True, 1.5, (1, 2), 1 << 80, "1|2"])
async def test_a_key_of_another_type_is_refused(sqlite_url: str, key: Any) -> None:
    async with shop_on(sqlite_url) as shop:
        with pytest.raises(rm.errors.BadRequest, match="is not a key of queue job"):
            await shop.jobs.requeue(key)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"since": "6h"}, r"since=\.\.\. takes seconds ago, as in rm\.hours\(6\), a timedelta or a datetime, not '6h'"),
    ({"until": float("nan")}, r"until=\.\.\. takes seconds ago"),
    ({"since": 1e300}, "takes seconds ago"),
    ({"limit": -1}, "limit must be 0 or more, not -1"),
    ({"stage": "wrok"}, "has no stage wrok; it has: work. Did you mean work"),
    ({"state": 3}, "has no state 3"),
]


@pytest.mark.parametrize(("which", "says"), WRONG)
async def test_a_filter_of_another_type_is_refused(database_url: str, which: dict[str, Any], says: str) -> None:
    async with shop_on(database_url) as shop:
        for method in (shop.jobs.list, shop.jobs.requeue, shop.jobs.cancel):
            with pytest.raises(rm.errors.BadRequest, match=says):
                await method(**which)


def test_each_works_without_an_event_loop(database_url: str) -> None:
    async def prepare() -> Shop:
        async with shop_on(database_url) as shop:
            await worked(shop)
            return shop

    jobs = asyncio.run(prepare()).jobs
    assert jobs.counts_sync().dead == 2
    assert [row.key for row in jobs.list_sync(state="dead")] == ["2", "4"]
    assert jobs.why_sync(2).reason == "dead"
    assert jobs.requeue_sync(error_code="broken") == 1
    assert jobs.cancel_sync(2) == 1
    assert jobs.prune_sync(0, state="done") == 1


SYNC: list[tuple[Callable[[rm.Queue[Any]], Any], str]] = [
    (lambda jobs: jobs.counts_sync(), r"await queue\.counts\(\)"),
    (lambda jobs: jobs.list_sync(), r"await queue\.list\(\.\.\.\)"),
    (lambda jobs: jobs.why_sync(1), r"await queue\.why\(key\)"),
    (lambda jobs: jobs.requeue_sync(1), r"await queue\.requeue\(\.\.\.\)"),
    (lambda jobs: jobs.cancel_sync(1), r"await queue\.cancel\(\.\.\.\)"),
    (lambda jobs: jobs.prune_sync(0), r"await queue\.prune\(\.\.\.\)"),
    (lambda jobs: jobs.mill.drain_now(), r"await mill\.drain\(\)"),
]


@pytest.mark.parametrize(("call", "instead"), SYNC)
async def test_inside_a_running_loop_each_says_what_to_write(
    sqlite_url: str, call: Callable[[rm.Queue[Any]], Any], instead: str
) -> None:
    async with shop_on(sqlite_url) as shop:
        with pytest.raises(rm.errors.BadRequest, match=instead):
            call(shop.jobs)


async def test_a_thread_asks_while_a_worker_runs_in_the_loop(database_url: str) -> None:
    """As a plain endpoint of a web application does, which has its worker in the loop."""
    async with shop_on(database_url) as shop:
        await worked(shop)
        async with shop.working():
            counts = await asyncio.to_thread(shop.jobs.counts_sync)
            requeued = await asyncio.to_thread(shop.jobs.requeue_sync, 3)
    assert (counts.dead, requeued) == (2, 1)


def test_threads_without_loops_take_turns(database_url: str) -> None:
    async def prepare() -> Shop:
        async with shop_on(database_url) as shop:
            await shop.put(3)
            return shop

    jobs = asyncio.run(prepare()).jobs
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(jobs.counts_sync().ready)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert found == [3] * 4


def test_a_thread_is_told_when_the_loop_that_it_asked_has_ended(sqlite_url: str) -> None:
    mill = rm.Mill(sqlite_url)
    asked, problems = threading.Event(), []

    async def endless() -> None:
        asked.set()
        await asyncio.Event().wait()

    def ask() -> None:
        try:
            mill.run_blocking(endless, "ask()", "await ask()")
        except rm.RowmillError as error:
            problems.append(str(error))

    async def open_until_asked() -> None:
        async with mill.opened():
            thread.start()
            await asyncio.to_thread(asked.wait, SECONDS)

    thread = threading.Thread(target=ask)
    asyncio.run(open_until_asked())
    thread.join(SECONDS)
    assert len(problems) == 1
    assert "has ended" in problems[0]


async def test_a_misspelled_filter_names_the_right_one(sqlite_url: str) -> None:
    async with shop_on(sqlite_url) as shop:
        said = r"requeue\(\) has no option error_cod\. Did you mean error_code\?"
        with pytest.raises(rm.errors.UnknownOption, match=said):
            await shop.jobs.requeue(error_cod="broken")  # type: ignore[call-arg]
        with pytest.raises(rm.errors.UnknownOption, match="Did you mean to_stage"):
            await shop.jobs.requeue(1, to_stag="work")  # type: ignore[call-arg]
