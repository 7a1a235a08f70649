"""Runs of workers that never end: their providers, and the calls that they share."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.companies import processing, runs
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.providers.port import Answer, BudgetSpent, ProviderClosed, SpendCall
from systems.tests.companies.fake_providers import ScriptedProvider
from systems.tests.companies.harness import CompaniesHarness, companies_on, settings_for


class ClosableProvider(ScriptedProvider):
    """Can't be asked once it is closed, as a real one."""

    def search(self, names: Sequence[str], spend: SpendCall) -> Sequence[Answer]:
        found = super().search(names, spend)
        if self.closed:
            raise ProviderClosed("scripted is closed")
        return found


async def test_a_batch_ends_with_the_providers_that_it_began_with(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hour of a worker ends while a batch is looked up."""
    opened: list[ClosableProvider] = []
    async with companies_on(database_url) as harness:
        companies = harness.companies

        def open_providers() -> list[ClosableProvider]:
            opened.append(ClosableProvider({"Acme": "C-1", "Bolt": "C-2"}))
            opened[-1].before_answer = renew
            return opened[-1:]

        def renew(name: str) -> None:
            if len(opened) == 1:
                with companies.standing.current() as run:
                    assert run.chain.providers == (opened[1],)

        companies._providers = open_providers
        monkeypatch.setattr(runs, "STANDING_SECONDS", 0.0)
        await harness.enqueue("Acme")
        await harness.bench.drain()
        row = (await harness.rows())["Acme"]
        assert (row.status, row.resolved_company_id, row.attempts) == ("done", "C-1", 1)
        assert [each.closed for each in opened] == [1, 0], "the first one is closed once nobody uses it"
        companies.standing.close()
        companies.standing.close()
        assert [each.closed for each in opened] == [1, 1]


async def test_a_provider_that_was_closed_costs_no_attempt(database_url: str) -> None:
    async with companies_on(database_url, {"Acme": ProviderClosed("closed")}) as harness:
        await harness.enqueue("Acme")
        assert (await harness.run()).postponed == 1
        row = (await harness.rows())["Acme"]
        assert (row.status, row.attempts, row.last_error) == ("pending", 0, "provider_closed")


async def drained(harness: CompaniesHarness) -> int:
    """Let a continuous worker answer what is due. Return how many names were asked for."""
    before = len(harness.provider.asked)
    await harness.bench.drain()
    return len(harness.provider.asked) - before


async def test_continuous_workers_share_the_calls_of_an_hour(database_url: str) -> None:
    """C4: however many processes there are, and however often one of them starts anew."""
    names = [f"Company {number}" for number in range(12)]
    async with companies_on(database_url, eqc_run_budget=5, enrichment_batch_size=3) as harness:
        await harness.enqueue(*names)
        second = CompaniesHarness(
            Companies(settings_for(database_url, eqc_run_budget=5), providers=[harness.provider]), harness.provider
        )
        first = await drained(harness)
        await harness.sql("UPDATE REQUESTS SET next_retry_at = NULL WHERE status = 'pending'")
        async with second.companies.opened():
            other = await drained(second)
        assert (first, other) == (5, 0)
        rows = (await harness.rows()).values()
        assert sorted(row.status for row in rows) == ["done"] * 5 + ["pending"] * 7
        assert {row.attempts for row in rows if row.status == "pending"} == {0}
        assert {row.last_error for row in rows if row.status == "pending"} <= {"budget_spent", None}


async def test_the_calls_of_an_hour_are_never_exceeded_by_threads(database_url: str) -> None:
    async with companies_on(database_url, eqc_run_budget=20) as harness:
        with harness.companies.standing.current() as run:

            def spend(_: int) -> float | None:
                try:
                    run.budget.spend()
                except BudgetSpent as error:
                    return error.retry_after
                return 0.0

            with ThreadPoolExecutor(8) as pool:
                waits = await asyncio.to_thread(lambda: list(pool.map(spend, range(40))))
        assert waits.count(0.0) == run.budget.spent == 20
        assert all(wait is not None and wait <= 3600 for wait in waits)


class RefusingLimit:
    """A limit that grants no call."""

    def __init__(self, error: Exception) -> None:
        self.error, self.asked = error, 0

    def call(self) -> NoReturn:
        self.asked += 1
        raise self.error


async def test_once_the_calls_are_spent_the_backlog_waits_for_the_next_hour(database_url: str) -> None:
    """Each request is put back once, and not every minute."""
    names = [f"Company {number}" for number in range(12)]
    async with companies_on(database_url, enrichment_batch_size=3) as harness:
        limit = RefusingLimit(rm.errors.Limited("companies_calls", "", "budget", 1800.0))
        harness.companies._fleet_limit = limit  # type: ignore[assignment]
        await harness.enqueue(*names)
        assert await drained(harness) == 0
        before = await harness.rows()
        assert {(row.status, row.attempts, row.last_error) for row in before.values()} == {
            ("pending", 0, "budget_spent")
        }
        assert len({row.next_retry_at for row in before.values()}) > 6, "they do not come back at the same moment"
        asked = limit.asked
        await harness.bench.advance(1700)
        await harness.bench.drain()
        after = await harness.rows()
        assert [row.updated_at for row in after.values()] == [row.updated_at for row in before.values()]
        await harness.bench.advance(100 + processing.SPREAD_SECONDS)
        await harness.bench.drain()
        assert all(row.updated_at > before[name].updated_at for name, row in (await harness.rows()).items())
        assert limit.asked == asked, "the run knows until when there are none"


@pytest.mark.parametrize(
    "error",
    [
        rm.errors.DatabaseUnreachable("gone"),
        rm.RowmillError("the connection broke"),
        sa.exc.OperationalError("SELECT 1", {}, Exception("gone")),
    ],
)
async def test_a_call_that_the_database_can_t_count_costs_no_attempt(database_url: str, error: Exception) -> None:
    async with companies_on(database_url, {"Acme": "C-1"}) as harness:
        harness.companies._fleet_limit = RefusingLimit(error)  # type: ignore[assignment]
        await harness.enqueue("Acme")
        assert await drained(harness) == 0
        row = (await harness.rows())["Acme"]
        assert (row.status, row.attempts, row.last_error) == ("pending", 0, "call_not_counted")


async def test_without_calls_a_continuous_worker_asks_nobody(database_url: str) -> None:
    async with companies_on(database_url, {"Acme": "C-1"}, eqc_run_budget=0) as harness:
        await harness.enqueue("Acme")
        assert await drained(harness) == 0
        assert (await harness.rows())["Acme"].status == "pending"


def test_a_gap_of_nothing_is_refused() -> None:
    """Two companies that are equally good would both be the best."""
    with pytest.raises(ValueError, match="accept_gap"):
        settings_for("sqlite://", accept_gap=0)
