"""The tables, and how files that were there before become a queue."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

import rowmill as rm
from rowmill.integrations import alembic as rowmill_alembic
from rowmill.systems.intake.migrations import revisions
from rowmill.systems.intake.models import Base
from rowmill.systems.intake.queue import declare
from tests.systems.intake.house import Scribe, house_on


def old_file(number: int, **values: Any) -> dict[str, Any]:
    given = {"id": number, "organization_id": 1, "project_id": 1, "filename": "a.txt", "size_bytes": 1}
    return given | {"storage_key": f"1/1/{number:064}"} | values


async def test_the_table_has_the_columns_and_indexes_that_operators_know(database_url: str, tmp_path: Path) -> None:
    """F1."""
    async with house_on(database_url, tmp_path, Scribe()) as house:

        def look(connection: sa.Connection) -> tuple[set[str], dict[str, Any]]:
            inspector = sa.inspect(connection)
            columns = {column["name"] for column in inspector.get_columns("project_files")}
            return columns, {str(index["name"]): index for index in inspector.get_indexes("project_files")}

        columns, indexes = await house.mill.run(look, write=False)
        assert columns >= {
            "processing_status", "processing_attempts", "processing_started_at", "processing_available_at",
            "processing_error", "processed_at", "file_hash", "organization_id", "project_id",
        }  # fmt: skip
        queued, processing = indexes["ix_project_files_queued"], indexes["ix_project_files_processing"]
        assert queued["column_names"] == ["processing_available_at", "created_at"]
        assert processing["column_names"] == ["processing_started_at"]
        for index, word in ((queued, "queued"), (processing, "processing")):
            [condition] = [str(text) for name, text in index["dialect_options"].items() if name.endswith("_where")]
            assert f"'{word}'" in condition
            assert "processing_status" in condition


async def test_files_that_were_there_become_available_or_get_started_now(database_url: str, tmp_path: Path) -> None:
    """F13: queued rows become available now, processing rows get started now; nothing else changes."""
    mill = rm.Mill(database_url)
    files = declare(mill, 900)
    await mill.run(lambda connection: revisions.upgrade(connection, "intake_1"))
    table = sa.table("project_files", *map(sa.column, old_file(1)), sa.column("processing_status"))
    states = {1: "queued", 2: "processing", 3: "completed", 4: "failed"}
    rows = [old_file(number, processing_status=state) for number, state in states.items()]
    await mill.run(lambda connection: connection.execute(sa.insert(table), rows).close())

    await mill.run(revisions.upgrade)
    await mill.migrate()

    def ages(connection: sa.Connection) -> list[tuple[Any, ...]]:
        c = files.table.c
        times = (c.processing_available_at, c.processing_started_at, c.leased_until)
        return [tuple(row) for row in connection.execute(sa.select(c.id, c.processing_status, *times).order_by(c.id))]

    queued, processing, completed, failed = await mill.run(ages, write=False)
    assert (queued[2] is not None, queued[3], queued[4]) == (True, None, None)
    assert processing[2] is None
    assert (processing[4] - processing[3]).total_seconds() == pytest.approx(900, abs=2)
    assert (completed[2:], failed[2:]) == ((None,) * 3, (None,) * 3)
    assert [row[1] for row in (queued, processing, completed, failed)] == list(states.values())


OF_BEFORE = """
CREATE TABLE project_files (
    id INTEGER PRIMARY KEY, organization_id INTEGER NOT NULL, project_id INTEGER NOT NULL, filename TEXT NOT NULL,
    size_bytes BIGINT NOT NULL, storage_key TEXT NOT NULL, processing_status TEXT NOT NULL DEFAULT 'queued',
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, processing_attempts INTEGER NOT NULL DEFAULT 0,
    file_hash TEXT, uploaded_by TEXT
)
"""


async def test_a_table_of_before_gets_what_it_lacks(database_url: str, tmp_path: Path) -> None:
    """F13: whoever made it, and whatever else it has."""
    mill = rm.Mill(database_url)
    await mill.run(lambda connection: connection.exec_driver_sql(OF_BEFORE).close())
    table = sa.table("project_files", *map(sa.column, [*old_file(1), "processing_status", "uploaded_by"]))
    rows = [old_file(1, processing_status="queued", uploaded_by="ann"), old_file(2, processing_status="processing")]
    rows[1]["uploaded_by"] = None
    await mill.run(lambda connection: connection.execute(sa.insert(table), rows).close())
    async with house_on(database_url, tmp_path, Scribe()) as house:
        queued, processing = await house.file(1), await house.file(2)
        assert (queued.processing_status, queued.processing_available_at is None) == ("queued", False)
        assert (processing.processing_status, processing.processing_started_at is None) == ("processing", False)
        [named] = await house.read(sa.select(sa.column("uploaded_by")).select_from(table).where(table.c.id == 1))
        assert named.uploaded_by == "ann"
        await house.drain()
        assert (await house.file(1)).processing_error.startswith("storage")


async def test_a_file_that_was_in_processing_is_recovered_after_a_whole_lease(
    database_url: str, tmp_path: Path
) -> None:
    """F2, F13: whoever works on it has the time of a lease from the migration on, and no longer."""
    scribe = Scribe()
    mill = rm.Mill(database_url)
    await mill.run(lambda connection: revisions.upgrade(connection, "intake_1"))
    table = sa.table("project_files", *map(sa.column, old_file(1)), sa.column("processing_status"))
    await mill.run(lambda c: c.execute(sa.insert(table), [old_file(100, processing_status="processing")]).close())
    async with house_on(database_url, tmp_path, scribe) as house:
        await house.put("total: 1")  # a storage without a folder says nothing of its objects
        await house.drain()
        assert (await house.file(100)).processing_status == "processing"
        await house.bench.advance(901)
        await house.drain()
        row = await house.file(100)
        assert row.processing_status == "failed"
        assert row.processing_error.startswith("missing_object")


async def test_the_migration_and_the_models_agree(database_url: str, tmp_path: Path) -> None:
    """Autogenerate has nothing to say, and nothing of Rowmill's is proposed to be dropped."""
    async with house_on(database_url, tmp_path, Scribe()) as house:

        def differences(connection: sa.Connection) -> list[Any]:
            options = {
                "version_table": revisions.version_table,
                "include_name": rowmill_alembic.include_name,
                "include_object": rowmill_alembic.include_object,
            }
            return list(compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata))

        assert await house.mill.run(differences, write=False) == []


async def test_it_can_be_run_again_and_taken_back(database_url: str, tmp_path: Path) -> None:
    async with house_on(database_url, tmp_path, Scribe()) as house:
        await house.intake.migrate()
        assert await house.mill.run(revisions.current, write=False) == revisions.heads()
        number = await house.put("total: 1")
        await house.mill.run(lambda connection: revisions.downgrade(connection, "intake@base"))
        tables = await house.mill.run(lambda connection: sa.inspect(connection).get_table_names(), write=False)
        assert not {"field_suggestions", "file_analyses"} & set(tables)
        await house.intake.migrate()
        await house.drain()
        assert await house.suggestions(number) == [("total", "1", "pending")], "the files had stayed"
