"""Providers are asked before a pipeline's transaction, or within a time that others can wait."""

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from rowmill_systems.companies.commands.resolving import ResolveOptions, resolve_file
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.lookup import CallBudget
from rowmill_systems.companies.mappings import CompanyMappingRepository
from rowmill_systems.companies.prefetching import prefetch_answers
from rowmill_systems.companies.resolver import CompanyIdResolver, Resolution
from rowmill_systems.companies.temp_ids import normalize_for_temp_id
from systems.tests.companies.harness import companies_on, sync_companies


class OtherWriter:
    """Another process that writes, and can't wait."""

    def __init__(self, companies: Companies) -> None:
        self._engine, self._meta = companies.mill.store.sync_engine, companies.tables.meta
        self.written = 0

    def write(self, name: str) -> None:
        with self._engine.connect() as connection:
            if connection.dialect.name == "sqlite":
                driver = connection.connection.driver_connection
                assert driver is not None
                driver.execute("PRAGMA busy_timeout = 0")
            connection.execute(sa.insert(self._meta).values(key=f"{name} {self.written}", value="written"))
            connection.commit()
            self.written += 1


def resolve(companies: Companies, *names: str, **options: object) -> list[Resolution]:
    with companies.engine.begin() as connection:
        resolver = CompanyIdResolver(connection, companies.settings, salt=companies.salts.current, **options)  # type: ignore[arg-type]
        return resolver.resolve(names)


def test_others_write_while_providers_are_asked_ahead(database_url: str) -> None:
    """C2."""
    with sync_companies(database_url, {"Acme": "C-1"}) as (companies, provider):
        other, run = OtherWriter(companies), companies.begin_run()
        provider.before_answer = other.write
        ahead = prefetch_answers(companies, ["Acme", "Nobody", "N/A", None], run.chain)
        found = resolve(companies, "ACME", "Nobody", prefetched=ahead)
        assert other.written == 2
        assert [(each.company_id, each.rung, each.reason) for each in found] == [
            ("C-1", "scripted", "accepted"),
            (companies.salts.temp_id(normalize_for_temp_id("Nobody")), "providers", "no_match"),
        ]
        assert provider.asked == ["Acme", "Nobody"]
        again = resolve(companies, "Acme", "Nobody", providers=run.chain)
        assert [each.rung for each in again] == ["cache", "cache"], "the answers were stored"
        assert prefetch_answers(companies, ["Acme", "Nobody"], run.chain).decisions == {}


def test_what_is_known_by_then_counts_more_than_what_was_asked_ahead(database_url: str) -> None:
    with sync_companies(database_url, {"Acme": "C-1"}) as (companies, _):
        ahead = prefetch_answers(companies, ["Acme"], companies.begin_run().chain)
        with companies.engine.begin() as connection:
            repository = CompanyMappingRepository(connection, companies.settings)
            repository.store_mapping("company_name", normalize_for_temp_id("Acme"), "C-9")
        [found] = resolve(companies, "Acme", prefetched=ahead)
        assert (found.company_id, found.rung) == ("C-9", "company_name")


async def test_an_answer_asked_ahead_is_kept_for_a_request_that_came_meanwhile(database_url: str) -> None:
    """It was paid for: the worker asks nobody again."""
    names = ["Acme", "Nobody"]
    async with companies_on(database_url, {"Acme": "C-1"}) as harness:
        companies = harness.companies
        ahead = await asyncio.to_thread(prefetch_answers, companies, names, companies.begin_run().chain)
        await harness.enqueue(*names)
        found = await asyncio.to_thread(resolve, companies, *names, prefetched=ahead)
        assert [(each.rung, each.reason) for each in found] == [("queue", "already_open")] * 2
        run = await harness.run()
        assert (run.done, run.no_match, run.known, run.calls) == (1, 1, 2, 0)
        assert harness.provider.asked == names


def test_the_budget_is_one_for_all_that_is_asked_ahead(database_url: str) -> None:
    with sync_companies(database_url, eqc_sync_budget=3) as (companies, provider):
        chain, budget = companies.begin_run().chain, CallBudget(3)
        for number in range(3):
            prefetch_answers(companies, [f"Company {number} {letter}" for letter in "ab"], chain, budget)
        assert len(provider.asked) == budget.spent == 3


def test_others_write_while_the_command_asks(database_url: str, tmp_path: Path) -> None:
    with sync_companies(database_url, {"Acme": "C-1"}) as (companies, provider):
        other = OtherWriter(companies)
        provider.before_answer = other.write
        (tmp_path / "names.csv").write_text("name\nAcme\nNobody\n")
        out = tmp_path / "out.csv"
        resolve_file(
            companies,
            ResolveOptions(tmp_path / "names.csv", "name", None, None, None, out, False, None, as_json=False),
        )
        assert other.written == 2
        assert "Acme,C-1,scripted" in out.read_text()


def test_a_resolver_waits_for_providers_no_longer_than_it_may(database_url: str) -> None:
    """What hangs goes to the queue, and the pipeline goes on."""
    leave = threading.Event()
    with sync_companies(database_url, {"Acme": "C-1"}, eqc_sync_seconds=0.3) as (companies, provider):

        def hang(name: str) -> None:
            assert leave.wait(30)

        provider.before_answer = hang
        [found] = resolve(companies, "Acme", providers=companies.begin_run().chain)
        leave.set()
        assert (found.rung, found.reason, found.temporary) == ("queue", "enqueued", True)


@pytest.mark.parametrize("seconds", [0.0, 2.0])
def test_without_time_nobody_is_asked(database_url: str, seconds: float) -> None:
    with sync_companies(database_url, {"Acme": "C-1"}, eqc_sync_seconds=seconds) as (companies, provider):
        [found] = resolve(companies, "Acme", providers=companies.begin_run().chain)
        assert (found.rung, provider.asked) == (("scripted", ["Acme"]) if seconds else ("queue", []))


def test_of_two_transactions_that_lock_each_other_out_one_goes_on(pg_url: str) -> None:
    """They resolve names in crossed orders. A second try would wait for the same lock again."""
    meet = threading.Barrier(2, timeout=30)
    with sync_companies(pg_url) as (companies, _):
        tries: list[str] = []

        def pipeline(names: tuple[str, str]) -> tuple[list[str], dict[tuple[str, str], int]]:
            with companies.engine.begin() as connection:
                connection.exec_driver_sql("SET LOCAL deadlock_timeout = '50ms'")
                resolver = CompanyIdResolver(
                    connection, companies.settings, salt=companies.salts.current, keep_counts=False
                )
                place = resolver.mappings.open_requests

                def count(wanted: Mapping[str, str]) -> dict[str, str]:
                    tries.extend(wanted)
                    return place(wanted)

                resolver.mappings.open_requests = count  # type: ignore[method-assign, assignment]
                first = resolver.resolve(names[:1])
                meet.wait()
                reasons = [each.reason for each in first + resolver.resolve(names[1:])]
                return reasons, dict(resolver.counts.failures)

        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(pipeline, [("Acme", "Bolt"), ("Bolt", "Acme")]))
        assert sorted(len(failures) for _, failures in found) == [0, 1]
        assert [failures for _, failures in found if failures] == [{("queue", "40P01"): 1}]
        assert len(tries) == 4, "each name once in each of the two"
        assert ["enqueued", "queue_failed"] in [reasons for reasons, _ in found]
