"""On SQLite a claim names its index: an index of the table's own on the state must not win."""

from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.store.order_per_key import priorities
from rowmill.store.sqlite.claim import claim_in_order, claim_statement
from rowmill.store.sqlite.store import SqliteStore


def jobs() -> sa.Table:
    moment = sa.DateTime(timezone=True)
    return sa.Table(
        "jobs",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("state", sa.Text),
        sa.Column("attempts", sa.Integer, server_default="0"),
        sa.Column("prio", sa.Integer),
        sa.Column("customer", sa.Text),
        sa.Column("lease", sa.BigInteger),
        sa.Column("error", sa.Text),
        *(sa.Column(name, moment) for name in ("available_at", "leased_until", "finished_at")),
        sa.Column("note", sa.Text),
        sa.Index("of_their_own", "state", "note"),
    )


@pytest.fixture(params=["plain", "priority", "in order"])
async def mill(request: pytest.FixtureRequest, sqlite_url: str) -> AsyncIterator[rm.Mill]:
    mill = rm.Mill(sqlite_url)
    if request.param == "priority":
        queue = mill.queue(jobs(), order=rm.Order(priority="prio"))
    elif request.param == "in order":
        queue = mill.queue(jobs(), order_per_key=rm.OrderPerKey(per="customer"))
    else:
        queue = mill.queue(jobs())
    async with mill.opened():
        await mill.migrate(tables=True)
        mill.store.worker = 1
        rows = [{"prio": n % 3, "customer": str(n)} for n in range(200)]
        await mill.run(lambda connection: connection.execute(queue.insert(rows)).close())
        yield mill


def plans(mill: rm.Mill) -> list[str]:
    """How SQLite carries out the statements that this store has made for claims."""
    store = mill.store
    assert isinstance(store, SqliteStore)
    made = store.statements(mill["jobs"]).texts
    statements = [text for wanted, text in made.items() if wanted[0] in (claim_statement, claim_in_order, priorities)]
    assert statements
    connection = store.writer.connection
    assert connection is not None
    given = {f"{place}": 0 for place in range(1, 5)}
    return [
        str(row[-1])
        for text in statements
        for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", given if "?1" in text else {})
    ]


async def claim(mill: rm.Mill, limit: int = 10) -> int:
    queue = mill["jobs"]
    return len(await mill.store.claim(queue, queue.steps[0], limit))


async def test_claims_are_served_by_the_ready_index(mill: rm.Mill) -> None:
    assert await claim(mill) == 10

    found = plans(mill)
    assert not [detail for detail in found if "of_their_own" in detail], found
    assert any("rowmill_jobs_work_ready" in detail for detail in found)


async def test_nothing_is_sorted(mill: rm.Mill) -> None:
    if mill["jobs"].per is not None:
        return  # its candidates are few, and put together from two lanes
    await claim(mill)

    assert not any("TEMP B-TREE FOR ORDER BY" in detail for detail in plans(mill))


async def test_without_the_index_rows_are_claimed_all_the_same(mill: rm.Mill) -> None:
    await mill.run(lambda connection: connection.execute(sa.text("DROP INDEX rowmill_jobs_work_ready")).close())

    assert await claim(mill) == 10


async def test_an_index_that_goes_away_meanwhile_is_done_without(mill: rm.Mill) -> None:
    assert await claim(mill) == 10
    await mill.run(lambda connection: connection.execute(sa.text("DROP INDEX rowmill_jobs_work_ready")).close())

    assert await claim(mill) == 10


async def test_an_index_of_that_name_for_other_words_is_done_without(mill: rm.Mill) -> None:
    def work(connection: sa.Connection) -> None:
        connection.execute(sa.text("DROP INDEX rowmill_jobs_work_ready"))
        connection.execute(sa.text("CREATE INDEX rowmill_jobs_work_ready ON jobs (id) WHERE state IN ('old')"))

    await mill.run(work)

    assert await claim(mill) == 10
