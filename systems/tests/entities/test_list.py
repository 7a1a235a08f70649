"""The list of entities: each page reads from an index, and a filter looks at a bounded number of rows."""

import re
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill_systems.entities import reads
from systems.tests.entities.harness import EntitiesHarness, FakeSource, entities_on

ROWS = 3000


async def fill(harness: EntitiesHarness) -> None:
    """Insert entities of which many share a name, and every tenth has no time."""
    rows = [
        {
            "entity_id": f"{number:05}",
            "name": f"Name {number % 700}",
            "enrichment_status": "FAILED" if number % 1000 == 7 else "COMPLETE",
            "linking_confidence": None if number % 3 else number / ROWS,
        }
        for number in range(ROWS)
    ]
    table = harness.tables.entity.__table__

    def insert(connection: sa.Connection) -> None:
        connection.execute(table.insert(), rows)
        connection.execute(table.update().where(table.c.entity_id.like("%5")).values(created_at=None))

    await harness.mill.run(insert)
    await harness.execute(sa.text("ANALYZE"))


def pages(connection: sa.Connection, harness: EntitiesHarness, **asked: Any) -> list[str]:
    """The ids of all pages, one after the other."""
    found: list[str] = []
    after = ""
    while True:
        page = reads.entity_list(connection, harness.tables, after=after, limit=100, **asked)
        found += [row["id"] for row in page.rows]
        if page.next is None:
            return found
        after = page.next


SORTS = ("name", "-name", "confidence", "-confidence", "added", "-added")


def plans_of(connection: sa.Connection, harness: EntitiesHarness, **asked: str) -> list[str]:
    """How the database would read the first page of a list and one in the middle of it."""
    ran: list[tuple[str, Any]] = []

    def keep(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_more: Any) -> None:
        ran.append((statement, parameters))

    sa.event.listen(connection, "before_cursor_execute", keep)
    first = reads.entity_list(connection, harness.tables, limit=2, **asked)
    assert first.next is not None
    reads.entity_list(connection, harness.tables, limit=2, after=first.next, **asked)
    sa.event.remove(connection, "before_cursor_execute", keep)
    how = "EXPLAIN" if connection.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN"
    plans = [connection.exec_driver_sql(f"{how} {text}", given).all() for text, given in ran]
    return ["\n".join(str(row[-1]) for row in plan) for plan in plans]


@pytest.mark.parametrize("asked", [{}, {"search": "NAME 6"}, {"status": "FAILED"}])
async def test_a_page_reads_from_an_index_and_does_not_sort_the_table(database_url: str, asked: dict[str, str]) -> None:
    async with entities_on(database_url, FakeSource(), id_type="text") as harness:
        await fill(harness)

        def check(connection: sa.Connection) -> None:
            if connection.dialect.name == "postgresql":  # of a small table it would rather read and sort all
                for other in ("seqscan", "bitmapscan", "sort"):
                    connection.exec_driver_sql(f"SET LOCAL enable_{other} = off")
            for sort in SORTS:
                served_by = "status" if asked.get("status") and sort.endswith("added") else sort.removeprefix("-")
                plans = plans_of(connection, harness, sort=sort, **asked)
                assert len(plans) >= 2
                for plan in plans:
                    assert f"ix_entities_by_{served_by}" in plan, plan
                    # SQLite sorts once more what it found among the rows that it looked at.
                    assert not re.search(r"Sort|TEMP B-TREE|Seq Scan", plan.split("SCAN anon_1")[0]), plan

        await harness.mill.run(check, write=False)


async def test_every_order_lists_all_entities_once(database_url: str) -> None:
    async with entities_on(database_url, FakeSource(), id_type="text") as harness:
        await fill(harness)
        for sort in SORTS:
            found = await harness.mill.run(partial(pages, harness=harness, sort=sort), write=False)
            assert len(found) == ROWS
            assert set(found) == {f"{number:05}" for number in range(ROWS)}


@pytest.mark.parametrize("asked", [{"status": "FAILED"}, {"status": "FAILED", "sort": "name"}])
async def test_a_filter_finds_few_among_many(database_url: str, asked: dict[str, str]) -> None:
    async with entities_on(database_url, FakeSource(), id_type="text") as harness:
        await fill(harness)
        found = await harness.mill.run(lambda connection: pages(connection, harness, **asked), write=False)
        assert sorted(found) == ["00007", "01007", "02007"]
