"""The tables, and how requests that were there before become this queue."""

from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

import rowmill as rm
from rowmill.integrations import alembic as rowmill_alembic
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.migrations import revisions
from rowmill_systems.companies.models import tables_of
from systems.tests.companies.harness import CompaniesHarness, companies_on, settings_for

pytestmark = pytest.mark.empty_database

OF_BEFORE = """
CREATE TABLE {table} (
    id {serial}, raw_name TEXT NOT NULL, normalized_name TEXT, status VARCHAR(20) NOT NULL DEFAULT 'pending',
    attempts INTEGER NOT NULL DEFAULT 0, next_retry_at {moment}, last_error TEXT, resolved_company_id VARCHAR(50),
    created_at {moment}, updated_at {moment}, note TEXT
)
"""


async def make_old_table(url: str, *rows: dict[str, Any], definition: str = OF_BEFORE) -> rm.Mill:
    mill = rm.Mill(url)
    postgres = mill.url.get_backend_name() == "postgresql"
    table = tables_of(mill.url.get_backend_name()).requests
    made = definition.format(
        table=table.fullname,
        serial="BIGSERIAL PRIMARY KEY" if postgres else "INTEGER PRIMARY KEY AUTOINCREMENT",
        moment="TIMESTAMPTZ" if postgres else "TIMESTAMP",
    )

    def make(connection: sa.Connection) -> None:
        if postgres:
            connection.exec_driver_sql("CREATE SCHEMA enterprise")
        connection.exec_driver_sql(made)
        for row in rows:
            there = sa.table(table.name, *map(sa.column, row), schema=table.schema)
            connection.execute(sa.insert(there).values(row))

    await mill.run(make)
    return mill


async def columns_and_indexes(mill: rm.Mill) -> tuple[dict[str, Any], dict[str, Any]]:
    table = tables_of(mill.url.get_backend_name()).requests

    def look(connection: sa.Connection) -> tuple[dict[str, Any], dict[str, Any]]:
        inspector = sa.inspect(connection)
        columns = {str(each["name"]): each for each in inspector.get_columns(table.name, table.schema)}
        return columns, {str(each["name"]): each for each in inspector.get_indexes(table.name, table.schema)}

    return await mill.run(look, write=False)


async def test_the_table_has_the_columns_and_indexes_that_operators_know(database_url: str) -> None:
    """C1: in the schema `enterprise` on PostgreSQL."""
    async with companies_on(database_url) as harness:
        columns, indexes = await columns_and_indexes(harness.mill)
        assert set(columns) >= {
            "raw_name", "normalized_name", "status", "attempts", "next_retry_at", "last_error", "resolved_company_id",
            "created_at", "updated_at",
        }  # fmt: skip
        assert indexes["ix_enrichment_requests_status_next_retry"]["column_names"] == ["status", "next_retry_at"]
        assert columns["next_retry_at"]["default"] is not None
        assert indexes["uq_enrichment_requests_open"]["unique"]
        await harness.sql("INSERT INTO REQUESTS (raw_name, normalized_name) VALUES ('Acme', 'acme')")
        row = (await harness.rows())["Acme"]
        assert (row.status, row.attempts, row.next_retry_at is None) == ("pending", 0, False)


async def test_plain_sql_can_write_no_fifth_status(database_url: str) -> None:
    async with companies_on(database_url) as harness:
        with pytest.raises(sa.exc.IntegrityError):
            await harness.sql("INSERT INTO REQUESTS (raw_name, normalized_name, status) VALUES ('A', 'a', 'new')")


