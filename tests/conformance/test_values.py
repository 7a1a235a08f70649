"""Result columns of every type: written with the new state, read back as they were given."""

import enum
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa
from sqlalchemy import Column
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import Range

from rowmill import Done, Mill, Queue
from tests.conformance.fleet import Member, jobs, worker

BIT_STRING: Any = getattr(postgresql, "BitString", asyncpg.BitString)
"""What a value of type BIT is: of SQLAlchemy's own class since 2.1, of the driver's before."""


class Mood(enum.Enum):
    GLAD = "glad"
    SAD = "sad"


class Shouted(sa.types.TypeDecorator[str]):
    """Stored in capitals."""

    impl = sa.String(20)
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        return None if value is None else value.upper()

    def process_result_value(self, value: str | None, dialect: Any) -> str | None:
        return None if value is None else value.lower()


class Guid(sa.types.TypeDecorator[uuid.UUID]):
    """The recipe of SQLAlchemy's documentation: another type on each database."""

    impl = sa.CHAR
    cache_ok = True

    def load_dialect_impl(self, dialect: Any) -> Any:
        return dialect.type_descriptor(postgresql.UUID() if dialect.name == "postgresql" else sa.CHAR(32))

    def process_bind_param(self, value: uuid.UUID | None, dialect: Any) -> Any:
        return value if value is None or dialect.name == "postgresql" else value.hex

    def process_result_value(self, value: Any, dialect: Any) -> uuid.UUID | None:
        return value if value is None or isinstance(value, uuid.UUID) else uuid.UUID(value)


ANYWHERE: dict[str, tuple[Any, list[Any]]] = {
    "text": (sa.Text(), ["", "ä ' \" \\ % : $1 {} \n", "x" * 100_000]),
    "varchar": (sa.String(5), ["12345", "ümläü", ""]),
    "char": (sa.CHAR(5), ["12345"]),
    "integer": (sa.Integer(), [0, -(2**31), 2**31 - 1]),
    "bigint": (sa.BigInteger(), [2**62, -(2**62)]),
    "smallint": (sa.SmallInteger(), [-7]),
    "float": (sa.Float(), [0.1, -1e300, 5e-324]),
    "boolean": (sa.Boolean(), [True, False]),
    "json": (sa.JSON(), [{"a": [1, None, "ü"]}, [], "text", 5, False, {"quote": "'\"\\"}]),
    "moment": (sa.DateTime(), [datetime(2024, 2, 29, 12, 30, 15, 123456), datetime(1, 1, 1), datetime(9999, 12, 31)]),
    "day": (sa.Date(), [date(2024, 2, 29)]),
    "clock": (sa.Time(), [time(23, 59, 59, 999999)]),
    "span": (sa.Interval(), [timedelta(days=3, seconds=1, microseconds=5)]),
    "uuid": (sa.Uuid(), [uuid.UUID(int=2**127 + 5)]),
    "uuid text": (sa.Uuid(native_uuid=False), [uuid.UUID(int=7)]),
    "enum class": (sa.Enum(Mood, name="mood"), [Mood.GLAD]),
    "enum values": (
        sa.Enum(Mood, name="mood_values", values_callable=lambda kind: [item.value for item in kind]),
        [Mood.SAD],
    ),
    "enum text": (sa.Enum("a", "b c", name="letters", native_enum=False), ["b c"]),
    "bytes": (sa.LargeBinary(), [b"\x00\xff", b""]),
    "decorated": (Shouted(), ["loud"]),
    "guid": (Guid(), [uuid.UUID(int=9)]),
    "pickled": (sa.PickleType(), [{"any": {1, 2}}]),
}
POSTGRES: dict[str, tuple[Any, list[Any]]] = {
    "numeric": (sa.Numeric(30, 10), [Decimal("12345678901234567890.0123456789"), Decimal("-1")]),
    "numeric as float": (sa.Numeric(10, 2, asdecimal=False), [1.25]),
    "float as decimal": (sa.Float(asdecimal=True), [Decimal("1.25")]),
    "moment with zone": (sa.DateTime(timezone=True), [datetime(2024, 2, 29, 12, 30, tzinfo=UTC)]),
    "jsonb": (postgresql.JSONB(), [{"b": 1, "a": [None]}, "text", 7]),
    "array": (postgresql.ARRAY(sa.Text()), [["a", 'b"c', "d\\e", "", "NULL", "{}", "f,g"], []]),
    "array of numbers": (postgresql.ARRAY(sa.Integer()), [[1, -2]]),
    "array of arrays": (postgresql.ARRAY(sa.Integer(), dimensions=2), [[[1, 2], [3, 4]]]),
    "array with nothing": (sa.ARRAY(sa.Text()), [["a", None]]),
    "array of uuid": (postgresql.ARRAY(sa.Uuid()), [[uuid.UUID(int=3)]]),
    "array of json": (postgresql.ARRAY(postgresql.JSONB()), [[{"a": 1}, {"b": [2]}]]),
    "array of enum": (postgresql.ARRAY(sa.Enum("x", "y z", name="small")), [["x", "y z"]]),
    "array of floats": (postgresql.ARRAY(sa.Float()), [[1.5, -0.25]]),
    "array of numerics": (postgresql.ARRAY(sa.Numeric()), [[Decimal("1.50")]]),
    "array of moments": (postgresql.ARRAY(sa.DateTime()), [[datetime(2024, 1, 2, 3, 4, 5)]]),
    "array of bytes": (postgresql.ARRAY(sa.LargeBinary()), [[b"abc", b"\x00\xff", b""]]),
    "range": (postgresql.INT4RANGE(), [Range(1, 5), Range(None, 7), Range(empty=True)]),
    "range of moments": (postgresql.TSRANGE(), [Range(datetime(2024, 1, 2), datetime(2024, 1, 3), bounds="[]")]),
    "multirange": (postgresql.INT4MULTIRANGE(), [[Range(1, 5), Range(7, 9)], []]),
    "bits": (postgresql.BIT(6), [BIT_STRING("101011")]),
    "array of ranges": (postgresql.ARRAY(postgresql.INT4RANGE()), [[Range(1, 5), Range(7, None)]]),
    "collated": (sa.String(20, collation="C"), ["abc"]),
    "native enum": (postgresql.ENUM("u", "v", name="uv"), ["v"]),
    "char collated": (sa.CHAR(3, collation="C"), ["abc"]),
}


