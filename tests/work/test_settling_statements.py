"""Statements of SQLAlchemy Core inside `settling()`: whichever way they take, they do and answer the same."""

import asyncio
import datetime
import decimal
import enum
import gc
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from rowmill import Lease
from rowmill.store.postgres.transactions import DirectStatement, WriteResult
from rowmill.store.row_sizes import ByteLimit
from tests.work.shop import Shop, shop_on

Block = Callable[[Any], Awaitable[Any]]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Upper(sa.TypeDecorator[str]):
    """Written in capitals, read in small letters."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        return None if value is None else value.upper()

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> str | None:
        return None if value is None else value.lower()


NOTE = sa.Table(
    "note",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("job", sa.Integer, unique=True),
    sa.Column("word", Upper(20)),
    sa.Column("colour", sa.Enum(Colour, native_enum=False, length=10)),
    sa.Column("facts", sa.JSON),
    sa.Column("at", sa.DateTime),
    sa.Column("price", sa.Numeric(10, 2)),
    sa.Column("token", sa.Uuid),
    sa.Column("blob", sa.LargeBinary),
    sa.Column("made_by", sa.String(20), default=lambda: "nobody"),
)
VALUES = {
    "word": "hello",
    "colour": Colour.BLUE,
    "facts": {"a": [1, None, "ü"]},
    "at": datetime.datetime(2026, 3, 1, 12, 30),
    "price": decimal.Decimal("12.50"),
    "token": uuid.UUID(int=7),
    "blob": b"\x00\xff",
    "made_by": "me",
}
PLAIN = sa.Table(
    "plain",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("job", sa.Integer, unique=True),
    sa.Column("n", sa.Integer),
)


@asynccontextmanager
async def shop_with_notes(database_url: str) -> AsyncIterator[Shop]:
    async with shop_on(database_url) as shop:

        def make(connection: sa.Connection) -> None:
            NOTE.create(connection)
            PLAIN.create(connection)

        await shop.run(make)
        yield shop


async def in_block(shop: Shop, block: Block, *, settles: bool = True) -> Any:
    """What the block answers, or raises."""
    answers: list[Any] = []

    @shop.jobs.handler(concurrency=1)
    async def handle(job: Lease[Any]) -> None:
        try:
            async with job.settling() as tx:
                answers.append(await block(tx))
        except Exception as error:
            answers[:] = [error]
            raise

    await shop.put(1)
    report = await shop.drain()
    assert (report.settled == {"done": 1}) is settles
    return answers[0]


async def read(shop: Shop, table: sa.Table) -> list[Any]:
    found = await shop.mill.run(lambda connection: connection.execute(sa.select(table)).all(), write=False)
    return list(found)


def is_direct(shop: Shop, result: Any) -> bool:
    """Did the statement go to the driver directly? On SQLite none does."""
    assert isinstance(result, (WriteResult, sa.CursorResult))
    return isinstance(result, WriteResult) if shop.postgres else True


async def test_an_insert_tells_its_primary_key(database_url: str) -> None:
    async with shop_with_notes(database_url) as shop:
        result = await in_block(shop, lambda tx: tx.execute(sa.insert(PLAIN).values(job=1, n=5)))

        assert is_direct(shop, result)
        assert result.rowcount == 1
        assert result.is_insert
        [row] = await read(shop, PLAIN)
        assert tuple(result.inserted_primary_key) == (row.id,)
        assert result.inserted_primary_key.id == row.id
        assert tuple(row) == (row.id, 1, 5)


async def test_an_insert_with_its_primary_key_given(database_url: str) -> None:
    async with shop_with_notes(database_url) as shop:
        result = await in_block(shop, lambda tx: tx.execute(sa.insert(PLAIN), {"id": 77, "job": 1}))

        assert is_direct(shop, result)
        assert tuple(result.inserted_primary_key) == (77,)
        assert [tuple(row) for row in await read(shop, PLAIN)] == [(77, 1, None)]


async def test_rows_that_a_statement_does_not_return_are_refused_as_ever(database_url: str) -> None:
    async with shop_with_notes(database_url) as shop:
        result = await in_block(shop, lambda tx: tx.execute(sa.update(PLAIN).values(job=1)))

        assert is_direct(shop, result)
        assert not result.returns_rows
        for ask in (result.all, result.first, result.scalar, result.mappings().all, lambda: list(result)):
            with pytest.raises(exc.ResourceClosedError):
                ask()


async def test_updates_and_deletes_tell_how_many_rows_they_wrote(database_url: str) -> None:
    async def block(tx: Any) -> list[Any]:
        for job in range(4):
            await tx.execute(sa.insert(PLAIN).values(job=job, n=job))
        return [
            await tx.execute(sa.update(PLAIN).where(PLAIN.c.n >= 2).values(n=PLAIN.c.n + 10)),
            await tx.execute(sa.update(PLAIN).where(PLAIN.c.job == sa.bindparam("who")).values(n=0), {"who": 0}),
            await tx.execute(sa.delete(PLAIN).where(PLAIN.c.n == 12)),
            await tx.execute(sa.delete(PLAIN).where(PLAIN.c.n == 999)),
        ]

    async with shop_with_notes(database_url) as shop:
        results = await in_block(shop, block)

        assert [result.rowcount for result in results] == [2, 1, 1, 0]
        assert all(is_direct(shop, result) for result in results)
        assert sorted((row.job, row.n) for row in await read(shop, PLAIN)) == [(0, 0), (1, 1), (3, 13)]


@pytest.mark.parametrize("given", ["values", "params"])
async def test_values_are_written_as_their_types_say(database_url: str, given: str) -> None:
    async def block(tx: Any) -> Any:
        if given == "params":
            return await tx.execute(sa.insert(NOTE), {"job": 1, **VALUES})
        return await tx.execute(sa.insert(NOTE).values(job=1, **VALUES))

    async with shop_with_notes(database_url) as shop:
        assert is_direct(shop, await in_block(shop, block))
        [row] = await read(shop, NOTE)
        assert {name: row._mapping[name] for name in VALUES} == VALUES
        raw = await shop.mill.run(lambda connection: connection.scalar(sa.text("SELECT word FROM note")), write=False)
        assert raw == "HELLO"


async def test_the_same_statement_with_other_values_writes_those(database_url: str) -> None:
    async def block(tx: Any) -> None:
        for n in range(3):
            await tx.execute(sa.insert(PLAIN).values(job=n, n=n * n))

    async with shop_with_notes(database_url) as shop:
        await in_block(shop, block)
        assert sorted((row.job, row.n) for row in await read(shop, PLAIN)) == [(0, 0), (1, 1), (2, 4)]


STATEMENTS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "returning": lambda tx: tx.execute(sa.insert(NOTE).values(job=1, made_by="me").returning(NOTE.c.job)),
    "python default": lambda tx: tx.execute(sa.insert(NOTE).values(job=1)),
    "many": lambda tx: tx.execute(sa.insert(NOTE), [{"job": 1}, {"job": 2}]),
    "text": lambda tx: tx.execute(sa.text("INSERT INTO note (job) VALUES (:job)"), {"job": 1}),
    "several rows": lambda tx: tx.execute(sa.insert(NOTE).values([{"job": 1}, {"job": 2}])),
    "in": lambda tx: tx.execute(sa.delete(NOTE).where(NOTE.c.job.in_([1, 2]))),
    "options": lambda tx: tx.execute(sa.insert(NOTE).values(job=1), execution_options={"a": 1}),
    "from select": lambda tx: tx.execute(
        sa.insert(PLAIN).from_select(["job"], sa.select(sa.literal(1)).where(sa.literal(1) == 1))
    ),
}


@pytest.mark.parametrize("name", STATEMENTS)
async def test_whatever_else_sqlalchemy_can_do_works(database_url: str, name: str) -> None:
    async with shop_with_notes(database_url) as shop:
        result = await in_block(shop, STATEMENTS[name])
        if name == "returning":
            assert result.scalar_one() == 1
        jobs = [row.job for table in (NOTE, PLAIN) for row in await read(shop, table)]
        assert jobs == {"many": [1, 2], "several rows": [1, 2], "in": []}.get(name, [1])


async def test_a_default_of_the_table_is_filled_in(database_url: str) -> None:
    async with shop_with_notes(database_url) as shop:
        await in_block(shop, lambda tx: tx.execute(sa.insert(NOTE).values(job=1)))
        [row] = await read(shop, NOTE)
        assert row.made_by == "nobody"


BAD: dict[str, Any] = {
    "unique": sa.insert(PLAIN).values(id=1, job=1),
    "no such table": sa.insert(sa.table("nowhere", sa.column("id", sa.Integer))).values(id=1),
    "wrong type": sa.insert(PLAIN).values(job="secret words"),
    "wrong value for its type": sa.insert(NOTE).values(job=1, made_by="me", facts={1, 2}),
}


@pytest.mark.parametrize("name", BAD)
async def test_errors_are_those_of_sqlalchemy(pg_url: str, name: str) -> None:
    """Of the same class, with the driver's error in them, and without the values."""

    async def directly(tx: Any) -> None:
        await tx.execute(sa.insert(PLAIN).values(id=1, job=1))
        await tx.execute(BAD[name])

    async def usually(tx: Any) -> None:
        connection = await tx.connection()
        await connection.execute(sa.insert(PLAIN).values(id=1, job=1))
        await connection.execute(BAD[name])

    raised = []
    async with shop_with_notes(pg_url) as shop:
        raised = [await in_block(shop, block, settles=False) for block in (directly, usually)]
    first, second = raised
    assert type(first) is type(second)
    assert isinstance(first, exc.StatementError)
    assert type(first.orig) is type(second.orig)
    assert getattr(first.orig, "sqlstate", None) == getattr(second.orig, "sqlstate", None)
    assert first.statement == second.statement
    assert "secret words" not in str(first).replace("'secret words' (", "")  # the driver itself quotes a value


