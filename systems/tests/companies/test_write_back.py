"""Temporary ids in tables of a pipeline are replaced by real ones."""

from typing import Any

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.companies import write_back as module
from rowmill_systems.companies.sweeping import sweep_targets
from rowmill_systems.companies.write_back import (
    WriteBackReport,
    export_resolutions,
    parse_table,
    register_target,
    resolve_names,
    unregister_target,
    write_back,
)
from systems.tests.companies.harness import CompaniesHarness, companies_on


async def put(harness: CompaniesHarness, table: sa.TableClause, *ids: str) -> None:
    [count] = await harness.read(sa.select(sa.func.count()).select_from(table))
    [column] = [name for name in table.c.keys() if name != "id"]  # noqa: SIM118
    rows = [{"id": count[0] + n, column: each} for n, each in enumerate(ids)]
    await harness.mill.run(lambda connection: connection.execute(sa.insert(table), rows).close())


async def ids_in(harness: CompaniesHarness, table: sa.TableClause) -> list[str]:
    return [row[1] for row in await harness.read(sa.select(table).order_by(table.c.id))]


async def sweep(harness: CompaniesHarness, **options: Any) -> Any:
    import asyncio

    return await asyncio.to_thread(sweep_targets, harness.companies, **options)


async def test_a_target_that_is_registered_later_is_swept(database_url: str) -> None:
    """C13: its temporary ids may be resolved long since."""
    async with companies_on(database_url, {"Acme": "C-1", "Bolt": "C-2"}) as harness:
        await harness.enqueue("Acme", "Bolt", "Nobody")
        await harness.run()
        target = await harness.target()
        await put(harness, target, *(harness.temp_id(name) for name in ("Acme", "Bolt", "Acme", "Nobody", "Unasked")))
        report = await sweep(harness)
        assert (report.targets, report.rows, report.failed) == (1, 3, ())
        assert await ids_in(harness, target) == [
            "C-1", "C-2", "C-1", harness.temp_id("Nobody"), harness.temp_id("Unasked"),
        ]  # fmt: skip
        assert (await sweep(harness)).rows == 0, "idempotent"
        [row] = await harness.read(sa.select(harness.companies.tables.targets))
        assert (row.rows_written, row.swept_at is None) == (3, False)


async def test_rows_that_come_after_the_answer_are_found_by_the_next_run(database_url: str) -> None:
    """A pipeline got its temporary ids before the answer came, and inserted its rows after it."""
    async with companies_on(database_url, {"Acme": "C-1"}) as harness:
        target = await harness.target()
        await harness.enqueue("Acme")
        await harness.run()
        await put(harness, target, harness.temp_id("Acme"))
        run = await harness.run()
        assert (run.processed, run.rows_written) == (0, 1)
        assert await ids_in(harness, target) == ["C-1"]


async def test_many_rows_are_written_in_batches(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 4)
    monkeypatch.setattr(module.replace_ids, "__kwdefaults__", {"most": 4, "wait": False})
    async with companies_on(database_url, {"Acme": "C-1"}) as harness:
        target = await harness.target()
        await put(harness, target, *[harness.temp_id("Acme")] * 11)
        await harness.enqueue("Acme")
        replacements = {harness.temp_id("Acme"): "C-1"}
        tables, log = harness.companies.tables, harness.companies.log
        once = await harness.mill.run(lambda connection: write_back(connection, tables, replacements, log))
        assert once == WriteBackReport(rows=4)
        assert (await ids_in(harness, target)).count("C-1") == 4
        assert (await harness.run()).rows_written == 7, "four with the answer, and the rest by the sweep"
        assert set(await ids_in(harness, target)) == {"C-1"}


async def test_a_table_of_another_schema(pg_url: str) -> None:
    async with companies_on(pg_url, {"Acme": "C-1"}) as harness:
        target = await harness.target("policies", "company", schema="sales")
        await put(harness, target, harness.temp_id("Acme"))
        await harness.enqueue("Acme")
        assert (await harness.run()).rows_written == 1
        assert await ids_in(harness, target) == ["C-1"]


