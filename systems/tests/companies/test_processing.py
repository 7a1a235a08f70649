"""What becomes of requests."""

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.companies.providers.port import BudgetSpent, ProviderOff
from systems.tests.companies.fake_providers import ScriptedProvider
from systems.tests.companies.harness import companies_on


async def test_an_answer_is_written_cached_and_carried_to_the_targets(database_url: str) -> None:
    """C4, C13: in one transaction."""
    async with companies_on(database_url, {"Acme Ltd": "C-1"}) as harness:
        target = await harness.target()
        await harness.enqueue("Acme Ltd")
        old = harness.temp_id("Acme Ltd")
        rows = [{"id": n, "company_id": old} for n in range(3)] + [{"id": 9, "company_id": "C-7"}]
        await harness.mill.run(lambda c: c.execute(sa.insert(target), rows).close())
        run = await harness.run()
        assert (run.processed, run.done, run.calls, run.rows_written) == (1, 1, 1, 3)
        assert (run.done_count, run.pending_count, run.processing_count, run.failed_count) == (1, 0, 0, 0)
        row = (await harness.rows())["Acme Ltd"]
        assert (row.status, row.resolved_company_id, row.resolved_by, row.outcome) == (
            "done", "C-1", "scripted", "accepted",
        )  # fmt: skip
        assert (row.attempts, row.last_error, row.confidence, row.temp_id) == (1, None, 1.0, old)
        assert [each.company_id for each in await harness.read(sa.select(target).order_by(target.c.id))] == [
            "C-1", "C-1", "C-1", "C-7",
        ]  # fmt: skip
        mappings = harness.companies.tables.mappings
        [cached] = await harness.read(sa.select(mappings))
        assert (cached.match_type, cached.alias, cached.company_id, cached.source) == (
            "company_name", row.normalized_name, "C-1", "scripted",
        )  # fmt: skip
        assert cached.expires_at is not None


async def test_no_match_is_an_answer_and_is_not_tried_again(database_url: str) -> None:
    async with companies_on(database_url) as harness:
        await harness.enqueue("Nobody Inc")
        run = await harness.run()
        assert (run.no_match, run.done, run.retried) == (1, 0, 0)
        row = (await harness.rows())["Nobody Inc"]
        assert (row.status, row.outcome, row.resolved_company_id, row.last_error) == ("done", "no_match", None, None)
        assert row.temp_id == harness.temp_id("Nobody Inc"), "the rows that carry it are accounted for"
        await harness.enqueue("Nobody Inc")
        run = await harness.run()
        assert (run.no_match, run.known, run.calls) == (1, 1, 0)
        assert harness.provider.asked == ["Nobody Inc"]


async def test_several_candidates_are_left_to_a_person(database_url: str) -> None:
    async with companies_on(database_url, {"Meyer": ["C-1", "C-2"]}) as harness:
        await harness.enqueue("Meyer")
        run = await harness.run()
        assert run.unsure == 1
        row = (await harness.rows())["Meyer"]
        assert (row.status, row.outcome, row.resolved_company_id) == ("done", "unsure", None)
        [review] = await harness.read(sa.select(harness.companies.tables.reviews))
        assert (review.state, [each["company_id"] for each in review.candidates]) == ("open", ["C-1", "C-2"])
        await harness.enqueue("Meyer")
        run = await harness.run()
        assert (run.unsure, run.calls, harness.provider.asked) == (1, 0, ["Meyer"])


async def test_failures_are_tried_again_after_one_and_five_minutes_then_failed(database_url: str) -> None:
    """C7: the third failure is permanent, `next_retry_at` is NULL then, and nobody touches it again."""
    async with companies_on(database_url, {"Acme": rm.TransientError(code="eqc_503")}) as harness:
        await harness.enqueue("Acme")
        assert (await harness.run()).retried == 1
        for attempt, wait in ((1, 60), (2, 300)):
            row = (await harness.rows())["Acme"]
            assert (row.status, row.attempts, row.last_error) == ("pending", attempt, "eqc_503")
            await harness.bench.advance(wait - 5)
            assert (await harness.run()).processed == 0
            await harness.bench.advance(5)
            assert (await harness.run()).processed == 1
        row = (await harness.rows())["Acme"]
        assert (row.status, row.attempts, row.next_retry_at, row.last_error) == ("failed", 3, None, "eqc_503")
        await harness.bench.advance(1_000_000)
        assert (await harness.run()).processed == 0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (rm.RateLimited(retry_after=120), "rate_limited"),
        (ProviderOff(), "provider_off"),
        (BudgetSpent(), "budget_spent"),
    ],
)
async def test_a_provider_that_can_t_be_asked_costs_no_attempt_and_ends_the_run(
    database_url: str, error: rm.errors.WorkError, code: str
) -> None:
    """C4."""
    names = [f"Company {letter}" for letter in "abcdef"]
    async with companies_on(database_url, dict.fromkeys(names, error)) as harness:
        await harness.enqueue(*names)
        run = await harness.run(2)
        assert (run.stop_reason, run.processed, run.failed) == (code, 0, 0)
        assert len(harness.provider.asked) <= 2, "one batch was enough to know"
        rows = (await harness.rows()).values()
        assert {(row.status, row.attempts) for row in rows} == {("pending", 0)}
        assert {row.last_error for row in rows} == {code, None}


async def test_a_permanent_error_fails_at_once(database_url: str) -> None:
    async with companies_on(database_url, {"Acme": rm.PermanentError(code="refused")}) as harness:
        await harness.enqueue("Acme")
        assert (await harness.run()).failed == 1
        row = (await harness.rows())["Acme"]
        assert (row.status, row.last_error, row.next_retry_at) == ("failed", "refused", None)


