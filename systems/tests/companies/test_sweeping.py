"""A sweep finds every row that still has a temporary id, at a cost that does not grow with what is done."""

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill_systems.companies import sweeping
from rowmill_systems.companies.deciding import decide_conflict, decide_review
from rowmill_systems.companies.known_answers import known_answers
from rowmill_systems.companies.lookup import JudgedCandidate, LookupDecision, LookupOutcome
from rowmill_systems.companies.mappings import CompanyMappingRepository
from rowmill_systems.companies.providers.port import CompanyCandidate
from rowmill_systems.companies.reviews import record_review
from rowmill_systems.companies.salts import write_meta
from rowmill_systems.companies.sweeping import SweepReport, sweep_targets
from rowmill_systems.companies.temp_ids import normalize_for_temp_id
from rowmill_systems.companies.write_back import ROWS, position_key, register_target, unregister_target
from rowmill_systems.parts.names.companies import compare_companies
from systems.tests.companies.harness import CompaniesHarness, companies_on

MANY = ROWS + 200


async def put(harness: CompaniesHarness, table: sa.TableClause, *ids: str) -> None:
    [[count]] = await harness.read(sa.select(sa.func.count()).select_from(table))
    rows = [{"id": count + number, "company_id": each} for number, each in enumerate(ids)]
    await harness.mill.run(lambda connection: connection.execute(sa.insert(table), rows).close())


async def counted(harness: CompaniesHarness, table: sa.TableClause) -> dict[str, int]:
    found = sa.select(table.c.company_id, sa.func.count()).group_by(table.c.company_id)
    return {row[0]: row[1] for row in await harness.read(found)}


async def sweep(harness: CompaniesHarness, **options: Any) -> SweepReport:
    return await asyncio.to_thread(sweep_targets, harness.companies, **options)


async def map_name(harness: CompaniesHarness, name: str, company_id: str) -> None:
    """Store a person's mapping."""

    def store(connection: sa.Connection) -> None:
        repository = CompanyMappingRepository(connection, harness.companies.settings)
        repository.store_mapping("company_name", normalize_for_temp_id(name), company_id)

    await harness.mill.run(store)


async def test_all_rows_of_a_decided_name_are_written_though_nobody_had_requested_it(database_url: str) -> None:
    """C13: the transaction of the decision writes some thousand rows, and the sweep the others."""
    async with companies_on(database_url) as harness:
        companies, target = harness.companies, await harness.target()
        await put(harness, target, *[harness.temp_id("Acme")] * MANY)
        name = normalize_for_temp_id("Acme")

        def decide(connection: sa.Connection) -> int:
            match = compare_companies("Acme", "Acme")
            candidates = tuple(JudgedCandidate(CompanyCandidate(each, "Acme"), match) for each in ("C-1", "C-2"))
            unsure = LookupDecision(LookupOutcome.UNSURE, "eqc", candidates=candidates)
            record_review(connection, companies.tables, normalized_name=name, raw_name="Acme", decision=unsure)
            review = connection.scalar(sa.select(companies.tables.reviews.c.id))
            return decide_review(connection, companies, review or 0, "C-1", "ann")

        assert await harness.mill.run(decide) == ROWS
        assert (await sweep(harness)).rows == MANY - ROWS
        assert await counted(harness, target) == {"C-1": MANY}
        row = (await harness.rows())["Acme"]
        assert (row.status, row.outcome, row.resolved_by, row.temp_id) == (
            "done", "accepted", "ann", harness.temp_id("Acme"),
        )  # fmt: skip


async def test_all_rows_of_a_name_whose_conflict_is_decided_are_written(database_url: str) -> None:
    """Also if its request has the other company: the decision is newer."""
    async with companies_on(database_url, {"Acme": "C-1"}) as harness:
        companies, name = harness.companies, normalize_for_temp_id("Acme")
        await harness.enqueue("Acme")
        await harness.run()
        target = await harness.target()
        await put(harness, target, *[harness.temp_id("Acme")] * MANY)

        def decide(connection: sa.Connection) -> int:
            values = {"match_type": "company_name", "alias": name, "company_id": "C-1", "other_company_id": "C-2"}
            made = sa.insert(companies.tables.conflicts).values(values).returning(companies.tables.conflicts.c.id)
            return decide_conflict(connection, companies, connection.scalar(made) or 0, "C-2", "ann")

        assert await harness.mill.run(decide) == ROWS
        assert (await sweep(harness)).rows == MANY - ROWS
        assert await counted(harness, target) == {"C-2": MANY}


async def test_rows_that_come_long_after_the_answer_are_found_by_the_usual_sweep(database_url: str) -> None:
    """C13."""
    async with companies_on(database_url, {"Acme": "C-1"}) as harness:
        target = await harness.target()
        await harness.enqueue("Acme")
        await harness.run()
        await harness.sql("UPDATE REQUESTS SET finished_at = '2020-01-01 00:00:00'")
        await put(harness, target, harness.temp_id("Acme"), harness.temp_id("Nobody"), "IND-7", "INA", "in_x", "600001")
        assert (await sweep(harness)).rows == 1
        assert await counted(harness, target) == {
            "C-1": 1, harness.temp_id("Nobody"): 1, "IND-7": 1, "INA": 1, "in_x": 1, "600001": 1,
        }  # fmt: skip


