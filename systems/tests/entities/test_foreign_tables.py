"""E1: tables of entities that another program made and writes to."""

import uuid
from typing import Any

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.entities import null_status
from rowmill_systems.entities.deciding import queue_again
from rowmill_systems.entities.entities import Entities
from rowmill_systems.entities.settings import EntitiesSettings
from systems.tests.entities.harness import EntitiesHarness, FakeSource, entities_on
from systems.tests.entities.served import served

pytestmark = pytest.mark.empty_database

THEIRS = """
CREATE TABLE entities (
    entity_id TEXT PRIMARY KEY, name TEXT, entity_type VARCHAR(50), properties JSONB, mentions INTEGER,
    enrichment_status VARCHAR(20) DEFAULT 'PENDING', enrichment_error TEXT, enrichment_retry_count INTEGER,
    enriched_at TIMESTAMP WITH TIME ZONE, wikidata_id VARCHAR(50), dbpedia_uri VARCHAR(500),
    linking_confidence FLOAT, linking_source VARCHAR(100)
)
"""
NO_STATUS = "INSERT INTO entities (entity_id, name, enrichment_status) VALUES ('{}', '{}', NULL)"


def fake_source() -> FakeSource:
    found = FakeSource()
    found.learn("Ada Lovelace", "Q7259", birth_date="1815-12-10")
    return found


async def prepare(url: str, *statements: str) -> None:
    def run(connection: sa.Connection) -> None:
        for statement in statements:
            connection.exec_driver_sql(statement)

    await rm.Mill(url).run(run)


async def statuses(harness: EntitiesHarness) -> dict[Any, Any]:
    entity = harness.tables.entity
    return {row[0]: row[1] for row in await harness.read(sa.select(entity.id, entity.enrichment_status))}


async def test_a_table_of_another_program_is_worked_on(database_url: str) -> None:
    await prepare(database_url, THEIRS, NO_STATUS.format("ada 1/2", "Ada Lovelace"))
    async with entities_on(database_url, fake_source()) as harness:
        assert await statuses(harness) == {"ada 1/2": "PENDING"}
        await harness.drain()
        row = await harness.entity("ada 1/2")
        assert (row.enrichment_status, row.wikidata_id, row.linking_source) == ("COMPLETE", "Q7259", "wikidata")
        assert row.linking_confidence >= 0.75
        assert await harness.merged("ada 1/2") == {"birth_date": ["1815-12-10"]}


async def test_rows_that_are_written_without_a_status_later_are_pending_at_once(database_url: str) -> None:
    """By an INSERT of NULL, and by an UPDATE to NULL."""
    await prepare(database_url, THEIRS)
    async with entities_on(database_url, fake_source()) as harness:
        await harness.execute(sa.text(NO_STATUS.format("a", "Ada Lovelace")))
        assert await statuses(harness) == {"a": "PENDING"}
        await harness.drain()
        assert await statuses(harness) == {"a": "COMPLETE"}
        await harness.execute(sa.text("UPDATE entities SET enrichment_status = NULL"))
        assert await statuses(harness) == {"a": "PENDING"}


async def test_a_status_of_null_that_no_trigger_saw_is_pending_everywhere(database_url: str) -> None:
    """A restore with triggers off: numbers, lists, pages and requests take it for PENDING, and the sweep writes it."""
    await prepare(database_url, THEIRS)
    async with served(database_url, fake_source()) as harness:
        await harness.mill.run(null_status.drop_triggers)
        await harness.execute(sa.text(NO_STATUS.format("a", "Ada Lovelace")))
        await harness.execute(sa.text("INSERT INTO entities (entity_id, enrichment_status) VALUES ('b', NULL)"))
        stats = await harness.get("/enrichment/stats")
        assert (stats["pending"], stats["by_status"]["PENDING"], stats["total_entities"]) == (2, 2, 2)
        listed = await harness.get("/entities", status="PENDING")
        assert [(one["id"], one["enrichment_status"]) for one in listed["entities"]] == [
            ("a", "PENDING"), ("b", "PENDING"),
        ]  # fmt: skip
        one = await harness.get("/entities/b")
        assert (one["enrichment_status"], one["enrichment_retry_count"], one["name"]) == ("PENDING", 0, "")
        for path in ("/", "/browse", "/browse?status=PENDING", "/browse/a", "/browse/b"):
            assert "pending" in (await harness.client.get(path)).text.lower()
        await queue_again(harness.entities, "b")
        assert await statuses(harness) == {"a": None, "b": "PENDING"}
        assert await harness.mill.run(lambda connection: null_status.sweep(connection, harness.tables)) == 1
        assert await harness.mill.run(lambda connection: null_status.sweep(connection, harness.tables)) == 0
        await harness.drain()
        assert await statuses(harness) == {"a": "COMPLETE", "b": "COMPLETE"}


RENAMED = """
CREATE TABLE entities (id {uuid} PRIMARY KEY, label TEXT NOT NULL, kind TEXT, state VARCHAR(20))
"""
SETTINGS = {
    "columns": {"entity_id": "id", "name": "label", "entity_type": "kind", "enrichment_status": "state"},
    "id_type": "uuid",
}


