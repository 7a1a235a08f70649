"""Columns that do not come with a claim: `load=`, deferred columns of an ORM class, and `Lease.fetch`."""

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, deferred, mapped_column

import rowmill as rm
from tests.work.shop import quick, shop_on

SECONDS = 30.0


class Base(DeclarativeBase): ...


class Paper(rm.QueueMixin, Base):
    __tablename__ = "paper"

    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    body: Mapped[str | None] = mapped_column("content", sa.Text, deferred=True)
    extra: Mapped[dict[str, Any] | None] = deferred(mapped_column(sa.JSON))


class Animal(rm.QueueMixin, Base):
    __tablename__ = "animal"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "animal"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    name: Mapped[str | None]


class Dog(Animal):
    __mapper_args__ = {"polymorphic_identity": "dog"}  # noqa: RUF012

    bark: Mapped[str | None] = mapped_column(sa.Text, deferred=True)


async def drain(mill: rm.Mill) -> rm.worker.Report:
    async with asyncio.timeout(SECONDS):
        return await mill.drain(settings=quick())


async def papers_on(url: str, **options: Any) -> rm.Queue[Paper]:
    mill = rm.Mill(url)
    papers: rm.Queue[Paper] = mill.queue(Paper, **options)
    await mill.migrate(tables=True)
    await papers.load([{"id": 1, "title": "one", "body": "long", "extra": {"pages": 7}}])
    return papers


def claimed_columns(queue: rm.Queue[Any]) -> set[str]:
    return {column.name for column in queue.claimed}


async def test_a_claim_brings_the_named_columns_and_those_that_the_engine_needs(database_url: str) -> None:
    async with shop_on(database_url, load=("title",)) as shop:
        seen: list[dict[str, Any]] = []

        @shop.jobs.handler()
        async def handle(job: rm.Lease[rm.Record]) -> None:
            seen.append(job.row.as_dict())

        await shop.put(1, title="one", result="long")
        report = await shop.drain()

        assert report.done == 1
        assert seen[0]["title"] == "one"
        assert seen[0]["id"] == 1
        assert "result" not in seen[0]
        assert "result" not in claimed_columns(shop.jobs)


@pytest.mark.parametrize("read", [lambda row: row.result, lambda row: row["result"]], ids=["attribute", "item"])
async def test_a_column_that_was_left_out_says_how_to_fetch_it(database_url: str, read: Any) -> None:
    async with shop_on(database_url, load=("title",)) as shop:
        said: list[str] = []

        @shop.jobs.handler()
        async def handle(job: rm.Lease[rm.Record]) -> None:
            try:
                read(job.row)
            except rm.errors.ColumnNotLoaded as error:
                said.append(str(error))

        await shop.put(1)
        await shop.drain()

        assert "await lease.fetch('result')" in said[0]
        assert "lease.fetch_sync('result')" in said[0]


async def test_a_column_is_fetched_and_stays_on_the_row(database_url: str) -> None:
    async with shop_on(database_url, load=()) as shop:
        seen: list[Any] = []

        @shop.jobs.handler()
        async def handle(job: rm.Lease[rm.Record]) -> None:
            seen.extend([await job.fetch("title"), job.row.title, await job.fetch("title"), await job.fetch("id")])

        await shop.put(1, title="one")
        report = await shop.drain()

        assert report.done == 1
        assert seen == ["one", "one", "one", 1]
        assert report.peak_bytes > 1000 + 50, "what was fetched counts"


async def test_a_handler_in_a_thread_fetches_too(database_url: str) -> None:
    async with shop_on(database_url, load=()) as shop:
        seen: list[Any] = []

        @shop.jobs.handler()
        def handle(job: rm.Lease[rm.Record]) -> None:
            seen.extend([job.fetch_sync("title"), job.row["title"]])

        await shop.put(1, title="one")
        report = await shop.drain()

        assert report.done == 1
        assert seen == ["one", "one"]


async def test_a_batch_handler_fetches_for_each_of_its_rows(database_url: str) -> None:
    async with shop_on(database_url, load=()) as shop:

        @shop.jobs.batch_handler(size=5)
        async def handle(batch: list[rm.Lease[rm.Record]]) -> list[dict[str, str]]:
            return [{"result": f"{await job.fetch('title')}!"} for job in batch]

        await shop.put(5, title="one")
        report = await shop.drain()

        assert report.done == 5
        assert {row.result for row in (await shop.rows()).values()} == {"one!"}


