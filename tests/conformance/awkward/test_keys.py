"""Keys of every kind."""

import enum
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column
from sqlalchemy.dialects import postgresql

from rowmill import Mill, Order, Queue
from rowmill.operator.change import prune, requeue
from rowmill.operator.filters import Filter
from tests.conformance.awkward.lifecycle import live
from tests.conformance.fleet import jobs, worker
from tests.conformance.test_values import Guid, Shouted


class Suit(enum.Enum):
    CLUBS = 1
    HEARTS = 2
    SPADES = 3
    DIAMONDS = 4


def part(name: str, kind: Any) -> "Column[Any]":
    return Column(name, kind, primary_key=True, autoincrement=False)


Rows = Callable[[int], dict[str, Any]]
ANYWHERE: dict[str, tuple[Sequence[tuple[str, Any]], Rows]] = {
    "text": ([("id", sa.Text)], lambda n: {"id": f"k|{n} 'ü\" %"}),
    "varchar": ([("id", sa.String(3))], lambda n: {"id": f"k{n}"}),
    "uuid": ([("id", sa.Uuid)], lambda n: {"id": uuid.UUID(int=2**100 + n)}),
    "uuid as text": ([("id", sa.Uuid(native_uuid=False))], lambda n: {"id": uuid.UUID(int=n)}),
    "uuid strings": ([("id", sa.Uuid(as_uuid=False))], lambda n: {"id": str(uuid.UUID(int=n))}),
    "guid": ([("id", Guid)], lambda n: {"id": uuid.UUID(int=n)}),
    "bytes": ([("id", sa.LargeBinary)], lambda n: {"id": bytes([0, n])}),
    "day": ([("id", sa.Date)], lambda n: {"id": date(2024, 1, n + 1)}),
    "moment": ([("id", sa.DateTime)], lambda n: {"id": datetime(2024, 1, 1, n)}),
    "enum": ([("id", sa.Enum(Suit, name="suit"))], lambda n: {"id": list(Suit)[n]}),
    "boolean and number": ([("a", sa.Boolean), ("b", sa.SmallInteger)], lambda n: {"a": n % 2 == 0, "b": n // 2}),
    "decorated": ([("id", Shouted)], lambda n: {"id": f"key {n}"}),
    "two parts": ([("tenant", sa.Text), ("number", sa.Integer)], lambda n: {"tenant": f"t{n % 2}", "number": n // 2}),
    "three parts": (
        [("a", sa.Uuid), ("b", sa.Date), ("c", sa.String(4))],
        lambda n: {"a": uuid.UUID(int=n % 2), "b": date(2024, 1, 1), "c": f"c{n}"},
    ),
}
POSTGRES: dict[str, tuple[Sequence[tuple[str, Any]], Rows]] = {
    "char": ([("id", sa.CHAR(6))], lambda n: {"id": f"k{n}".ljust(6)}),
    "numeric": ([("id", sa.Numeric(20, 4))], lambda n: {"id": Decimal(n) / 4}),
    "moment with zone": ([("id", sa.DateTime(timezone=True))], lambda n: {"id": datetime(2024, 1, 1, n, tzinfo=UTC)}),
    "inet": ([("id", postgresql.INET)], lambda n: {"id": f"10.0.0.{n}"}),
    "inet of both versions": ([("id", postgresql.INET)], lambda n: {"id": f"10.0.0.{n}" if n % 2 else f"fe80::{n}"}),
    "collated": ([("id", sa.String(9, collation="C")), ("b", sa.Integer)], lambda n: {"id": f"k{n}", "b": n}),
    "enum and number": (
        [("a", sa.Enum(Suit, name="suit")), ("b", sa.BigInteger)],
        lambda n: {"a": list(Suit)[n], "b": n},
    ),
    "char and number": ([("a", sa.CHAR(6)), ("b", sa.Integer)], lambda n: {"a": f"k{n}".ljust(6), "b": n}),
}
CASES = [(store, name) for name in ANYWHERE for store in ("postgres", "sqlite")] + [("postgres", n) for n in POSTGRES]


@pytest.mark.parametrize(
    ("database_url", "case"), CASES, ids=[f"{store} {name}" for store, name in CASES], indirect=["database_url"]
)
async def test_keys_of_every_kind(database_url: str, case: str) -> None:
    parts, row = (ANYWHERE | POSTGRES)[case]

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(key=[part(name, kind) for name, kind in parts]))

    async with worker(database_url, declare) as member:
        await live(member, [row(n) for n in range(4)])


async def test_a_composite_key_with_priorities_and_own_columns(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        table = jobs(
            Column("rank", sa.Integer),
            Column("customer", sa.Text),
            key=[part("tenant", sa.Text), part("number", sa.Integer)],
        )
        return mill.queue(table, order=Order(priority="rank", by=("customer",)))

    async with worker(database_url, declare) as member:
        rows: list[dict[str, Any]] = [
            {"tenant": "t", "number": n, "rank": n % 3, "customer": f"c{n % 2}"} for n in range(30)
        ]
        await member.queue.load(rows)
        expected = sorted(rows, key=lambda row: (-row["rank"], row["customer"], row["number"]))
        found = [lease.key[1] for _ in range(8) for lease in await member.claim(4)]
        assert found == [row["number"] for row in expected]


async def test_the_key_of_a_lease_is_what_the_class_would_have(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(key=[part("a", sa.Uuid), part("b", sa.Enum(Suit, name="suit"))]))

    async with worker(database_url, declare) as member:
        await member.put({"a": uuid.UUID(int=1), "b": Suit.SPADES})
        [lease] = await member.claim()
        assert lease.key == (uuid.UUID(int=1), Suit.SPADES)


async def test_keys_that_others_spell_differently_are_the_same_row(sqlite_url: str) -> None:
    """SQLite keeps what it is given: a time without fractions, a uuid with dashes. The row is settled all the same."""

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(key=[part("day", sa.DateTime), part("token", sa.Uuid)]))

    async with worker(sqlite_url, declare) as member:
        for token in ("00000000-0000-0000-0000-00000000000A", "0000000000000000000000000000000b"):
            await member.sql(f"INSERT INTO jobs (day, token, state) VALUES ('2024-01-01 10:00:00', '{token}', 'ready')")
        first, second = await member.claim(2)
        assert first.key == (datetime(2024, 1, 1, 10), uuid.UUID(int=10))
        assert (await member.store.renew([first, second])).lost == []
        assert (await member.settle((first, None))).kept == 1
        await member.expire()
        assert (await member.rescue()).returned == 1


async def test_operators_reach_rows_whose_keys_others_spell_differently(sqlite_url: str) -> None:
    """Requeue and prune, in batches smaller than the table."""

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(key=[part("day", sa.DateTime), part("token", sa.Uuid)]))

    async with worker(sqlite_url, declare) as member:
        for n in range(5):
            key = f"'2024-01-0{n + 1} 10:00:00', '00000000-0000-0000-0000-00000000000{n}'"
            await member.sql(f"INSERT INTO jobs (day, token, state) VALUES ({key}, 'dead')")
        assert (await requeue(member.store, member.queue, Filter(), batch=2)).rows == 5
        leases = await member.claim(10)
        await member.settle(*((lease, None) for lease in leases))
        await member.bench.advance(10)
        await member.sql("UPDATE jobs SET finished_at = '2020-01-01 00:00:00'")
        assert (await prune(member.store, member.queue, Filter(), timedelta(days=1), batch=2)).rows == 5


async def test_rows_of_sqlite_that_have_no_key_are_in_nobody_s_way(sqlite_url: str) -> None:
    """A key of text may be NULL there. Such a row can't be told from another: it is not claimed, and others are."""

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(key=[part("id", sa.Text)]))

    async with worker(sqlite_url, declare) as member:
        await member.sql("DROP TABLE jobs")
        columns = "title, state, attempts DEFAULT 0, available_at, lease, leased_until, error, finished_at"
        await member.sql(f"CREATE TABLE jobs (id TEXT PRIMARY KEY, {columns})")
        for key in ("NULL", "NULL", "'a'"):
            await member.sql(f"INSERT INTO jobs (id, state) VALUES ({key}, 'ready')")
        assert [lease.key for lease in await member.claim(2)] == ["a"]


async def test_values_of_several_types_in_one_column_of_sqlite(sqlite_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(key=[part("id", sa.LargeBinary)]))

    async with worker(sqlite_url, declare) as member:
        for key in ("'text'", "x'00ff'", "7", "1.5"):
            await member.sql(f"INSERT INTO jobs (id, state) VALUES ({key}, 'ready')")
        leases = await member.claim(10)
        assert len(leases) == 4
        assert (await member.settle(*((lease, None) for lease in leases))).kept == 4
