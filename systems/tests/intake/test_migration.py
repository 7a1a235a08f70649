"""The tables, and how files that were there before become a queue."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

import rowmill as rm
from rowmill.integrations import alembic as rowmill_alembic
from rowmill.store.clock import as_moment
from rowmill_systems.intake.migrations import revisions
from rowmill_systems.intake.models import IntakeBase, Moment
from rowmill_systems.intake.queue import declare
from systems.tests.intake.harness import FakeAnalyzer, intake_on

pytestmark = pytest.mark.empty_database


def old_file(number: int, **values: Any) -> dict[str, Any]:
    given = {"id": number, "organization_id": 1, "project_id": 1, "filename": "a.txt", "size_bytes": 1}
    return given | {"storage_key": f"1/1/{number:064}"} | values


async def test_the_table_has_the_columns_and_indexes_that_operators_know(database_url: str, tmp_path: Path) -> None:
    """F1."""
    async with intake_on(database_url, tmp_path, FakeAnalyzer()) as harness:

        def look(connection: sa.Connection) -> tuple[set[str], dict[str, Any]]:
            inspector = sa.inspect(connection)
            columns = {column["name"] for column in inspector.get_columns("project_files")}
            return columns, {str(index["name"]): index for index in inspector.get_indexes("project_files")}

        columns, indexes = await harness.mill.run(look, write=False)
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
    async with intake_on(database_url, tmp_path, FakeAnalyzer()) as harness:
        queued, processing = await harness.file(1), await harness.file(2)
        assert (queued.processing_status, queued.processing_available_at is None) == ("queued", False)
        assert (processing.processing_status, processing.processing_started_at is None) == ("processing", False)
        [named] = await harness.read(sa.select(sa.column("uploaded_by")).select_from(table).where(table.c.id == 1))
        assert named.uploaded_by == "ann"
        await harness.drain()
        assert (await harness.file(1)).processing_error.startswith("storage")


async def test_the_back_fill_writes_only_what_is_missing(database_url: str, tmp_path: Path) -> None:
    """F13: a backoff and a start that are there stay; the lease is that of the settings, from the start on."""
    mill = rm.Mill(database_url)
    moment = "TIMESTAMP WITH TIME ZONE" if mill.url.get_backend_name() == "postgresql" else "TIMESTAMP"

    def make(connection: sa.Connection) -> None:
        connection.exec_driver_sql(OF_BEFORE).close()
        for name in ("processing_available_at", "processing_started_at"):
            connection.exec_driver_sql(f"ALTER TABLE project_files ADD COLUMN {name} {moment}").close()

    await mill.run(make)
    backoff, start = datetime(2040, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
    times = {"processing_available_at": backoff, "processing_started_at": start}
    columns = [*old_file(1), "processing_status"]
    table = sa.table("project_files", *map(sa.column, columns), *(sa.column(name, Moment) for name in times))
    rows = [
        old_file(1, processing_status="queued", processing_available_at=backoff, processing_started_at=None),
        old_file(2, processing_status="queued", processing_available_at=None, processing_started_at=None),
        old_file(3, processing_status="processing", processing_available_at=None, processing_started_at=start),
        old_file(4, processing_status="processing", processing_available_at=None, processing_started_at=None),
    ]
    await mill.run(lambda connection: connection.execute(sa.insert(table), rows).close())
    async with intake_on(database_url, tmp_path, FakeAnalyzer(), worker_stale_seconds=120) as harness:
        waits, queued, runs, started = [await harness.file(number) for number in (1, 2, 3, 4)]
        assert as_moment(waits.processing_available_at) == backoff
        assert queued.processing_available_at is not None
        assert as_moment(runs.processing_started_at) == start
        assert runs.processing_available_at is None
        for row in (runs, started):
            assert row.leased_until - row.processing_started_at == timedelta(seconds=120)
        assert (waits.leased_until, queued.leased_until) == (None, None)


async def test_a_worker_of_before_works_on_after_the_migration(database_url: str, tmp_path: Path) -> None:
    """F13: its statements know nothing of leases. What it leaves behind, a worker of now takes up."""
    mill = rm.Mill(database_url)
    skip = "FOR UPDATE SKIP LOCKED" if mill.url.get_backend_name() == "postgresql" else ""
    await mill.run(lambda connection: connection.exec_driver_sql(OF_BEFORE).close())
    async with intake_on(database_url, tmp_path, FakeAnalyzer()) as harness:

        async def old(statement: str) -> list[Any]:
            found = await harness.mill.run(lambda connection: connection.exec_driver_sql(statement).all())
            return [tuple(row) for row in found]

        for number in (1, 2, 3):
            await old(
                "INSERT INTO project_files (id, organization_id, project_id, filename, size_bytes, storage_key) "
                f"VALUES ({number}, 1, 1, 'a.txt', 1, '1/1/{number:064}') RETURNING id"
            )
        claim = (
            "UPDATE project_files SET processing_status = 'processing', processing_attempts = processing_attempts + 1, "
            "processing_started_at = CURRENT_TIMESTAMP, processing_error = NULL WHERE id = (SELECT id FROM "
            "project_files WHERE processing_status = 'queued' AND (processing_available_at IS NULL OR "
            "processing_available_at <= CURRENT_TIMESTAMP) ORDER BY processing_available_at NULLS FIRST, created_at, "
            f"id LIMIT 1 {skip}) RETURNING id, processing_attempts"
        )
        assert [await old(claim) for _ in range(2)] == [[(1, 1)], [(2, 1)]]
        done = "UPDATE project_files SET processing_status = 'completed', processed_at = CURRENT_TIMESTAMP"
        assert await old(f"{done} WHERE id = 1 RETURNING processing_status") == [("completed",)]
        failed = (
            "UPDATE project_files SET processing_status = 'queued', processing_error = 'network', "
            "processing_available_at = CURRENT_TIMESTAMP WHERE id = 2 RETURNING processing_status"
        )
        assert await old(failed) == [("queued",)]
        assert await old(claim) == [(3, 1)], "what is available at once comes first"

        await harness.drain()
        assert (await harness.file(3)).processing_status == "processing", "the worker of before has the time of a lease"
        assert (await harness.file(2)).processing_error.startswith("storage")
        await harness.bench.advance(901)
        await harness.drain()
        taken_up = await harness.file(3)
        assert (taken_up.processing_attempts, taken_up.processing_error.split(":")[0]) == (2, "storage")


OF_OTHERS = {
    "uuid": "id CHAR(36) PRIMARY KEY, organization_id INTEGER NOT NULL, project_id INTEGER NOT NULL, filename TEXT NOT "
    "NULL, size_bytes BIGINT NOT NULL, storage_key TEXT NOT NULL",
    "named otherwise": "id INTEGER PRIMARY KEY, organization_id INTEGER NOT NULL, project_id INTEGER NOT NULL, name "
    "TEXT NOT NULL, size_bytes BIGINT NOT NULL, path TEXT NOT NULL",
}


@pytest.mark.parametrize(
    ("columns", "row", "advice"),
    [
        ("uuid", "'6f9619ff-8b86-d011-b42d-00c04fc964ff', 1, 1, 'a', 1, 'k'", ["column id is", "external_id"]),
        ("named otherwise", "1, 1, 1, 'a', 1, 'k'", ["RENAME COLUMN … TO filename", "RENAME COLUMN … TO storage_key"]),
    ],
)
async def test_a_table_that_intake_can_t_work_on_is_refused_with_what_to_do(
    database_url: str, columns: str, row: str, advice: list[str]
) -> None:
    """F13: keys of another type, columns of other names. Nothing is changed before that is said."""
    mill = rm.Mill(database_url)

    def make(connection: sa.Connection) -> None:
        connection.exec_driver_sql(f"CREATE TABLE project_files ({OF_OTHERS[columns]})").close()
        connection.exec_driver_sql(f"INSERT INTO project_files VALUES ({row})").close()

    await mill.run(make)
    with pytest.raises(rm.errors.SchemaMismatch) as refused:
        await mill.run(revisions.upgrade)
    assert all(part in str(refused.value) for part in [*advice, "rowmill adopt project_files"])
    tables = await mill.run(lambda connection: sa.inspect(connection).get_table_names(), write=False)
    assert tables == ["project_files"]


async def test_a_file_that_was_in_processing_is_recovered_after_a_whole_lease(
    database_url: str, tmp_path: Path
) -> None:
    """F2, F13: whoever works on it has the time of a lease from the migration on, and no longer."""
    analyzer = FakeAnalyzer()
    mill = rm.Mill(database_url)
    await mill.run(lambda connection: revisions.upgrade(connection, "intake_1"))
    table = sa.table("project_files", *map(sa.column, old_file(1)), sa.column("processing_status"))
    await mill.run(lambda c: c.execute(sa.insert(table), [old_file(100, processing_status="processing")]).close())
    async with intake_on(database_url, tmp_path, analyzer) as harness:
        await harness.put("total: 1")  # a storage without a folder says nothing of its objects
        await harness.drain()
        assert (await harness.file(100)).processing_status == "processing"
        await harness.bench.advance(901)
        await harness.drain()
        row = await harness.file(100)
        assert row.processing_status == "failed"
        assert row.processing_error.startswith("missing_object")


async def test_the_migration_and_the_models_agree(database_url: str, tmp_path: Path) -> None:
    """Autogenerate has nothing to say, and nothing of Rowmill's is proposed to be dropped."""
    async with intake_on(database_url, tmp_path, FakeAnalyzer()) as harness:

        def differences(connection: sa.Connection) -> list[Any]:
            options = {
                "version_table": revisions.version_table,
                "include_name": rowmill_alembic.include_name,
                "include_object": rowmill_alembic.include_object,
            }
            return list(compare_metadata(MigrationContext.configure(connection, opts=options), IntakeBase.metadata))

        assert await harness.mill.run(differences, write=False) == []


async def test_it_can_be_run_again_and_taken_back(database_url: str, tmp_path: Path) -> None:
    async with intake_on(database_url, tmp_path, FakeAnalyzer()) as harness:
        await harness.intake.migrate()
        assert await harness.mill.run(revisions.current, write=False) == revisions.heads()
        number = await harness.put("total: 1")
        await harness.mill.run(lambda connection: revisions.downgrade(connection, "intake@base"))
        tables = await harness.mill.run(lambda connection: sa.inspect(connection).get_table_names(), write=False)
        assert not {"field_suggestions", "file_analyses"} & set(tables)
        await harness.intake.migrate()
        await harness.drain()
        assert await harness.suggestions(number) == [("total", "1", "pending")], "the files had stayed"
