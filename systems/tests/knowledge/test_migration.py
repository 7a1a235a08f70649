"""The tables: made, removed, made again; plain SQL of operators; tables of others are refused."""

import stat
import warnings
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

import rowmill as rm
from rowmill.integrations import alembic as rowmill_alembic
from rowmill.systems.commands import prepare
from rowmill_systems.knowledge.events import OutboxStats
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.migrations import revisions
from rowmill_systems.knowledge.models import KnowledgeModel
from rowmill_systems.knowledge.search.fulltext import FULLTEXT_TABLES
from rowmill_systems.parts.vectors.errors import VectorsUnavailable
from systems.tests.knowledge.harness import HashEmbedder, document, events, read, settings_for, sql

pytestmark = pytest.mark.empty_database


def made(url: str, folder: Path) -> Knowledge:
    return Knowledge(settings_for(url, folder), embedder=HashEmbedder())


async def test_migrations_go_up_and_down_and_up_again(database_url: str, tmp_path: Path) -> None:
    """They are idempotent and reversible, and make what the models say."""
    knowledge = made(database_url, tmp_path)
    await knowledge.migrate()
    await knowledge.migrate()

    def differences(connection: sa.Connection) -> list[object]:
        options = {"include_object": rowmill_alembic.include_object, "include_name": rowmill_alembic.include_name}
        context = MigrationContext.configure(connection, opts=options)
        others = ("knowledge_alembic_version", *FULLTEXT_TABLES)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of SQLite, which reflects no index over an expression
            found = compare_metadata(context, KnowledgeModel.metadata)
        return [each for each in found if not any(name in str(each) for name in others)]

    assert await knowledge.mill.run(differences, write=False) == []

    def tables(connection: sa.Connection) -> set[str]:
        return set(sa.inspect(connection).get_table_names())

    def downgrade(connection: sa.Connection) -> None:
        revisions.downgrade(connection, "knowledge@base")

    await knowledge.mill.run(downgrade)
    left = await knowledge.mill.run(tables, write=False)
    assert not left & {*KnowledgeModel.metadata.tables, *FULLTEXT_TABLES}
    await knowledge.migrate()
    assert await knowledge.mill.run(revisions.current, write=False) == revisions.heads()


@pytest.mark.parametrize("name", ["documents", "outbox", "users"])
async def test_tables_of_others_are_refused(database_url: str, tmp_path: Path, name: str) -> None:
    """They would be read with other eyes. Nothing is changed."""
    knowledge = made(database_url, tmp_path)
    await sql(knowledge, f"CREATE TABLE {name} (id INTEGER PRIMARY KEY)")
    with pytest.raises(rm.errors.SchemaMismatch, match=f"{name}: there is a table of that name"):
        await knowledge.migrate()
    found = await knowledge.mill.run(lambda connection: sa.inspect(connection).get_table_names(), write=False)
    assert "knowledge_bases" not in found


async def test_plain_inserts_need_neither_keys_nor_times(database_url: str, tmp_path: Path) -> None:
    """K1, K9: all times are UTC, by the database's clock."""
    knowledge = made(database_url, tmp_path)
    await knowledge.migrate()
    await sql(knowledge, "INSERT INTO knowledge_bases (name) VALUES ('a')")
    insert = (
        "INSERT INTO documents (kb_id, filename, size, sha256, object_key) "
        "SELECT id, 'a.md', 1, 'x', 'y' FROM knowledge_bases"
    )
    await sql(knowledge, insert)
    await sql(knowledge, "INSERT INTO outbox (event_type, aggregate_id) VALUES ('document.process', '1')")
    [key] = await read(knowledge, sa.select(KnowledgeModel.metadata.tables["documents"].c.id))
    row = await document(knowledge, key.id)
    assert (row.id.version, row.status, row.generation) == (4, "pending", 0)
    [event] = await events(knowledge)
    assert (event.state, event.attempts, event.processed_at, event.payload) == ("pending", 0, None, {})
    if database_url.startswith("postgresql"):
        assert event.created_at.utcoffset() is not None
    with pytest.raises(sa.exc.IntegrityError):
        await sql(knowledge, "UPDATE documents SET status = 'READY'")
    with pytest.raises(sa.exc.IntegrityError):
        await sql(knowledge, insert)


async def test_the_numbers_of_the_outbox(database_url: str, tmp_path: Path) -> None:
    """K8: under their names, and as plain SQL counts them."""
    knowledge = made(database_url, tmp_path)
    await knowledge.migrate()
    await sql(knowledge, "INSERT INTO outbox (event_type, aggregate_id) VALUES ('document.process', '1')")
    dead = "INSERT INTO outbox (event_type, aggregate_id, state, attempts) VALUES ('document.process', '2', 'dead', 5)"
    await sql(knowledge, dead)
    stats = await knowledge.outbox.stats()
    assert isinstance(stats, OutboxStats)
    assert stats.as_dict() == {
        "pending_events": 1,
        "failed_events": 1,
        "processed_last_hour": 0,
        "processed_last_24h": 0,
        "queue_depth": 1,
        "average_processing_time_ms": None,
        "parked_events": 0,
    }


async def test_a_store_that_was_never_prepared_is_no_empty_one(database_url: str, tmp_path: Path) -> None:
    """The migration prepares the stores; a path that is wrong later is noticed."""
    await made(database_url, tmp_path).migrate()
    async with made(database_url, tmp_path / "wrong").opened():
        pass
    wrong = made(database_url, tmp_path / "wrong")
    async with wrong.opened():
        with pytest.raises(VectorsUnavailable):
            [each async for each in wrong.vectors.collections()]
    right = made(database_url, tmp_path)
    async with right.opened():
        assert [each async for each in right.vectors.collections()] == []
        assert [each async for each in right.storage.keys(None)] == []


async def test_a_new_sqlite_file_is_its_owner_s_alone(tmp_path: Path) -> None:
    """It has the hashes of passwords. SQLite gives its log beside it the same mode. The mode of a file that is there is
    its owner's choice."""

    def modes() -> set[int]:
        return {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.glob("knowledge.db*")}

    knowledge = made(f"sqlite:///{tmp_path}/knowledge.db", tmp_path)
    await prepare(knowledge, "knowledge")
    async with knowledge.mill.opened():
        assert modes() == {0o600}
    (tmp_path / "knowledge.db").chmod(0o640)
    await knowledge.migrate()
    assert modes() == {0o640}