async def test_a_failed_statement_leaves_nothing_of_the_block(database_url: str) -> None:
    async def block(tx: Any) -> None:
        await tx.execute(sa.insert(PLAIN).values(id=1, job=1))
        with pytest.raises(exc.IntegrityError):
            await tx.execute(sa.insert(PLAIN).values(id=2, job=1))
        if tx.bind.dialect.name == "sqlite":
            raise ValueError("SQLite goes on after a failed statement")

    async with shop_with_notes(database_url) as shop:
        await in_block(shop, block, settles=False)
        assert await read(shop, PLAIN) == []


@pytest.mark.parametrize("of", ["session", "connection"])
async def test_savepoints_hold_for_every_statement(database_url: str, of: str) -> None:
    async def fail(tx: Any) -> None:
        async with (tx if of == "session" else await tx.connection()).begin_nested():
            await tx.execute(sa.insert(PLAIN).values(job=2))
            await tx.execute(sa.insert(PLAIN).values(job=1))

    async def block(tx: Any) -> None:
        await tx.execute(sa.insert(PLAIN).values(job=1))
        with pytest.raises(exc.IntegrityError):
            await fail(tx)
        await tx.execute(sa.insert(PLAIN).values(job=3))

    async with shop_with_notes(database_url) as shop:
        await in_block(shop, block)
        assert sorted(row.job for row in await read(shop, PLAIN)) == [1, 3]