async def test_a_sweep_reads_a_part_of_the_column_and_the_next_one_goes_on(database_url: str) -> None:
    """Many rows of one name that nobody knows hold up no other: the next part begins behind that name."""
    names = [f"Company {letter}" for letter in "abcdefgh"]
    async with companies_on(database_url, dict.fromkeys(names[::2], "C-1")) as harness:
        target = await harness.target()
        await harness.enqueue(*names)
        await harness.run()
        await harness.sql("UPDATE REQUESTS SET finished_at = '2020-01-01 00:00:00'")
        await put(harness, target, *(harness.temp_id(name) for name in names for _ in range(4)))
        written = [(await sweep(harness, rows_read=5)).rows for _ in range(9)]
        assert sum(written) == 16
        assert max(written) <= 8, "one sweep looks at five rows, which are two names at the most"
        await put(harness, target, harness.temp_id(names[0]))
        assert sum([(await sweep(harness, rows_read=5)).rows for _ in range(9)]) == 1, "it begins anew at the end"


async def test_everything_reads_whole_columns(database_url: str) -> None:
    names = [f"Company {letter}" for letter in "abcdefgh"]
    async with companies_on(database_url, dict.fromkeys(names, "C-1")) as harness:
        target = await harness.target()
        await harness.enqueue(*names)
        await harness.run()
        await harness.sql("UPDATE REQUESTS SET finished_at = NULL")
        await put(harness, target, *(harness.temp_id(name) for name in names))
        assert (await sweep(harness, rows_read=3)).rows == 3
        assert (await sweep(harness, rows_read=3, everything=True)).rows == 5