async def test_requests_of_before_become_the_queue(database_url: str) -> None:
    """C1: only what is NULL is filled in; of several open requests for a name, one stays open."""
    past, future = sa.text("'2020-01-01 00:00:00'"), sa.text("'2040-01-01 00:00:00'")
    await make_old_table(
        database_url,
        {"raw_name": "Acme", "normalized_name": "acme", "status": "pending", "next_retry_at": future, "note": "mine"},
        {"raw_name": "ACME", "normalized_name": "acme", "status": "pending"},
        {"raw_name": "acme.", "normalized_name": "acme", "status": "processing", "attempts": 1, "updated_at": past},
        {"raw_name": "Bolt", "normalized_name": "theirs", "status": "pending"},
        {"raw_name": "Cog", "normalized_name": None, "status": "pending"},
        {"raw_name": "  ", "normalized_name": "", "status": "pending"},
        {"raw_name": "Dot", "normalized_name": "dot", "status": "failed", "attempts": 3, "next_retry_at": past},
        {"raw_name": "Eve", "normalized_name": "eve", "status": "done", "resolved_company_id": "C-5"},
    )
    async with companies_on(database_url, {"acme.": "C-1", "Bolt": "C-2", "Cog": "C-3"}) as harness:
        rows = await harness.rows()
        assert {name: row.status for name, row in rows.items()} == {
            "Acme": "done", "ACME": "done", "acme.": "processing", "Bolt": "pending", "Cog": "pending",
            "  ": "failed", "Dot": "failed", "Eve": "done",
        }  # fmt: skip
        assert (rows["Acme"].outcome, rows["Acme"].resolved_company_id) == ("merged", None)
        assert (rows["Acme"].note if hasattr(rows["Acme"], "note") else "mine") == "mine"
        assert (rows["Bolt"].normalized_name, rows["Bolt"].next_retry_at is None) == ("theirs", False)
        assert rows["Cog"].normalized_name
        assert rows["Cog"].temp_id == harness.temp_id("Cog")
        assert (rows["  "].last_error, rows["  "].temp_id) == ("blank_name", None)
        assert (rows["Dot"].next_retry_at, rows["Dot"].attempts) == (None, 3)
        assert rows["Eve"].finished_at is not None
        run = await harness.run()
        assert (run.done, run.rescued) == (3, 1), "and the one in processing had been left there since 2020"
        assert (await harness.rows())["acme."].resolved_company_id == "C-1"


@pytest.mark.parametrize("times", [1, 2])
async def test_the_migration_can_be_run_again(database_url: str, times: int) -> None:
    """C1+: idempotent."""
    await make_old_table(database_url, {"raw_name": "Acme", "normalized_name": "acme"})
    for _ in range(times):
        await Companies(settings_for(database_url)).migrate()
    async with companies_on(database_url) as harness:
        assert await harness.mill.run(revisions.current, write=False) == revisions.heads()
        assert list(await harness.rows()) == ["Acme"]


async def test_a_downgrade_keeps_the_table_that_was_there(database_url: str) -> None:
    """C1+: with its rows and its own columns, and without ours."""
    mill = await make_old_table(database_url, {"raw_name": "Acme", "normalized_name": "acme", "note": "mine"})
    before, _ = await columns_and_indexes(mill)
    async with companies_on(database_url) as harness:
        await harness.mill.run(lambda connection: revisions.downgrade(connection, "companies@base"))
        after, indexes = await columns_and_indexes(harness.mill)
        assert list(after) == list(before)
        assert indexes == {}
        found = await harness.read(sa.text(f"SELECT raw_name, note FROM {harness.requests.fullname}"))  # type: ignore[arg-type]
        assert [tuple(row) for row in found] == [("Acme", "mine")]
        await harness.companies.migrate()
        assert list(await harness.rows()) == ["Acme"]


async def test_a_downgrade_takes_away_a_table_of_ours(database_url: str) -> None:
    async with companies_on(database_url) as harness:
        await harness.mill.run(lambda connection: revisions.downgrade(connection, "companies@base"))
        schema = harness.requests.schema
        tables = await harness.mill.run(lambda c: sa.inspect(c).get_table_names(schema), write=False)
        assert not [name for name in tables if name.startswith(("company_", "enrichment_"))]
        await harness.companies.migrate()
        await harness.enqueue("Acme")
        assert list(await harness.rows()) == ["Acme"]