async def test_whoever_listens_to_statements_hears_them(pg_url: str) -> None:
    heard: list[str] = []

    def hear(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        heard.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", hear)
    try:
        async with shop_with_notes(pg_url) as shop:
            await in_block(shop, lambda tx: tx.execute(sa.insert(PLAIN).values(job=1)))
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", hear)
    assert any(statement.startswith("INSERT INTO plain") for statement in heard)


async def test_options_of_a_connection_end_with_their_block(pg_url: str) -> None:
    async with shop_with_notes(pg_url) as shop:

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> None:
            async with job.settling() as tx:
                if job.key == 1:
                    await tx.connection(execution_options={"schema_translate_map": {None: "elsewhere"}})
                else:
                    await tx.execute(sa.insert(PLAIN).values(job=job.key))

        await shop.put(2)
        assert (await shop.drain()).settled == {"done": 2}
        assert [row.job for row in await read(shop, PLAIN)] == [2]


async def test_options_of_a_connection_hold_for_every_statement_of_their_block(pg_url: str) -> None:
    async def block(tx: Any) -> None:
        await tx.connection(execution_options={"schema_translate_map": {None: "elsewhere"}})
        await tx.execute(sa.insert(PLAIN).values(job=1))

    async with shop_with_notes(pg_url) as shop:
        await shop.run(lambda connection: connection.execute(sa.text("CREATE SCHEMA elsewhere")).close())
        await shop.run(
            lambda connection: connection.execute(
                sa.text("CREATE TABLE elsewhere.plain (id serial PRIMARY KEY, job int, n int)")
            ).close()
        )
        await in_block(shop, block)
        assert await read(shop, PLAIN) == []


async def test_statements_see_what_was_written_before_in_the_block(database_url: str) -> None:
    async def block(tx: Any) -> Any:
        await tx.execute(sa.insert(PLAIN).values(job=1, n=1))
        await tx.execute(sa.update(PLAIN).values(n=PLAIN.c.n + 1))
        return (await tx.execute(sa.select(PLAIN.c.n))).scalar_one()

    async with shop_with_notes(database_url) as shop:
        assert await in_block(shop, block) == 2


async def test_a_connection_that_broke_in_the_block_is_not_used_again(pg_url: str) -> None:
    async with shop_with_notes(pg_url) as shop:

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> None:
            async with job.settling() as tx:
                if job.key == 1:
                    pid = await tx.scalar(sa.text("SELECT pg_backend_pid()"))
                    await shop.run(lambda connection: connection.scalar(sa.func.pg_terminate_backend(pid).select()))
                await tx.execute(sa.insert(PLAIN).values(job=job.key))

        await shop.put(2)
        report = await shop.drain()
        assert report.settled == {"again": 1, "done": 1}
        assert [row.job for row in await read(shop, PLAIN)] == [2]


async def late_by_session(tx: Any, job: int) -> None:
    await tx.execute(sa.insert(PLAIN).values(job=job))


async def late_by_text(tx: Any, job: int) -> None:
    await tx.execute(sa.text("INSERT INTO plain (job) VALUES (:job)"), {"job": job})


async def late_by_sync(tx: Any, job: int) -> None:
    await tx.run_sync(lambda session: session.execute(sa.insert(PLAIN).values(job=job)))


@pytest.mark.parametrize("late", [late_by_session, late_by_text, late_by_sync])
@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
async def test_a_session_that_outlives_its_block_writes_nothing(
    database_url: str, late: Callable[[Any, int], Awaitable[None]], *, used: bool
) -> None:
    """Not even into the transaction of the next row, which may have the same connection."""
    kept: list[Any] = []
    async with shop_with_notes(database_url) as shop:

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> None:
            async with job.settling() as tx:
                if used:
                    await tx.scalar(sa.select(sa.func.count()).select_from(PLAIN))
                if not kept:
                    kept.append(tx)
                else:
                    with pytest.raises(exc.SQLAlchemyError):
                        await late(kept[0], 1)

        await shop.put(2)
        assert (await shop.drain()).settled == {"done": 2}
        assert await read(shop, PLAIN) == []


@pytest.mark.parametrize("of", ["bind", "connection"])
async def test_a_connection_that_outlives_its_block_writes_nothing(pg_url: str, of: str) -> None:
    kept: list[Any] = []
    async with shop_with_notes(pg_url) as shop:

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> None:
            async with job.settling() as tx:
                if not kept:
                    kept.append(tx.bind if of == "bind" else await tx.connection())
                else:
                    with pytest.raises(exc.ResourceClosedError):
                        await kept[0].execute(sa.insert(PLAIN).values(job=1))

        await shop.put(2)
        assert (await shop.drain()).settled == {"done": 2}
        assert await read(shop, PLAIN) == []


async def test_options_of_a_statement_hold(pg_url: str) -> None:
    async with shop_with_notes(pg_url) as shop:
        await shop.run(lambda connection: connection.execute(sa.text("CREATE SCHEMA elsewhere")).close())
        made = sa.text("CREATE TABLE elsewhere.plain (id serial PRIMARY KEY, job int, n int)")
        await shop.run(lambda connection: connection.execute(made).close())
        moved = sa.insert(PLAIN).values(job=1).execution_options(schema_translate_map={None: "elsewhere"})
        await in_block(shop, lambda tx: tx.execute(moved))
        assert await read(shop, PLAIN) == []


async def test_statements_of_a_block_may_be_awaited_together(pg_url: str) -> None:
    async def block(tx: Any) -> None:
        await asyncio.gather(*(tx.execute(sa.insert(PLAIN).values(job=n)) for n in range(5)))

    async with shop_with_notes(pg_url) as shop:
        await in_block(shop, block)
        assert sorted(row.job for row in await read(shop, PLAIN)) == [0, 1, 2, 3, 4]


async def test_after_a_statement_that_was_cancelled_nothing_is_written(pg_url: str) -> None:
    async def block(tx: Any) -> None:
        await tx.execute(sa.insert(PLAIN).values(job=1))
        waiting = sa.update(PLAIN).where(sa.func.pg_sleep(60).is_not(None)).values(n=1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await tx.execute(waiting)

    async with shop_with_notes(pg_url) as shop:
        await in_block(shop, block, settles=False)
        assert await read(shop, PLAIN) == []


@pytest.mark.parametrize("of", ["bind", "connection"])
async def test_closing_the_connection_of_a_block_costs_no_place_among_connections(pg_url: str, of: str) -> None:
    async with shop_with_notes(pg_url) as shop:

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> None:
            async with job.settling() as tx:
                if job.key <= 2:
                    connection: Any = tx.bind if of == "bind" else await tx.connection()
                    await connection.close()
                await tx.execute(sa.insert(PLAIN).values(job=job.key))

        await shop.put(4)
        report = await shop.drain()
        assert report.settled["done"] >= 2
        assert {3, 4} <= {row.job for row in await read(shop, PLAIN)}
        handlers = shop.mill.store.handlers  # type: ignore[attr-defined]
        assert handlers._in_use == 0


async def test_what_is_known_of_statements_goes_with_them(pg_url: str) -> None:
    def known() -> int:
        gc.collect()
        return sum(isinstance(thing, DirectStatement) for thing in gc.get_objects())

    async def block(tx: Any) -> None:
        for n in range(20):
            await tx.execute(sa.insert(PLAIN).values([{"job": 2 * n}, {"job": 2 * n + 1}]))

    async with shop_with_notes(pg_url) as shop:
        before = known()
        await in_block(shop, block)
        assert known() <= before + 1


async def do_nothing(job: Lease[Any]) -> None: ...


async def test_a_heavy_row_among_light_ones_is_weighed(pg_url: str) -> None:
    async with shop_on(pg_url) as shop:
        await shop.put(50)
        await shop.run(
            lambda connection: connection.execute(
                sa.update(shop.jobs.table).where(shop.jobs.table.c.id == 7).values(title="x" * 100_000)
            ).close()
        )
        shop.jobs.handler()(do_nothing)
        async with shop.mill.worker():
            leases = await shop.mill.store.claim(shop.jobs, shop.jobs.steps[0], 50, ByteLimit(10_000_000))
        weights = {lease.key: lease.weight for lease in leases}
        assert len(weights) == 50
        assert weights[7] > 100_000
        assert max(weight for key, weight in weights.items() if key != 7) < 10_000
