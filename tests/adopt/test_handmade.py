"""Tables as teams write them become queues: nothing lost, nothing repeated, nothing taken for stuck."""

from typing import Any

import pytest

import rowmill as rm
from rowmill.testing import Bench
from tests.adopt.conftest import Site
from tests.adopt.tables import HANDMADE, Handmade

pytestmark = pytest.mark.empty_database


@pytest.fixture(params=HANDMADE, ids=lambda handmade: handmade.name)
def handmade(request: pytest.FixtureRequest) -> Handmade:
    found: Handmade = request.param
    return found


async def counts(site: Site, handmade: Handmade) -> dict[str, int]:
    quoted = site.store.dialect.identifier_preparer.quote(handmade.table)
    rows = await site.rows(f"SELECT {handmade.state}, count(*) FROM {quoted} GROUP BY 1")
    return {repr(word): number for word, number in rows}


async def test_columns_and_words_are_guessed(site: Site, handmade: Handmade) -> None:
    await site.make(handmade)

    found = await site.look(handmade.table, handmade.choices)

    assert handmade.columns.items() <= found.columns.items()
    assert found.doubts == []
    assert found.plan.obstacles == []
    assert found.unknown == {}


async def test_looking_changes_nothing(site: Site, handmade: Handmade) -> None:
    await site.make(handmade)
    first = await site.look(handmade.table, handmade.choices)

    second = await site.look(handmade.table, handmade.choices)

    assert first.plan.changes == second.plan.changes != []


async def test_a_second_adoption_has_nothing_to_do(site: Site, handmade: Handmade) -> None:
    await site.make(handmade)

    await site.adopt(handmade.table, handmade.choices)  # looks again, and asserts it


async def test_the_printed_declaration_drains_it_without_losing_or_repeating_a_row(
    site: Site, handmade: Handmade
) -> None:
    await site.make(handmade)
    found = await site.adopt(handmade.table, handmade.choices)
    names = site.declared(found)
    mill: rm.Mill = names["mill"]
    queue = next(iter(mill.queues.values()))
    worked: list[Any] = []

    @queue.handler()
    async def work(lease: rm.Lease[rm.Record]) -> None:
        worked.append(lease.key)

    before = await counts(site, handmade)
    async with mill.opened():
        await mill.migrate()
        bench = Bench(mill)
        await bench.drain()

        running, ready = before.get(handmade.running, 0), before[handmade.ready]
        assert ready == handmade.rows[0][1], "adopting made no other row ready"
        others = before.get("'in_progress'", 0)
        assert len(worked) == len(set(worked)) == ready, "ready rows are worked on, once each"
        after = await counts(site, handmade)
        assert after.get(handmade.running, 0) == running, "rows in progress are not instantly stale"
        assert after[handmade.done] == before.get(handmade.done, 0) + ready
        assert sum(after.values()) == sum(before.values())

        await bench.advance(found_lease + 1)
        await bench.drain()
        assert len(worked) == len(set(worked)) == ready + running + others, "they are rescued after their lease"
        after = await counts(site, handmade)
        assert handmade.running not in after
        assert sum(after.values()) == sum(before.values())


found_lease = 900.0


async def test_it_is_not_rewritten(postgres: Site, handmade: Handmade) -> None:
    """ADD COLUMN without a rewrite: the file of the table stays the same."""
    await postgres.make(handmade)
    quoted = postgres.store.dialect.identifier_preparer.quote(handmade.table)
    node = f"SELECT pg_relation_filenode('{quoted}')"
    before = await postgres.value(node)

    await postgres.adopt(handmade.table, handmade.choices)

    assert await postgres.value(node) == before