async def test_the_budget_of_a_run_is_never_exceeded(database_url: str) -> None:
    """C4."""
    names = [f"Company {n}" for n in range(20)]
    async with companies_on(database_url, dict.fromkeys(names, "C-1"), eqc_run_budget=7) as harness:
        await harness.enqueue(*names)
        run = await harness.run(3)
        assert (run.calls, run.done, run.stop_reason) == (7, 7, "budget_spent")
        assert len(harness.provider.asked) == 7
        assert {row.attempts for row in (await harness.rows()).values() if row.status == "pending"} == {0}
        await harness.bench.advance(61)
        run = await harness.run(3)
        assert (run.calls, run.done) == (7, 7)
        await harness.bench.advance(61)
        assert (await harness.run(3)).done == 6
        assert sorted(harness.provider.asked) == sorted(names), "each once"


async def test_a_lookup_that_crashes_costs_an_attempt_and_tells_no_name(database_url: str) -> None:
    def crash(name: str) -> None:
        raise ValueError(f"cannot parse {name}")

    provider = ScriptedProvider()
    provider.before_answer = crash
    async with companies_on(database_url, provider) as harness:
        await harness.enqueue("Secret Name GmbH")
        assert (await harness.run()).retried == 1
        row = (await harness.rows())["Secret Name GmbH"]
        assert (row.status, row.attempts, row.last_error) == ("pending", 1, "provider_broken")


async def test_an_answer_that_came_while_the_request_waited_is_used(database_url: str) -> None:
    """No two lookups for one name: a person's mapping wins over a provider's answer."""
    async with companies_on(database_url, {"Acme": "C-1"}) as harness:
        await harness.enqueue("Acme")
        normal = (await harness.rows())["Acme"].normalized_name
        mappings = harness.companies.tables.mappings
        rows = [
            {"match_type": "company_name", "alias": normal, "company_id": "C-eqc", "source": "eqc"},
            {"match_type": "company_name", "alias": normal, "company_id": "C-own", "source": "internal"},
        ]
        await harness.mill.run(lambda c: c.execute(sa.insert(mappings), rows).close())
        run = await harness.run()
        assert (run.done, run.known, run.calls, harness.provider.asked) == (1, 1, 0, [])
        row = (await harness.rows())["Acme"]
        assert (row.resolved_company_id, row.resolved_by) == ("C-own", "internal")


async def test_a_batch_that_lost_a_request_writes_nothing_for_it(database_url: str) -> None:
    """Somebody else took the request during the lookup: the fence keeps our answer out, and the others in."""
    async with companies_on(database_url, {"Acme": "C-1", "Bolt": "C-2"}) as harness:
        await harness.enqueue("Acme", "Bolt")
        target = await harness.target()
        await harness.mill.run(
            lambda c: c.execute(sa.insert(target), [{"id": 1, "company_id": harness.temp_id("Acme")}]).close()
        )
        engine, table = harness.companies.engine, harness.requests.fullname

        def steal(name: str) -> None:
            if name == "Acme":
                with engine.begin() as connection:
                    connection.exec_driver_sql(f"UPDATE {table} SET lease = 1 WHERE raw_name = 'Acme'")

        harness.provider.before_answer = steal
        run = await harness.run()
        assert run.done == 1
        rows = await harness.rows()
        assert (rows["Acme"].status, rows["Acme"].resolved_company_id) == ("processing", None)
        assert rows["Bolt"].resolved_company_id == "C-2"
        assert [each.company_id for each in await harness.read(sa.select(target))] == [harness.temp_id("Acme")]


async def test_a_plan_changes_nothing_and_asks_nobody(database_url: str) -> None:
    """C11."""
    async with companies_on(database_url, {"Acme": "C-1"}) as harness:
        await harness.enqueue("Acme", "Bolt")
        before = await harness.rows()
        run = await harness.run(plan_only=True)
        assert (run.plan_only, run.due, run.stale, run.pending_count, run.calls) == (True, 2, 0, 2, 0)
        assert await harness.rows() == before
        assert harness.provider.asked == []


async def test_without_a_provider_nothing_is_touched(database_url: str) -> None:
    async with companies_on(database_url) as harness:
        await harness.enqueue("Acme")
        harness.companies._providers = []
        with pytest.raises(rm.errors.BadRequest, match="WDH_EQC_BASE_URL"):
            await harness.run()
        assert (await harness.rows())["Acme"].status == "pending"


async def test_a_worker_without_a_run_answers_too(database_url: str) -> None:
    async with companies_on(database_url, {"Acme": "C-1"}) as harness:
        await harness.enqueue("Acme")
        await harness.bench.drain()
        assert (await harness.rows())["Acme"].resolved_company_id == "C-1"


async def test_a_callback_that_raises_undoes_only_itself(database_url: str) -> None:
    async with companies_on(database_url, {"Acme": "C-1", "Bolt": "C-2"}) as harness:
        meta = harness.companies.tables.meta

        @harness.companies.on_resolved
        def note(connection: sa.Connection, resolution: object) -> None:
            company = getattr(resolution, "company_id")  # noqa: B009
            connection.execute(sa.insert(meta).values(key=company, value="resolved"))
            if company == "C-2":
                raise RuntimeError

        await harness.enqueue("Acme", "Bolt")
        assert (await harness.run()).done == 2
        assert [row.key for row in await harness.read(sa.select(meta.c.key).where(meta.c.value == "resolved"))] == [
            "C-1"
        ]
