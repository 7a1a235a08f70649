"""The tables, and how entities that were there before become a queue."""

from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

import rowmill as rm
from rowmill.integrations import alembic as rowmill_alembic
from rowmill_systems.entities.models import EntitiesBase
from systems.tests.entities.harness import FakeSource, entities_on

pytestmark = pytest.mark.empty_database


async def test_the_table_has_the_columns_that_operators_know(database_url: str) -> None:
    """E1."""
    async with entities_on(database_url, FakeSource()) as harness:
        columns = await harness.mill.run(lambda connection: sa.inspect(connection).get_columns("entities"), write=False)
        known = {"entity_id", "enrichment_status", "enrichment_error", "enrichment_retry_count", "enriched_at",
                 "linking_confidence", "linking_source"}  # fmt: skip
        assert {column["name"] for column in columns} >= known


@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
@pytest.mark.filterwarnings("ignore:autogenerate skipping metadata-specified expression-based index")
async def test_the_migration_and_the_models_agree(database_url: str) -> None:
    """Autogenerate has nothing to say, and nothing of Rowmill's is proposed to be dropped."""
    async with entities_on(database_url, FakeSource()) as harness:

        def differences(connection: sa.Connection) -> list[Any]:
            options = {
                "version_table": harness.entities.revisions.version_table,
                "include_name": rowmill_alembic.include_name,
                "include_object": rowmill_alembic.include_object,
            }
            metadata: Any = [EntitiesBase.metadata, harness.tables.metadata]
            return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))

        assert await harness.mill.run(differences, write=False) == []


OF_BEFORE = """
CREATE TABLE entities (
    entity_id VARCHAR(40) PRIMARY KEY, name TEXT NOT NULL, entity_type TEXT, enrichment_status VARCHAR(20) NOT NULL,
    enrichment_error TEXT, found_in TEXT
)
"""


async def test_a_table_of_before_gets_what_it_lacks(database_url: str) -> None:
    """E1: whoever made it. Who was at work on an entity has the time of a lease from then on."""
    mill = rm.Mill(database_url)
    ids = {number: f"{number:032}" for number in (1, 2, 3)}
    states = {1: "PENDING", 2: "LINKING", 3: "COMPLETE"}
    names = ("entity_id", "name", "enrichment_status", "found_in")
    rows = [dict(zip(names, (ids[n], "Ada Lovelace", states[n], f"page {n}"), strict=True)) for n in ids]

    def prepare(connection: sa.Connection) -> None:
        connection.exec_driver_sql(OF_BEFORE)
        quoted = ", ".join(f":{name}" for name in names)
        connection.execute(sa.text(f"INSERT INTO entities ({', '.join(names)}) VALUES ({quoted})"), rows)

    await mill.run(prepare)
    wise = FakeSource()
    wise.learn("Ada Lovelace", "Q7259")
    async with entities_on(database_url, wise) as harness:
        await harness.drain()
        assert await harness.bench.states(harness.entities.queue) == {"COMPLETE": 2, "LINKING": 1}
        await harness.bench.advance(121)
        await harness.drain()
        assert await harness.bench.states(harness.entities.queue) == {"COMPLETE": 3}
        assert wise.asked.count("candidates Ada Lovelace") == 2
        found_in = sa.column("found_in", sa.Text)
        pages = sa.select(found_in).select_from(sa.table("entities")).order_by(found_in)
        assert [row.found_in for row in await harness.read(pages)] == ["page 1", "page 2", "page 3"]


async def test_it_can_be_run_again_and_taken_back(database_url: str) -> None:
    async with entities_on(database_url, FakeSource()) as harness:
        await harness.entities.migrate()
        revisions = harness.entities.revisions
        assert await harness.mill.run(revisions.current, write=False) == revisions.heads()
        await harness.put("Ada Lovelace")
        await harness.mill.run(lambda connection: revisions.downgrade(connection, "entities@base"))
        tables = await harness.mill.run(lambda connection: sa.inspect(connection).get_table_names(), write=False)
        assert not {"entity_facts", "entity_conflicts", "entity_service_answers"} & set(tables)
        await harness.entities.migrate()
        await harness.drain()
        assert await harness.bench.states(harness.entities.queue) == {"COMPLETE": 1}, "the entities had stayed"


async def test_an_unknown_source_is_said_at_once(sqlite_url: str) -> None:
    with pytest.raises(rm.errors.DeclarationError, match="there is no source freebase"):
        async with entities_on(sqlite_url, sources="embedded,freebase"):
            pass
