"""What must hold whoever else is at work: a person's word, the rows of others, ids that are ids, one salt."""

from typing import Any

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.companies.deciding import decide_review
from rowmill_systems.companies.mappings import CompanyMappingRepository
from rowmill_systems.companies.resolver import CompanyIdResolver
from rowmill_systems.companies.salts import SaltMismatch
from rowmill_systems.companies.temp_ids import normalize_for_temp_id
from rowmill_systems.companies.write_back import ResolvedName, register_target, resolve_names
from systems.tests.companies.fake_providers import ScriptedProvider
from systems.tests.companies.harness import SALT, CompaniesHarness, companies_on


async def put(harness: CompaniesHarness, target: sa.TableClause, *ids: str) -> None:
    [column] = [name for name in target.c.keys() if name != "id"]  # noqa: SIM118
    rows = [{"id": number, column: each} for number, each in enumerate(ids)]
    await harness.mill.run(lambda connection: connection.execute(sa.insert(target), rows).close())


async def ids_in(harness: CompaniesHarness, target: sa.TableClause) -> list[Any]:
    return [row[1] for row in await harness.read(sa.select(target).order_by(target.c.id))]


@pytest.mark.parametrize("salt", ["another salt", f"{SALT}, nearly"])
async def test_a_pipeline_with_another_salt_is_refused(database_url: str, salt: str) -> None:
    async with companies_on(database_url) as harness:
        settings = harness.companies.settings
        with pytest.raises(SaltMismatch):
            await harness.mill.run(lambda connection: CompanyIdResolver(connection, settings, salt=salt))


async def test_a_line_end_behind_the_salt_changes_no_id(database_url: str) -> None:
    async with companies_on(database_url) as harness:
        settings = harness.companies.settings

        def resolve(connection: sa.Connection) -> str | None:
            return CompanyIdResolver(connection, settings, salt=f"{SALT}\n").resolve(["Acme"])[0].company_id

        assert await harness.mill.run(resolve) == harness.temp_id("Acme")


async def test_a_persons_word_holds_against_a_lookup_that_is_under_way(database_url: str) -> None:
    provider = ScriptedProvider({"Acme": "WRONG"})
    async with companies_on(database_url, provider) as harness:
        companies = harness.companies
        target = await harness.target()
        await put(harness, target, harness.temp_id("Acme"))
        await harness.enqueue("Acme")

        def decide(connection: sa.Connection) -> None:
            names = {normalize_for_temp_id("Acme"): "RIGHT"}
            resolve_names(connection, companies.tables, companies.salts, names, companies.log, resolved_by="ann")

        def meanwhile(name: str) -> None:
            with companies.engine.begin() as connection:
                decide(connection)

        provider.before_answer = meanwhile
        await harness.run()
        row = (await harness.rows())["Acme"]
        assert (row.status, row.resolved_company_id, row.resolved_by) == ("done", "RIGHT", "ann")
        assert await ids_in(harness, target) == ["RIGHT"]


async def test_an_id_that_a_table_refuses_keeps_no_other_from_its_rows(database_url: str) -> None:
    async with companies_on(database_url, {"Acme": "C-1", "Acme Works": "C-1", "Bolt": "C-2"}) as harness:

        def make(connection: sa.Connection) -> None:
            connection.exec_driver_sql("CREATE TABLE accounts (id INTEGER, company_id VARCHAR(40) PRIMARY KEY)")
            register_target(connection, "accounts", "company_id")

        await harness.mill.run(make)
        accounts = sa.table("accounts", sa.column("id", sa.Integer), sa.column("company_id", sa.Text))
        names = ("Acme", "Acme Works", "Bolt")
        await put(harness, accounts, *map(harness.temp_id, names))
        await harness.enqueue(*names)
        await harness.run()
        found = await ids_in(harness, accounts)
        assert found[2] == "C-2"
        assert sorted(found[:2]) in (["C-1", harness.temp_id("Acme Works")], ["C-1", harness.temp_id("Acme")])
        [noted] = await harness.read(sa.select(harness.companies.tables.targets.c.last_error))
        assert noted[0] is not None


@pytest.mark.parametrize("company_id", [None, "", "  ", "x" * 101, "IN_ABCDEFGHIJKLMNOP"])
async def test_what_is_no_id_is_not_marked_as_one(database_url: str, company_id: Any) -> None:
    async with companies_on(database_url) as harness:
        target = await harness.target()
        await put(harness, target, harness.temp_id("Acme"))
        await harness.enqueue("Acme")
        [request] = await harness.queue(lambda queue: queue.dequeue(1))
        with pytest.raises(rm.errors.BadRequest):
            await harness.queue(lambda queue: queue.mark_done(request, company_id))
        assert await ids_in(harness, target) == [harness.temp_id("Acme")]


@pytest.mark.parametrize("company_id", ["", "x" * 101, "R\ud800", "IN_ABCDEFGHIJKLMNOP"])
async def test_a_provider_that_answers_with_no_id_has_not_answered(database_url: str, company_id: str) -> None:
    async with companies_on(database_url, {"Acme": company_id}) as harness:
        await harness.enqueue("Acme")
        run = await harness.run()
        assert (run.done, run.no_match, run.retried, run.calls) == (0, 0, 1, 1)
        assert (await harness.rows())["Acme"].last_error.startswith("bad_answer")


async def test_a_name_that_is_requested_again_is_asked_for_again(database_url: str) -> None:
    provider = ScriptedProvider()
    async with companies_on(database_url, provider) as harness:
        await harness.enqueue("Acme")
        assert (await harness.run()).no_match == 1
        provider.answers["Acme"] = "C-1"

        def again(connection: sa.Connection) -> int:
            repository = CompanyMappingRepository(connection, harness.companies.settings)
            return repository.enqueue_for_enrichment(["Acme"], again=True).enqueued

        assert await harness.mill.run(again) == 1
        assert (await harness.run()).done == 1


async def test_what_is_registered_learns_of_decisions_too(database_url: str) -> None:
    """C13."""
    async with companies_on(database_url, {"Meyer": ["C-3", "C-4"]}) as harness:
        learnt: list[ResolvedName] = []
        harness.companies.on_resolved(lambda connection, resolved: learnt.append(resolved))
        await harness.enqueue("Meyer")
        assert (await harness.run()).unsure == 1
        [review] = await harness.read(sa.select(harness.companies.tables.reviews.c.id))
        await harness.mill.run(lambda c: decide_review(c, harness.companies, review[0], "C-4", "ann"))
        assert [(each.raw_name, each.company_id, each.resolved_by) for each in learnt] == [("Meyer", "C-4", "ann")]


@pytest.mark.parametrize("column", ["old_id", "new_id"])
async def test_a_target_column_may_have_any_name(database_url: str, column: str) -> None:
    async with companies_on(database_url, {"Acme": "C-1"}) as harness:
        target = await harness.target("pairs", column)
        await put(harness, target, harness.temp_id("Acme"))
        await harness.enqueue("Acme")
        await harness.run()
        assert await ids_in(harness, target) == ["C-1"]
