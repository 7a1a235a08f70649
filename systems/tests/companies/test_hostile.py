"""Names, ids and clocks that are not as they should be, and several who do the same at once."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, tzinfo
from typing import Any

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.companies import reads, service
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.lookup import LookupDecision, LookupOutcome
from rowmill_systems.companies.lookup_queue import LookupQueue
from rowmill_systems.companies.mappings import CachedAnswer, CompanyMappingRepository
from rowmill_systems.companies.reads import rung_days
from rowmill_systems.companies.resolver import CompanyIdResolver, CompanyRow, Resolution
from rowmill_systems.companies.reviews import decide, open_reviews, record_review
from rowmill_systems.companies.temp_id_filling import fill_temp_ids
from rowmill_systems.companies.temp_ids import normalize_for_temp_id
from systems.tests.companies.fake_providers import ScriptedProvider
from systems.tests.companies.harness import companies_on, sync_companies

HOSTILE = [
    "x" * 1_000_000, "Acme\x00Ltd", "Acme \ud800 Ltd", "\x00", "\x1f", "a\x1fb Ltd", "Ａ" * 600, "A\u0301" * 400,
    "\u202eltd", "\uffff\ufffe", "'; DROP TABLE x; --", "%s {0} :x %(y)s", "two\r\nlines",
]  # fmt: skip


def resolved(companies: Companies, rows: list[Any], **options: Any) -> tuple[list[Resolution], CompanyIdResolver]:
    with companies.engine.begin() as connection:
        resolver = CompanyIdResolver(connection, companies.settings, salt=companies.salts.current, **options)
        return resolver.resolve(rows), resolver


def test_any_name_goes_through_the_ladder_and_none_fails_a_rung(database_url: str) -> None:
    with sync_companies(database_url, eqc_sync_budget=100) as (companies, _):
        rows = [*HOSTILE, *(CompanyRow(name, name, name, name) for name in HOSTILE), CompanyRow(None, HOSTILE[0])]
        answers, resolver = resolved(companies, rows, providers=companies.begin_run().chain)
        assert resolver.counts.failures.keys() == {("providers", "name_too_long")}, "they are asked of nobody"
        assert answers[0].reason == "name_too_long"
        assert {answer.reason for answer in answers} == {"name_too_long", "blank_name", "no_match", "enqueued"}
        again, _ = resolved(companies, rows)
        assert [each.company_id for each in again] == [each.company_id for each in answers]


def test_any_text_can_be_enqueued_and_marked(database_url: str) -> None:
    with sync_companies(database_url) as (companies, _), companies.engine.begin() as connection:
        queue = LookupQueue(connection, companies.settings, salts=companies.salts)
        CompanyMappingRepository(connection, companies.settings).enqueue_for_enrichment(HOSTILE)
        queue.enqueue_many(HOSTILE)
        queue.enqueue_many(f"Company {number}" for number in range(2 * len(HOSTILE)))
        for text in HOSTILE:
            one, two = queue.dequeue(2)
            assert queue.mark_done(one, "C-1", resolved_by=text)
            assert queue.mark_failed(two, text)


@pytest.mark.parametrize("source", ["internal", "person"])
def test_who_resolved_a_request_is_not_taken_for_a_person(database_url: str, source: str) -> None:
    with sync_companies(database_url) as (companies, _), companies.engine.begin() as connection:
        queue = LookupQueue(connection, companies.settings, salts=companies.salts)
        queue.enqueue("Acme")
        [request] = queue.dequeue(1)
        with pytest.raises(rm.errors.BadRequest, match="resolved_by"):
            queue.mark_done(request, "C-1", resolved_by=source)
        assert queue.mark_done(request, "C-1")


def test_two_pipelines_with_the_same_names_in_another_order_agree(database_url: str) -> None:
    """None waits for the other in a circle, none fails, and each name has one request and one review."""
    names = [f"Company {number:03} Ltd" for number in range(300)]
    answers: dict[str, Any] = {name: (["A-1", "A-2"], "C-1", ())[place % 3] for place, name in enumerate(names)}
    begin = threading.Barrier(2)

    def pipeline(given: list[str]) -> tuple[dict[str, str | None], dict[Any, int]]:
        more = {"eqc_sync_budget": 250, "eqc_sync_seconds": 60}
        with sync_companies(database_url, ScriptedProvider(answers), **more) as (companies, _):
            begin.wait(30)
            found, resolver = resolved(companies, list(given), providers=companies.begin_run().chain)
            return dict(zip(given, (each.company_id for each in found), strict=True)), resolver.counts.failures

    with ThreadPoolExecutor(2) as pool:
        (one, failed), (other, also_failed) = pool.map(pipeline, (names, names[::-1]))
    assert (failed, also_failed) == ({}, {})
    assert {name for name in names if one[name] != other[name]} <= set(names[:50] + names[-50:]), "beyond the budget"
    with sync_companies(database_url) as (companies, _), companies.engine.connect() as connection:
        requests = Counter(connection.scalars(sa.select(companies.tables.requests.c.normalized_name)))
        is_open = companies.tables.requests.c.status.in_(["pending", "processing"])
        opened = Counter(connection.scalars(sa.select(companies.tables.requests.c.normalized_name).where(is_open)))
        assert set(opened.values()) <= {1}
        temporary = {each for found in (one, other) for each in found.values() if str(each).startswith("IN_")}
        assert {companies.salts.temp_id(name) for name in requests} >= temporary, "each temporary id has a request"
        reviews = Counter(connection.scalars(sa.select(companies.tables.reviews.c.normalized_name)))
        assert set(reviews.values()) == {1}


def test_a_person_s_none_of_them_holds_against_what_a_provider_says_at_the_same_time(database_url: str) -> None:
    with sync_companies(database_url, {"Acme": ["C-1", "C-2"]}) as (companies, _):
        resolved(companies, ["Acme"], providers=companies.begin_run().chain)
        with companies.engine.begin() as connection:
            [review] = open_reviews(connection, companies.tables)
            decide(connection, companies.settings, review.id, None, by="ann")
            repository = CompanyMappingRepository(connection, companies.settings)
            repository.cache_answers([CachedAnswer(normalize_for_temp_id("Acme"), "C-1", "eqc")])
        [answer], _ = resolved(companies, ["Acme"])
        assert (answer.temporary, answer.reason) == (True, "no_match")


async def test_a_person_decides_none_while_the_name_is_looked_up(database_url: str) -> None:
    provider = ScriptedProvider({"Acme": "C-1"})
    async with companies_on(database_url, provider) as harness:
        companies, target = harness.companies, await harness.target()
        temp = harness.temp_id("Acme")
        await harness.mill.run(lambda c: c.execute(sa.insert(target), [{"id": 1, "company_id": temp}]).close())
        await harness.enqueue("Acme")

        def meanwhile(name: str) -> None:
            with companies.engine.begin() as connection:
                unsure = LookupDecision(LookupOutcome.UNSURE, "eqc")
                normal = normalize_for_temp_id(name)
                record_review(connection, companies.tables, normalized_name=normal, raw_name=name, decision=unsure)
                [review] = open_reviews(connection, companies.tables)
                decide(connection, companies.settings, review.id, None, by="ann")

        provider.before_answer = meanwhile
        await harness.run()
        row = (await harness.rows())["Acme"]
        assert (row.status, row.outcome, row.resolved_company_id, row.resolved_by) == ("done", "no_match", None, "ann")
        assert (await harness.run()).rows_written == 0
        assert [each.company_id for each in await harness.read(sa.select(target))] == [temp], "the sweep keeps to it"


async def test_missing_ids_are_filled_in_batch_by_batch(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of millions must not be one transaction."""
    async with companies_on(database_url) as harness:
        await harness.enqueue(*(f"Company {number}" for number in range(5)))
        await harness.sql("UPDATE REQUESTS SET temp_id = NULL")
        transactions: list[Any] = []

        def fill(connection: sa.Connection, **given: Any) -> int:
            transactions.append(connection.get_transaction())
            return fill_temp_ids(connection, **given, batch=2)

        monkeypatch.setattr(service, "fill_temp_ids", fill)
        await harness.run()
        assert len(transactions) == len(set(map(id, transactions))) == 4
        rows = await harness.rows()
        assert {row.temp_id for row in rows.values()} == {harness.temp_id(name) for name in rows}


def test_days_are_those_of_the_database(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of this machine may be wrong by a day."""

    class WrongClock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "WrongClock":
            return cls.fromtimestamp(time.time() + 86_400, tz)

    monkeypatch.setattr(reads, "datetime", WrongClock, raising=False)
    with sync_companies(database_url) as (companies, _):
        resolved(companies, ["Acme"])
        with companies.engine.connect() as connection:
            today = connection.scalar(sa.select(sa.func.current_date()))
            found = rung_days(connection, 3)
        assert (found[-1].day, found[-1].names) == (today, {"queue": 1})