async def test_a_table_that_can_t_be_worked_on_is_refused_with_what_to_do(database_url: str) -> None:
    mill = await make_old_table(database_url, definition="CREATE TABLE {table} (id {serial}, company TEXT)")
    with pytest.raises(rm.errors.SchemaMismatch, match="RENAME COLUMN … TO raw_name"):
        await mill.run(revisions.upgrade)
    columns, _ = await columns_and_indexes(mill)
    assert list(columns) == ["id", "company"]


async def test_columns_of_another_type_are_refused_on_postgresql(pg_url: str) -> None:
    naive = "CREATE TABLE {table} (id UUID PRIMARY KEY, raw_name TEXT, next_retry_at TIMESTAMP)"
    mill = await make_old_table(pg_url, definition=naive)
    with pytest.raises(rm.errors.SchemaMismatch) as refused:
        await mill.run(revisions.upgrade)
    assert "column id holds UUID" in str(refused.value)
    assert "TYPE timestamptz USING next_retry_at AT TIME ZONE 'UTC'" in str(refused.value)


async def test_the_migration_and_the_models_agree(database_url: str) -> None:
    """Autogenerate has nothing to say."""
    async with companies_on(database_url) as harness:

        def differences(connection: sa.Connection) -> list[Any]:
            options = {
                "version_table": revisions.version_table,
                "include_schemas": True,
                "include_name": rowmill_alembic.include_name,
                "include_object": rowmill_alembic.include_object,
            }
            context = MigrationContext.configure(connection, opts=options)
            return list(compare_metadata(context, harness.companies.tables.metadata))

        assert await harness.mill.run(differences, write=False) == []


async def fail_all(harness: CompaniesHarness, *names: str) -> None:
    await harness.enqueue(*names)
    await harness.sql("UPDATE REQUESTS SET status = 'failed', attempts = 3 WHERE status = 'pending'")


async def test_plain_sql_puts_failed_requests_back_and_counts(database_url: str) -> None:
    """C11+: the statements that operators know."""
    now = "NOW()" if database_url.startswith("postgresql") else "CURRENT_TIMESTAMP"
    async with companies_on(database_url, {"Acme": "C-1", "Bolt": "C-2"}) as harness:
        await fail_all(harness, "Acme", "Bolt")
        assert {row.next_retry_at for row in (await harness.rows()).values()} == {None}
        back = f"UPDATE REQUESTS SET status='pending', attempts=0, next_retry_at={now} WHERE status='failed'"
        assert await harness.sql(back) == 2
        assert (await harness.run()).done == 2
        count = sa.text(f"SELECT status, COUNT(*) FROM {harness.requests.fullname} GROUP BY status")
        assert [tuple(row) for row in await harness.read(count)] == [("done", 2)]  # type: ignore[arg-type]


async def test_plain_sql_passes_over_names_that_are_asked_for_again_already(database_url: str) -> None:
    """C11+: otherwise the unique index would refuse the whole statement, and put nothing back."""
    async with companies_on(database_url, {"Acme": "C-1", "Bolt": "C-2"}) as harness:
        for _ in range(2):
            await fail_all(harness, "Acme")
        await fail_all(harness, "Bolt")
        await harness.enqueue("Bolt")
        back = "UPDATE REQUESTS SET status='pending', attempts=0, next_retry_at=NULL WHERE status='failed'"
        await harness.sql(back)
        c = harness.requests.c
        found = await harness.read(sa.select(c.raw_name, c.status).order_by(c.raw_name, c.status))
        assert [tuple(row) for row in found] == [
            ("Acme", "failed"), ("Acme", "pending"), ("Bolt", "failed"), ("Bolt", "pending"),
        ]  # fmt: skip
        assert (await harness.run()).done == 2