async def test_everything_begins_at_the_beginning_and_goes_on_after_a_kill(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that the usual sweep has passed get their company too."""
    names = [f"Company {letter}" for letter in "abcdefgh"]
    async with companies_on(database_url) as harness:
        target, at = await harness.target(), {harness.temp_id(name): name for name in names}
        ordered = [at[each] for each in sorted(at)]
        await harness.enqueue(*names)
        assert (await harness.run()).no_match == 8
        await put(harness, target, *at)
        await sweep(harness, rows_read=3)
        await map_name(harness, ordered[0], "C-1")
        read: list[int] = []
        whole_read = sweeping._ids_after

        def killed(*given: Any) -> Any:
            if len(read) == 2:
                raise KeyboardInterrupt
            found = whole_read(*given)
            read.append(len(found[0]))
            return found

        monkeypatch.setattr(sweeping, "_ids_after", killed)
        with pytest.raises(KeyboardInterrupt):
            sweep_targets(harness.companies, everything=True, rows_read=3)
        assert (await counted(harness, target))["C-1"] == 1
        await map_name(harness, ordered[7], "C-8")
        read.insert(0, 0)
        assert (await sweep(harness, everything=True, rows_read=3)).rows == 1
        assert read == [0, 3, 3, 2], "the rest of it"
        await map_name(harness, ordered[1], "C-2")
        assert (await sweep(harness, everything=True, rows_read=3)).rows == 1, "from the beginning again"


async def test_everything_does_not_go_on_with_what_was_killed_long_ago(database_url: str) -> None:
    async with companies_on(database_url) as harness:
        target = await harness.target()
        await harness.enqueue("Acme")
        assert (await harness.run()).no_match == 1
        await put(harness, target, harness.temp_id("Acme"))
        await map_name(harness, "Acme", "C-1")

        def note(connection: sa.Connection) -> None:
            tables = harness.companies.tables
            number = connection.scalar(sa.select(tables.targets.c.id)) or 0
            write_meta(connection, tables, position_key(number, whole=True), "2026-01-01T00:00:00+00:00 IN_Z")

        await harness.mill.run(note)
        assert (await sweep(harness, everything=True)).rows == 1
        meta = harness.companies.tables.meta.c.key
        assert await harness.read(sa.select(meta).where(meta.like("target%"))) == []


async def test_of_two_sweeps_at_once_one_answers_a_request(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one neither records it again, nor calls back for it. SQLite lets one write after the other."""
    async with companies_on(pg_url) as harness:
        companies, target = harness.companies, await harness.target()
        await put(harness, target, harness.temp_id("Acme"))
        await harness.enqueue("Acme")
        assert (await harness.run()).no_match == 1
        learnt: list[str] = []
        companies.on_resolved(lambda connection, resolved: learnt.append(resolved.company_id))
        await map_name(harness, "Acme", "C-7")
        others: list[SweepReport] = []

        def after_another(*given: Any) -> Any:
            if not others:
                others.append(SweepReport())
                others.append(sweep_targets(companies))
            return known_answers(*given)

        monkeypatch.setattr(sweeping, "known_answers", after_another)
        assert (await sweep(harness)).rows == 0
        assert others[1].rows == 1
        requests = await harness.read(sa.select(harness.requests.c.temp_id, harness.requests.c.resolved_company_id))
        assert [tuple(row) for row in requests] == [(harness.temp_id("Acme"), "C-7")]
        assert learnt == ["C-7"]


@pytest.mark.parametrize("match_type", ["company_name", "hardcode"])
async def test_a_mapping_that_comes_later_replaces_temporary_ids_too(database_url: str, match_type: Any) -> None:
    """C13: nobody would ask for such a name again: its mapping answers."""
    async with companies_on(database_url) as harness:
        companies, target = harness.companies, await harness.target()
        await put(harness, target, harness.temp_id("Acme"))
        await harness.enqueue("Acme")
        assert (await harness.run()).no_match == 1
        learnt: list[str] = []
        companies.on_resolved(lambda connection, resolved: learnt.append(resolved.company_id))

        def map_it(connection: sa.Connection) -> None:
            repository = CompanyMappingRepository(connection, companies.settings)
            repository.store_mapping(match_type, normalize_for_temp_id("Acme"), "C-7")

        await harness.mill.run(map_it)
        assert (await harness.run()).rows_written == 1
        assert await counted(harness, target) == {"C-7": 1}
        row = (await harness.rows())["Acme"]
        assert (row.resolved_company_id, row.resolved_by, row.outcome) == ("C-7", "internal", "accepted")
        assert learnt == ["C-7"]


async def test_a_hardcoded_mapping_answers_a_request_that_waits(database_url: str) -> None:
    async with companies_on(database_url, {"Acme": "C-1"}) as harness:
        await harness.enqueue("Acme")

        def map_it(connection: sa.Connection) -> None:
            repository = CompanyMappingRepository(connection, harness.companies.settings)
            repository.store_mapping("hardcode", normalize_for_temp_id("Acme"), "C-7")

        await harness.mill.run(map_it)
        run = await harness.run()
        assert (run.done, run.calls) == (1, 0)
        assert (await harness.rows())["Acme"].resolved_company_id == "C-7"


async def test_an_id_that_is_too_long_is_met_again_and_holds_up_no_sweep(database_url: str) -> None:
    """One id that a table refuses must not make each run look at every name that was ever resolved."""
    long = "C-" + "1" * 60
    async with companies_on(database_url, {"Acme": long, "Bolt": "C-2"}) as harness:

        def make(connection: sa.Connection) -> None:
            connection.exec_driver_sql(
                "CREATE TABLE policies (id INTEGER, company_id VARCHAR(40) CHECK (length(company_id) < 40))"
            )
            register_target(connection, "policies", "company_id")

        await harness.mill.run(make)
        target = sa.table("policies", sa.column("id", sa.Integer), sa.column("company_id", sa.Text))
        await put(harness, target, harness.temp_id("Acme"), harness.temp_id("Bolt"))
        await harness.enqueue("Acme", "Bolt")
        assert (await harness.run()).rows_written == 1
        assert await counted(harness, target) == {harness.temp_id("Acme"): 1, "C-2": 1}
        [row] = await harness.read(sa.select(harness.companies.tables.targets))
        assert (row.last_error is None, row.swept_at is None) == (False, False)
        await harness.sql("DELETE FROM policies")
        report = await sweep(harness)
        assert report.failed == ()
        [row] = await harness.read(sa.select(harness.companies.tables.targets))
        assert row.last_error is None


async def test_a_target_that_is_gone_is_reported_and_its_position_goes_with_it(database_url: str) -> None:
    async with companies_on(database_url) as harness:
        target = await harness.target()
        await put(harness, target, *[harness.temp_id("Acme"), harness.temp_id("Bolt")])
        await sweep(harness, rows_read=1)
        meta = sa.select(harness.companies.tables.meta.c.key).where(harness.companies.tables.meta.c.key.like("target%"))
        assert len(await harness.read(meta)) == 1
        await harness.sql("DROP TABLE policies")
        assert (await sweep(harness)).failed == ("policies.company_id",)
        await harness.mill.run(lambda connection: unregister_target(connection, "policies", "company_id"))
        assert await harness.read(meta) == []


async def test_a_column_without_rights_is_reported_and_the_others_are_written(pg_url: str) -> None:
    async with companies_on(pg_url, {"Acme": "C-1"}) as harness:
        closed, target = await harness.target("closed"), await harness.target("policies")
        for table in (closed, target):
            await put(harness, table, harness.temp_id("Acme"))
        # A trigger refuses as a missing right would: the role of the tests owns every table.
        await harness.sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE insufficient_privilege; END $$"
        )
        await harness.sql("CREATE TRIGGER refuse BEFORE UPDATE ON closed FOR EACH ROW EXECUTE FUNCTION refuse()")
        await harness.enqueue("Acme")
        run = await harness.run()
        assert (run.done, run.rows_written) == (1, 1)
        assert await counted(harness, target) == {"C-1": 1}
        [error] = await harness.read(
            sa.select(harness.companies.tables.targets.c.last_error).where(
                harness.companies.tables.targets.c.table_name == "closed"
            )
        )
        assert error[0].endswith("42501")
