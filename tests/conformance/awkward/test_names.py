"""Names that need quotes, and tables that live elsewhere."""

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column, MetaData, Table

from rowmill import Columns, Done, Mill, Order, OrderPerKey, Queue, Stage, States
from tests.conformance.awkward.lifecycle import live
from tests.conformance.fleet import MOMENT, jobs, worker

ROWS: list[dict[str, Any]] = [{"title": str(n)} for n in range(4)]

NAMES = [
    "order", "select", "MixedCase", "with space", "a.dot", "a:colon", "100%", "%s", "quo\"te", "apo'strophe",
    "übung", "名前", "1st", "$1", "back\\slash", "semi;colon", "(bracket)", "?", "{}", "x" * 63, "ü" * 31,
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
async def test_any_name_for_a_table(database_url: str, name: str) -> None:
    async with worker(database_url, lambda mill: mill.queue(jobs(name=name))) as member:
        await live(member, list(ROWS))


ROLES = ("state", "attempts", "available_at", "lease", "leased_until", "error", "finished_at", "started_at")


@pytest.mark.parametrize("name", NAMES[:15])
async def test_any_name_for_columns(database_url: str, name: str) -> None:
    """For the key, every role, the priority, own columns, results: all of them awkward at once."""
    named = {role: f"{name} {place}" for place, role in enumerate(ROLES)}

    def declare(mill: Mill) -> Queue[Any]:
        table = Table(
            name,
            MetaData(),
            Column(f"{name} key", sa.Integer, primary_key=True),
            Column(name, sa.Text),
            Column(f"{name} rank", sa.Integer),
            Column(named["state"], sa.Text, nullable=False),
            Column(named["attempts"], sa.Integer, nullable=False, server_default="0"),
            Column(named["lease"], sa.BigInteger),
            Column(named["error"], sa.Text),
            *(Column(named[role], MOMENT) for role in ("available_at", "leased_until", "finished_at", "started_at")),
        )
        queue = mill.queue(table, columns=Columns(**named), order=Order(priority=f"{name} rank", by=(name,)))

        @queue.handler()
        async def work(lease: Any) -> Any:
            return Done({name: f"done by {lease.attempt}"})

        return queue

    async with worker(database_url, declare) as member:
        await live(member, [{name: str(n), f"{name} rank": 4 - n} for n in range(4)])
        await member.put({name: "new"})
        await member.bench.drain()
        rows = await member.read(sa.select(member.queue.table.columns[name]))
        assert ("done by 1",) in [tuple(row) for row in rows]


@pytest.mark.parametrize("name", ["order", "a.dot", "a:colon", "100%", "名前", 'quo"te'])
async def test_order_per_key_with_any_name(database_url: str, name: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(Column(name, sa.Text), name=f"the {name}"), order_per_key=OrderPerKey(per=name))

    async with worker(database_url, declare) as member:
        await member.queue.load([{"title": str(n), name: f"key {n % 2}"} for n in range(4)])
        assert sorted(lease.row.title for lease in await member.claim(10)) == ["0", "1"]


@pytest.mark.parametrize("name", ["level", "every", "candidate", "head", "top", "lane", "given", "settled", "history"])
async def test_a_table_named_like_a_part_of_a_statement(database_url: str, name: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        table = jobs(Column("key", sa.Text), Column("rank", sa.Integer), name=name)
        return mill.queue(table, order=Order(priority="rank"), order_per_key=OrderPerKey(per="key"))

    def unordered(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(Column("rank", sa.Integer), name=name), order=Order(priority="rank"))

    async with worker(database_url, declare) as member:
        await member.queue.load([{"title": str(n), "key": f"key {n % 2}"} for n in range(4)])
        leases = await member.claim(10)
        assert sorted(lease.row.title for lease in leases) == ["0", "1"]
        assert (await member.settle(*((lease, None) for lease in leases))).kept == 2
    async with worker(database_url, unordered) as member:
        assert len(await member.claim(10)) == 2


@pytest.mark.parametrize("schema", ["enterprise", "My Schema", "select", "dot.ted", "per%cent", "co:lon"])
async def test_a_table_in_a_schema(database_url: str, schema: str) -> None:
    async with worker(database_url, lambda mill: mill.queue(jobs(schema=schema))) as member:
        await live(member, list(ROWS))


async def test_a_schema_that_is_not_there_is_made_with_its_table(database_url: str) -> None:
    mill = Mill(database_url)
    queue = mill.queue(jobs(schema="My Schema"))

    await mill.migrate(tables=True)
    await queue.load(ROWS)

    assert await mill.run(lambda connection: len(connection.execute(sa.select(queue.table)).all())) == len(ROWS)


async def test_users_statements_find_a_table_with_a_schema_on_sqlite_too(sqlite_url: str) -> None:
    """A file has no schemas: the ORM's statements go to the bare name, in and beside handlers."""

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(schema="enterprise"))

    async with worker(sqlite_url, declare) as member:
        table = member.queue.table

        @member.queue.handler()
        async def work(lease: Any) -> None:
            async with lease.settling() as session:
                await session.execute(sa.update(table).where(table.c.id == lease.key).values(title="by the handler"))

        await member.put({})
        await member.bench.drain()
        row = await member.row()
        assert (row.state, row.title) == ("done", "by the handler")


@pytest.mark.parametrize("stage", ["two words", "a.dot", "100%", "名前", "quo'te", "x" * 200])
async def test_any_name_for_a_stage(database_url: str, stage: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(), stages=[Stage(stage, "ready", "running"), Stage(stage + "2", "ready 2", "running 2")])

    async with worker(database_url, declare) as member:
        await member.put({})
        [lease] = await member.claim(stage=stage)
        await member.settle((lease, None))
        assert len(await member.claim(stage=stage + "2")) == 1


async def test_long_names_have_indexes_of_their_own(database_url: str) -> None:
    """63 bytes are all that PostgreSQL keeps of a name; two indexes must not become one."""
    name = "ü" * 25

    def declare(mill: Mill) -> Queue[Any]:
        stages = [Stage(f"{'stage' * 10} {n}", f"ready {n}", f"running {n}") for n in range(3)]
        return mill.queue(jobs(name=name), states=States(), stages=stages)

    async with worker(database_url, declare) as member:
        found = await member.mill.run(lambda connection: sa.inspect(connection).get_indexes(name))
        assert len([index for index in found if str(index["name"]).startswith("rowmill_")]) == 4


async def test_columns_of_a_table_that_go_by_another_key(database_url: str) -> None:
    """`Column("Status", key="status")`: Python says one, the database the other. Both are understood."""

    def declare(mill: Mill) -> Queue[Any]:
        more = [
            Column("Status", sa.Text, key="status", nullable=False),
            Column("Result", sa.Text, key="result"),
            Column("Rank", sa.Integer, key="rank"),
        ]
        table = jobs(*more, key=[Column("Job No", sa.Integer, key="number", primary_key=True)])
        columns = [column for column in table.columns if column.name != "state"]
        table = Table("others", MetaData(), *(column._copy() for column in columns))
        queue = mill.queue(table, columns=Columns(state="status"), order=Order(priority="rank"))

        @queue.handler()
        async def work(lease: Any) -> Any:
            return {"Result": "by its name"} if lease.row.title == "name" else {"result": "by its key"}

        return queue

    async with worker(database_url, declare) as member:
        await live(member, list(ROWS))
        await member.sql("DELETE FROM others")
        await member.put({"title": "name", "Rank": 1}, {"title": "key", "Rank": 2})
        await member.bench.drain()
        assert [row.result for row in await member.rows()] == ["by its name", "by its key"]
