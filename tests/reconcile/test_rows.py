"""Rows as an inventory: every row once, in Python's order, on both stores."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import rowmill as rm
from rowmill import reconcile
from rowmill.reconcile.rows import RowInventory, order_of

# In a dictionary they stand in another order: case, umlauts, dashes and digits.
AWKWARD = [
    "a",
    "B",
    "A",
    "b",
    "Z",
    "ä",
    "z",
    "a-b",
    "ab",
    "a b",
    "a/b",
    "a.b",
    "10",
    "9",
    "é",
    "e",
    "日本",
    "\U0001f600",
]
MANY = 4500
"""More than two pages."""


async def walked(mill: rm.Mill, rows: RowInventory) -> list[Any]:
    async with mill.opened() as store:
        return [item async for page in rows.walk(store) for item in page]


async def filled(url: str, table: sa.Table, rows: list[dict[str, Any]]) -> rm.Mill:
    def make(connection: Connection) -> None:
        table.create(connection)
        connection.execute(sa.insert(table), rows)

    mill = rm.Mill(url)
    await mill.run(make)
    return mill


def table_of(key: Any, *more: "sa.Column[Any]") -> sa.Table:
    return sa.Table("thing", sa.MetaData(), sa.Column("id", key, primary_key=True), *more)


async def served(mill: rm.Mill, rows: RowInventory) -> bool:
    return await mill.run(lambda connection: order_of(connection, rows.listing), write=False) is not None


@pytest.mark.parametrize("kind", ["int", "uuid", "str"])
async def test_every_row_comes_once_in_the_order_of_its_key(database_url: str, kind: str) -> None:
    every: dict[str, list[Any]] = {
        "int": [number * 7 - 5000 for number in range(MANY)],
        "uuid": [uuid4() for _ in range(MANY)],
        "str": [f"{number % 97}-{word}-{number}" for number, word in enumerate(AWKWARD * (MANY // len(AWKWARD)))],
    }
    keys = every[kind]
    table = table_of({"int": sa.BigInteger, "uuid": sa.Uuid, "str": sa.Text}[kind])
    mill = await filled(database_url, table, [{"id": key} for key in keys])

    assert [key for key, _ in await walked(mill, reconcile.rows(table))] == sorted(keys)


async def foreign(url: str) -> str:
    """An order of this server's that is not "C": a language's if it has one."""
    wanted = sa.text(
        "SELECT collname FROM pg_collation WHERE collname IN ('en_US.utf8', 'de_DE.utf8', 'en-x-icu', 'ucs_basic') "
        "AND collencoding IN (-1, pg_char_to_encoding('UTF8')) ORDER BY collname = 'ucs_basic' LIMIT 1"
    )
    return str(await rm.Mill(url).run(lambda connection: connection.scalar(wanted)))


async def test_text_is_in_bytewise_order_whatever_the_language_of_the_column(pg_url: str) -> None:
    for collation, by_index in (("C", True), (await foreign(pg_url), False), (None, None)):
        table = table_of(sa.Text(collation=collation))
        mill = await filled(pg_url, table, [{"id": key} for key in AWKWARD])
        rows = reconcile.rows(table)

        assert [key for key, _ in await walked(mill, rows)] == sorted(AWKWARD)
        assert by_index is None or await served(mill, rows) is by_index
        await mill.run(table.drop)


async def test_a_server_that_sorts_by_bytes_reads_text_by_its_usual_index(pg_url: str) -> None:
    table = table_of(sa.Text)
    mill = await filled(pg_url, table, [{"id": key} for key in AWKWARD])
    bytewise = sa.text("SELECT datcollate IN ('C', 'POSIX') FROM pg_database WHERE datname = current_database()")

    assert await served(mill, reconcile.rows(table)) is await mill.run(lambda connection: connection.scalar(bytewise))


async def test_an_index_in_bytewise_order_serves_text_of_any_language(pg_url: str) -> None:
    table = table_of(sa.Text(collation=await foreign(pg_url)))
    mill = await filled(pg_url, table, [{"id": key} for key in AWKWARD])
    assert not await served(mill, reconcile.rows(table))
    await mill.run(lambda c: c.exec_driver_sql('CREATE INDEX thing_bytewise ON thing (id COLLATE "C")').close())

    assert await served(mill, reconcile.rows(table))


async def test_text_that_ignores_case_in_the_file_is_in_bytewise_order(sqlite_url: str) -> None:
    words = ["a", "B", "c", "D"]
    table = table_of(sa.Text(collation="NOCASE"))
    mill = await filled(sqlite_url, table, [{"id": key} for key in words])
    rows = reconcile.rows(table)

    assert not await served(mill, rows)
    assert [key for key, _ in await walked(mill, rows)] == ["B", "D", "a", "c"]


async def test_keys_are_read_by_their_index(database_url: str) -> None:
    table = table_of(
        sa.Integer, sa.Column("code", sa.Integer, unique=True, nullable=False), sa.Column("plain", sa.Integer)
    )
    mill = await filled(database_url, table, [{"id": n, "code": 9 - n, "plain": 5 - n} for n in range(5)])

    assert await served(mill, reconcile.rows(table))
    assert await served(mill, reconcile.rows(table, key="code"))
    assert not await served(mill, reconcile.rows(table, key="plain"))
    assert [key for key, _ in await walked(mill, reconcile.rows(table, key="code"))] == [5, 6, 7, 8, 9]
    assert [key for key, _ in await walked(mill, reconcile.rows(table, key="plain"))] == [1, 2, 3, 4, 5]


async def test_a_key_may_be_made_of_another_and_rows_without_one_do_not_count(database_url: str) -> None:
    table = table_of(sa.Integer, sa.Column("path", sa.Text))
    rows: list[dict[str, Any]] = [{"id": 1, "path": "b"}, {"id": 10, "path": None}, {"id": 9, "path": "a"}]
    mill = await filled(database_url, table, rows)

    as_text = reconcile.rows(table, key=sa.cast(table.c.id, sa.Text))
    assert [key for key, _ in await walked(mill, as_text)] == ["1", "10", "9"]
    assert [key for key, _ in await walked(mill, reconcile.rows(table, key="path"))] == ["a", "b"]


async def test_a_table_with_a_key_of_two_columns_is_read_in_pages_too(database_url: str) -> None:
    table = sa.Table(
        "part", sa.MetaData(), sa.Column("a", sa.Integer, primary_key=True), sa.Column("b", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
    )  # fmt: skip
    rows: list[dict[str, Any]] = [{"a": n % 7, "b": f"{n}", "name": f"n{n}"} for n in range(MANY)]
    mill = await filled(database_url, table, rows)

    found = await walked(mill, reconcile.rows(table, key="name"))
    assert [key for key, _ in found] == sorted(row["name"] for row in rows)


async def test_facts_and_conditions_are_those_of_the_declaration(database_url: str) -> None:
    class Base(DeclarativeBase): ...

    class Document(Base):
        __tablename__ = "document"
        id: Mapped[UUID] = mapped_column(primary_key=True)
        status: Mapped[str] = mapped_column("doc_status")
        changed = mapped_column(sa.DateTime(timezone=True))

    at = datetime(2026, 1, 31, tzinfo=UTC)
    mill = await filled(
        database_url, Base.metadata.tables["document"],
        [{"id": UUID(int=n), "doc_status": "READY" if n % 2 else "NEW", "changed": at} for n in range(4)],
    )  # fmt: skip
    rows = reconcile.rows(Document, facts=["status"], at="changed", where=Document.status == "READY")

    found = await walked(mill, rows)
    assert [(key, facts["status"]) for key, facts in found] == [(UUID(int=1), "READY"), (UUID(int=3), "READY")]
    assert rows.time_of(found[0][1]) == at
    async with mill.opened() as store:
        rechecked = await rows.look(store, [UUID(int=2), UUID(int=3), UUID(int=99)])
    assert list(rechecked) == [UUID(int=3)], "the condition holds for a second look as well"


async def test_a_condition_may_ask_other_tables(database_url: str) -> None:
    class Base(DeclarativeBase): ...

    class Owner(Base):
        __tablename__ = "owner"
        id: Mapped[int] = mapped_column(primary_key=True)
        thing: Mapped[int]

    class Thing(Base):
        __tablename__ = "thing"
        id: Mapped[int] = mapped_column(primary_key=True)
        code: Mapped[str] = mapped_column(unique=True)

    mill = rm.Mill(database_url)
    await mill.run(Base.metadata.create_all)
    things = [{"id": n, "code": f"c{n}"} for n in range(MANY)]
    await mill.run(lambda c: c.execute(sa.insert(Thing), things).close())
    await mill.run(lambda c: c.execute(sa.insert(Owner), [{"thing": n} for n in range(0, MANY, 2)]).close())
    owned = reconcile.rows(Thing, key=Thing.code, where=sa.exists().where(Owner.thing == Thing.id))

    assert [key for key, _ in await walked(mill, owned)] == sorted(f"c{n}" for n in range(0, MANY, 2))


@pytest.mark.parametrize("indexed", [True, False])
async def test_many_rows_of_a_key_are_one_thing_as_young_as_the_youngest(database_url: str, indexed: bool) -> None:
    table = table_of(
        sa.Integer,
        sa.Column("doc", sa.Integer, nullable=False, index=indexed),
        sa.Column("at", sa.DateTime(timezone=True)),
    )
    begin = datetime(2026, 1, 31, tzinfo=UTC)
    rows = [{"id": n, "doc": n % 3, "at": begin + timedelta(hours=n)} for n in range(9)]
    mill = await filled(database_url, table, rows)
    chunks = reconcile.rows(table, key="doc", at="at", many=True)
    rule = reconcile.missing("orphan", present="chunks", absent="docs")
    orphans = mill.reconciliation(
        "chunks", inventories={"chunks": chunks, "docs": reconcile.inventory([1])}, rules=[rule]
    )
    await mill.migrate()
    found = await orphans.run()

    assert await served(mill, chunks) is indexed
    assert [(one.key, one.times["chunks"]) for one in found.findings] == [
        (0, begin + timedelta(hours=6)),
        (2, begin + timedelta(hours=8)),
    ]


async def test_a_page_is_a_transaction_of_its_own(database_url: str) -> None:
    """Rows that come while others are read are read too, if their place is still ahead."""
    table = table_of(sa.Integer)
    mill = await filled(database_url, table, [{"id": n} for n in range(MANY)])
    found: list[int] = []

    def put(connection: Connection) -> None:
        connection.execute(sa.insert(table).values(id=100_000 + len(found)))

    async with mill.opened() as store:
        async for page in reconcile.rows(table).walk(store):
            found += [key for key, _ in page]
            if len(found) < MANY:
                await mill.run(put)

    assert len(found) == MANY + 2
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"key": "nope"}, "the key nope is no column of table part"),
        ({}, "the primary key of table part has 2 columns: say which is the key"),
        ({"key": "on"}, "whose order may differ from place to place"),
        ({"key": "a", "many": True, "facts": ["b"]}, "its only fact is the latest time"),
        ({"key": "a", "at": "gone"}, "the time gone is no column"),
    ],
)
def test_what_is_wrong_with_an_inventory_of_rows_is_said_at_once(options: dict[str, Any], said: str) -> None:
    table = sa.Table(
        "part", sa.MetaData(), sa.Column("a", sa.Integer, primary_key=True), sa.Column("b", sa.Text, primary_key=True),
        sa.Column("on", sa.Date),
    )  # fmt: skip
    with pytest.raises(rm.errors.DeclarationError, match=said):
        reconcile.rows(table, **options)