async def test_an_async_handler_that_asks_as_a_thread_does_is_told(database_url: str) -> None:
    async with shop_on(database_url, load=()) as shop:
        said: list[str] = []

        @shop.jobs.handler()
        async def handle(job: rm.Lease[rm.Record]) -> None:
            try:
                job.fetch_sync("title")
            except RuntimeError as error:
                said.append(str(error))

        await shop.put(1, title="one")
        await shop.drain()

        assert said == ["this handler runs on the loop. Write: await lease.fetch('title')"]


async def test_nothing_is_read_of_a_row_that_somebody_else_holds(database_url: str) -> None:
    async with shop_on(database_url, load=()) as shop:
        raised: list[BaseException] = []

        @shop.jobs.handler()
        async def handle(job: rm.Lease[rm.Record]) -> None:
            await shop.rob(job.key)
            try:
                await job.fetch("title")
            except rm.errors.LeaseLost as error:
                raised.append(error)
                assert job.lost
                raise

        await shop.put(1, title="one")
        async with shop.working() as working:
            async with asyncio.timeout(SECONDS):
                while not working.worker.report.lost:
                    await asyncio.sleep(0.005)

        assert "row 1 of job" in str(raised[0])


async def test_an_unknown_column_is_named_with_those_there_are(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        said: list[str] = []

        @shop.jobs.handler()
        async def handle(job: rm.Lease[rm.Record]) -> None:
            try:
                await job.fetch("titel")
            except rm.RowmillError as error:
                said.append(str(error))

        await shop.put(1)
        await shop.drain()

        assert "table job has no column titel. It has: id, title" in said[0]


async def test_deferred_columns_of_an_orm_class_do_not_come_with_a_claim(database_url: str) -> None:
    papers = await papers_on(database_url)
    seen: list[Any] = []

    @papers.handler()
    async def handle(paper: rm.Lease[Paper]) -> None:
        for read in (lambda: paper.row.body, lambda: paper.row.extra):
            with pytest.raises(rm.errors.ColumnNotLoaded):
                read()
        seen.extend([paper.row.title, await paper.fetch("body"), paper.row.body, await paper.fetch("extra")])
        seen.append(await paper.fetch("content"))

    report = await drain(papers.mill)

    assert report.done == 1
    assert seen == ["one", "long", "long", {"pages": 7}, "long"]
    assert not {"content", "extra"} & claimed_columns(papers)


async def test_named_columns_come_even_if_the_class_defers_them(database_url: str) -> None:
    papers = await papers_on(database_url, load=("body",))
    seen: list[Any] = []

    @papers.handler()
    async def handle(paper: rm.Lease[Paper]) -> None:
        seen.append(paper.row.body)
        with pytest.raises(rm.errors.ColumnNotLoaded, match="title"):
            _ = paper.row.title

    report = await drain(papers.mill)

    assert report.done == 1
    assert seen == ["long"]


async def test_a_row_in_a_session_loads_what_was_left_out_as_any_deferred_column(database_url: str) -> None:
    papers = await papers_on(database_url)
    seen: list[Any] = []

    @papers.handler()
    async def handle(paper: rm.Lease[Paper]) -> None:
        async with AsyncSession(papers.mill.store.engine) as session:
            session.add(paper.row)
            seen.append(await session.run_sync(lambda _: paper.row.body))

    report = await drain(papers.mill)

    assert report.done == 1
    assert seen == ["long"]


async def test_each_row_of_a_table_of_several_classes_has_its_own_columns(database_url: str) -> None:
    mill = rm.Mill(database_url)
    animals: rm.Queue[Animal] = mill.queue(Animal)
    await mill.migrate(tables=True)
    await animals.load([{"id": 1, "kind": "animal"}])
    await animals.load([{"id": 2, "kind": "dog", "bark": "woof"}])
    seen: dict[str, Any] = {}

    @animals.handler()
    async def handle(animal: rm.Lease[Animal]) -> None:
        seen[type(animal.row).__name__] = await animal.fetch("bark")

    report = await drain(mill)

    assert report.done == 2
    assert seen == {"Animal": None, "Dog": "woof"}


def test_a_wrong_name_is_refused_at_declaration() -> None:
    with pytest.raises(rm.errors.DeclarationError, match=r"load=\.\.\. names column titel"):
        rm.Mill("sqlite:///never-opened.db").queue(Paper, load=("titel",))
    with pytest.raises(rm.errors.DeclarationError, match=r"load=\.\.\. takes a tuple of names"):
        rm.Mill("sqlite:///never-opened.db").queue(Paper, load="title")