SQLITE: dict[str, tuple[Any, list[Any]]] = {
    "numeric as float": (sa.Numeric(10, 2, asdecimal=False), [1.25]),
}


class Catalogue:
    """A table with a column of every type that a store has, and rows that fill them."""

    def __init__(self, url: str) -> None:
        self.types = ANYWHERE | (POSTGRES if url.startswith("postgresql") else SQLITE)
        number = max(len(values) for _, values in self.types.values())
        self.rows = [{name: values[n % len(values)] for name, (_, values) in self.types.items()} for n in range(number)]

    def declare(self, mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(*(Column(name, kind) for name, (kind, _) in self.types.items())))

    def read(self, row: Any) -> dict[str, Any]:
        return {name: row[name] for name in self.types}

    async def stored(self, member: Member) -> list[dict[str, Any]]:
        table = member.queue.table
        return [self.read(row._mapping) for row in await member.read(sa.select(table).order_by(table.c.id))]


@pytest.fixture
def catalogue(database_url: str) -> Catalogue:
    return Catalogue(database_url)


async def test_settled_values_come_back_as_they_were_given(database_url: str, catalogue: Catalogue) -> None:
    async with worker(database_url, catalogue.declare) as member:
        await member.put(*({} for _ in catalogue.rows))
        leases = await member.claim(100)
        settled = await member.settle(*zip(leases, catalogue.rows, strict=True))
        assert (settled.kept, settled.refused) == (len(catalogue.rows), [])
        assert await catalogue.stored(member) == catalogue.rows


async def test_loaded_values_come_back_as_they_were_given(database_url: str, catalogue: Catalogue) -> None:
    async with worker(database_url, catalogue.declare) as member:
        await member.queue.load(catalogue.rows)
        assert await catalogue.stored(member) == catalogue.rows


async def test_a_claimed_row_reads_as_sqlalchemy_reads_it(database_url: str, catalogue: Catalogue) -> None:
    async with worker(database_url, catalogue.declare) as member:
        await member.queue.load(catalogue.rows)
        assert [catalogue.read(lease.row) for lease in await member.claim(100)] == catalogue.rows


async def test_nothing_is_a_value_too(database_url: str, catalogue: Catalogue) -> None:
    """Beside rows that do have one, in the same statement."""
    async with worker(database_url, catalogue.declare) as member:
        full = catalogue.rows[0]
        empty = dict.fromkeys(full)
        await member.put(full, full)
        first, second = await member.claim(2)
        assert (await member.settle((first, empty), (second, full))).kept == 2
        assert await catalogue.stored(member) == [empty, full]


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
async def test_values_are_written_inside_a_transaction_of_the_handler(
    database_url: str, catalogue: Catalogue, sync: bool
) -> None:
    """The drivers differ from those of the worker: psycopg and SQLAlchemy's own asyncpg."""
    async with worker(database_url, catalogue.declare) as member:
        await member.put({"title": "0"})

        if sync:

            @member.queue.handler()
            def work(lease: Any) -> None:
                with lease.settling(Done(catalogue.rows[0])) as session:
                    session.execute(sa.text("SELECT 1"))

        else:

            @member.queue.handler()
            async def work_async(lease: Any) -> None:
                async with lease.settling(Done(catalogue.rows[0])) as session:
                    await session.execute(sa.text("SELECT 1"))

        await member.bench.drain()
        row = await member.row()
        assert (row.state, row.error) == ("done", None)
        assert await catalogue.stored(member) == [catalogue.rows[0]]


@pytest.mark.parametrize("value", [["a", "b"], {"a", "b"}, ("a",), {"a": 1}, object(), 5, b"bytes", 1.5])
async def test_what_is_no_text_does_not_become_text(pg_url: str, value: Any) -> None:
    """A list most of all: as part of an array of values it would be taken for a dimension, and its parts would be
    written to other rows."""

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(Column("result", sa.Text)))

    async with worker(pg_url, declare) as member:
        await member.put({"title": "a"}, {"title": "b"}, {"title": "c"})
        a, b, c = await member.claim(3)
        settled = await member.settle((a, {"result": value}), (b, {"result": value}), (c, {"result": "good"}))
        assert settled.kept == 1
        assert [verdict.lease for verdict, _ in settled.refused] == [a, b]
        assert [row.result for row in await member.rows()] == [None, None, "good"]