async def test_names_that_need_quotes_and_tables_without_row_numbers(database_url: str) -> None:
    async with companies_on(database_url, {"Acme": "C-1"}) as harness:
        without = "" if database_url.startswith("postgresql") else "WITHOUT ROWID"
        temp = harness.temp_id("Acme")

        def make(connection: sa.Connection) -> None:
            connection.exec_driver_sql('CREATE TABLE "Policies; DROP" ("Company Id" TEXT, n INTEGER)')
            connection.exec_driver_sql(f"CREATE TABLE keyed (k TEXT PRIMARY KEY, company TEXT) {without}")
            connection.exec_driver_sql(f"INSERT INTO \"Policies; DROP\" VALUES ('{temp}', 1)")
            connection.exec_driver_sql(f"INSERT INTO keyed VALUES ('x', '{temp}')")
            assert not register_target(connection, "Policies; DROP", "Company Id").indexed
            register_target(connection, "keyed", "company")

        await harness.mill.run(make)
        await harness.enqueue("Acme")
        assert (await harness.run()).rows_written == 2


@pytest.mark.parametrize(
    ("table", "column", "fix"),
    [
        ("missing", "company", "there is no table missing in this database. Tables here: .*policies"),
        ("nowhere.policies", "company", "there is no schema nowhere"),
        ("policies", "companie", "has no column companie. It has: id, company, small, number"),
        ("policies", "number", "holds INTEGER, and a temporary id is text. Run: ALTER TABLE"),
        ("policies", "small", "takes 5 characters, and a temporary id has 19. Run: ALTER TABLE"),
        ("a.b.c", "company", "is no name of a table"),
        ("company_mappings", "company_id", "is a table of companies itself"),
        ("enrichment_requests", "temp_id", "is a table of companies itself"),
    ],
)
async def test_a_target_that_can_t_be_one_is_refused_with_the_fix(
    database_url: str, table: str, column: str, fix: str
) -> None:
    async with companies_on(database_url) as harness:
        made = "CREATE TABLE policies (id INTEGER PRIMARY KEY, company TEXT, small VARCHAR(5), number INTEGER)"
        await harness.sql(made)
        with pytest.raises(rm.errors.BadRequest, match=fix):
            await harness.mill.run(lambda connection: register_target(connection, table, column))
        assert await harness.read(sa.select(harness.companies.tables.targets)) == []


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a", (None, "a")),
        ("s.a", ("s", "a")),
        ('"x.y".a', ("x.y", "a")),
        ('"s"."a""b"', ("s", 'a"b')),
        ("A b", (None, "A b")),
    ],
)
def test_names_of_tables(name: str, parts: tuple[str | None, str]) -> None:
    assert parse_table(name) == parts


@pytest.mark.parametrize("name", ["", ".", "a.", 'a"b', "a.b.c", '"a'])
def test_what_is_no_name_of_a_table(name: str) -> None:
    with pytest.raises(rm.errors.BadRequest):
        parse_table(name)