async def test_uuids_and_other_names_of_columns(database_url: str) -> None:
    kind = "UUID" if database_url.startswith("postgresql") else "CHAR(32)"
    id = uuid.uuid4()
    insert = f"INSERT INTO entities (id, label, kind) VALUES ('{id.hex}', 'Ada Lovelace', 'person')"
    await prepare(database_url, RENAMED.format(uuid=kind), insert)
    wise = fake_source()
    async with served(database_url, wise, **SETTINGS) as harness:
        assert await statuses(harness) == {id: "PENDING"}
        await harness.drain()
        assert (await harness.get(f"/entities/{id}"))["wikidata_id"] == "Q7259"
        listed = await harness.get("/entities", status="COMPLETE", after=str(uuid.UUID(int=0)))
        assert [one["name"] for one in listed["entities"]] == ["Ada Lovelace"]
        answer = await harness.client.post("/entities", json={"name": "Nobody", "properties": {"birth_date": "1900"}})
        other = answer.json()["id"]
        await harness.drain()
        assert (await harness.get(f"/entities/{other}"))["enriched_properties"]["birth_date"][0]["value"] == "1900"
        wise.learn("Ada Lovelace", "Q7259", birth_date="1816")
        again = await harness.client.post(f"/enrichment/queue/{id}")
        assert again.json() == {"status": "queued", "entity_id": str(id)}
        await harness.drain()
        assert await harness.merged(id) == {"birth_date": ["1816"]}
        assert await harness.history(id) == ["linked", "facts", "merged", "queued", "facts", "merged"]
        for unknown in (uuid.uuid4(), "seventeen"):
            assert (await harness.client.get(f"/entities/{unknown}")).status_code == 404
        for path in ("/", "/browse", f"/browse/{id}"):
            assert (await harness.client.get(path)).status_code == 200
        await harness.entities.migrate()


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("id UUID PRIMARY KEY, name TEXT", {},
     """no column entity_id. Set ENTITIES_COLUMNS='{"entity_id": "id"}' and ENTITIES_ID_TYPE=uuid"""),
    ("entity_id UUID PRIMARY KEY, name TEXT", {}, "column entity_id holds UUID. Set ENTITIES_ID_TYPE=uuid"),
    ("entity_id TEXT PRIMARY KEY, name TEXT", {"id_type": "uuid"}, "Set ENTITIES_ID_TYPE=text"),
    ("entity_id TEXT PRIMARY KEY, label TEXT", {},
     """no column name. Set ENTITIES_COLUMNS='{"name": "…"}' to the one that holds names. It has: entity_id, label"""),
    ("a TEXT, b TEXT, name TEXT, PRIMARY KEY (a, b)", {}, "no primary key of one column. Add one"),
    ("entity_id TEXT, name TEXT", {}, "column entity_id is not unique. Run: CREATE UNIQUE INDEX"),
    ("entity_id TEXT PRIMARY KEY, name TEXT, enriched_at TIMESTAMP", {},
     "Run: ALTER TABLE entities ALTER COLUMN enriched_at TYPE timestamptz USING enriched_at AT TIME ZONE 'UTC'"),
    ("entity_id TEXT PRIMARY KEY, name TEXT, properties TEXT", {},
     "Run: ALTER TABLE entities ALTER COLUMN properties TYPE jsonb USING properties::jsonb"),
    ("entity_id TEXT PRIMARY KEY, name TEXT, enrichment_status VARCHAR(10)", {}, "takes 10 characters"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "settings", "message"), REFUSED)
async def test_what_can_t_be_worked_on_is_refused_with_what_to_do(
    pg_url: str, columns: str, settings: dict[str, Any], message: str
) -> None:
    await prepare(pg_url, f"CREATE TABLE entities ({columns})")
    with pytest.raises(rm.errors.DeclarationError) as refused:
        async with entities_on(pg_url, FakeSource(), **settings):
            pass
    assert message in str(refused.value)


async def test_numbers_are_no_ids(database_url: str) -> None:
    """And nothing is changed in a table that is refused, by `migrate` neither."""
    await prepare(database_url, "CREATE TABLE entities (entity_id INTEGER PRIMARY KEY, name TEXT)")
    entities = Entities(EntitiesSettings(database_url=database_url), sources=[FakeSource()])
    for attempt in (entities.opened().__aenter__(), entities.migrate()):
        with pytest.raises(rm.errors.DeclarationError, match="ids are text or uuid"):
            await attempt
    found = await entities.mill.run(lambda connection: sa.inspect(connection).get_columns("entities"), write=False)
    assert [column["name"] for column in found] == ["entity_id", "name"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [({"nmae": "label"}, "there is no column nmae"), ({"name": "x", "context": "x"}, "renamed to the same name")],
)
async def test_odd_settings_are_said_at_once(sqlite_url: str, columns: dict[str, str], message: str) -> None:
    with pytest.raises(rm.errors.DeclarationError, match=message):
        async with entities_on(sqlite_url, FakeSource(), columns=columns):
            pass