async def test_a_target_that_lost_its_column_holds_up_no_other(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer stands, the other target is written, and the broken one is made good once it is repaired."""
    async with companies_on(database_url, {"Acme": "C-1"}) as harness:
        broken, good = await harness.target("broken"), await harness.target("good")
        for table in (broken, good):
            await put(harness, table, harness.temp_id("Acme"))
        await harness.sql("ALTER TABLE broken RENAME COLUMN company_id TO other")
        await harness.enqueue("Acme")
        run = await harness.run()
        assert (run.done, run.rows_written) == (1, 1)
        assert await ids_in(harness, good) == ["C-1"]
        assert "target=broken.company_id" in caplog.text
        assert "Acme" not in caplog.text
        targets = harness.companies.tables.targets
        errors = {row.table_name: row.last_error for row in await harness.read(sa.select(targets))}
        assert errors["good"] is None
        assert errors["broken"].startswith(("ProgrammingError", "OperationalError"))
        await harness.sql("ALTER TABLE broken RENAME COLUMN other TO company_id")
        assert (await harness.run()).rows_written == 1
        assert await ids_in(harness, broken) == ["C-1"]


async def test_rows_that_somebody_has_locked_are_left_for_the_sweep(pg_url: str) -> None:
    """A transaction of the pipeline must not hold up the queue."""
    async with companies_on(pg_url, {"Acme": "C-1"}) as harness:
        target = await harness.target()
        await put(harness, target, *[harness.temp_id("Acme")] * 2)
        await harness.enqueue("Acme")
        with harness.companies.engine.connect() as other:
            other.exec_driver_sql("SELECT * FROM policies WHERE id = 0 FOR UPDATE")
            run = await harness.run()
            assert (run.done, run.rows_written) == (1, 1)
            other.rollback()
        assert (await sweep(harness)).rows == 1
        assert await ids_in(harness, target) == ["C-1", "C-1"]


async def test_a_column_is_left_alone_once_it_is_unregistered(database_url: str) -> None:
    async with companies_on(database_url, {"Acme": "C-1"}) as harness:
        target = await harness.target()
        await put(harness, target, harness.temp_id("Acme"))
        removed = [
            await harness.mill.run(lambda connection: unregister_target(connection, "policies", "company_id"))
            for _ in range(2)
        ]
        assert removed == [True, False]
        await harness.enqueue("Acme")
        assert (await harness.run()).rows_written == 0


async def test_the_decision_of_a_person_reaches_requests_and_targets(database_url: str) -> None:
    """Whatever the request came to: unsure, failed, or still waiting."""
    async with companies_on(database_url, {"Meyer": ["C-1", "C-2"], "Bolt": rm.PermanentError()}) as harness:
        target = await harness.target()
        await put(harness, target, *(harness.temp_id(name) for name in ("Meyer", "Bolt", "Cog")))
        await harness.enqueue("Meyer", "Bolt")
        await harness.run()
        await harness.enqueue("Cog")
        normal = {name: row.normalized_name for name, row in (await harness.rows()).items()}
        chosen = {normal["Meyer"]: "C-2", normal["Bolt"]: "C-3", normal["Cog"]: "C-4"}
        companies = harness.companies
        report = await harness.mill.run(
            lambda c: resolve_names(c, companies.tables, companies.salts, chosen, companies.log, resolved_by="ann")
        )
        assert report.rows == 3
        assert await ids_in(harness, target) == ["C-2", "C-3", "C-4"]
        rows = await harness.rows()
        assert {(row.status, row.resolved_by, row.outcome) for row in rows.values()} == {("done", "ann", "accepted")}


async def test_the_export_says_what_when_and_by_whom(database_url: str) -> None:
    async with companies_on(database_url, {"Acme": "C-1", "Bolt": "C-2"}) as harness:
        await harness.enqueue("Acme", "Bolt", "Nobody")
        await harness.run()
        found = await harness.mill.run(lambda connection: list(export_resolutions(connection)), write=False)
        assert {(each.raw_name, each.company_id, each.resolved_by) for each in found} == {
            ("Acme", "C-1", "scripted"), ("Bolt", "C-2", "scripted"),
        }  # fmt: skip
        assert all(each.resolved_at is not None and each.resolved_at.tzinfo is not None for each in found)
        assert found[0].temp_id == harness.temp_id(found[0].raw_name)
        newest = found[-1].resolved_at
        assert newest is not None
        later = await harness.mill.run(
            lambda connection: list(export_resolutions(connection, since=newest.replace(year=2100))), write=False
        )
        assert later == []


async def test_of_two_answers_for_a_name_the_newest_holds(database_url: str) -> None:
    async with companies_on(database_url, {"Acme": "C-1"}, cache_days=0) as harness:
        await harness.enqueue("Acme")
        await harness.run()
        harness.provider.answers = {"Acme": "C-2"}
        await harness.sql("UPDATE REQUESTS SET finished_at = '2020-01-01 00:00:00'")
        await harness.enqueue("Acme")
        await harness.run()
        target = await harness.target()
        await put(harness, target, harness.temp_id("Acme"))
        assert (await sweep(harness, page=1)).rows == 1
        assert await ids_in(harness, target) == ["C-2"]
