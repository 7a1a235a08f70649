"""The queue under its old method names, in transactions of the caller's."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

import rowmill as rm
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.lookup_queue import (
    LookupQueue,
    LookupRequest,
    QueueStats,
    calculate_next_retry_at,
)
from rowmill_systems.companies.salts import SaltMismatch
from rowmill_systems.companies.service import CompanyEnrichmentService
from rowmill_systems.companies.write_back import register_target
from systems.tests.companies.harness import settings_for, sync_companies


@pytest.fixture
def companies(database_url: str) -> Iterator[Companies]:
    with sync_companies(database_url) as (made, _):
        yield made


@pytest.fixture
def connection(companies: Companies) -> Iterator[sa.Connection]:
    with companies.engine.begin() as opened:
        yield opened


@pytest.fixture
def queue(companies: Companies, connection: sa.Connection) -> LookupQueue:
    return LookupQueue(connection, companies.settings)


def row_of(connection: sa.Connection, companies: Companies, name: str) -> Any:
    c = companies.tables.requests.c
    return connection.execute(sa.select(companies.tables.requests).where(c.raw_name == name)).one()


def age(connection: sa.Connection, companies: Companies, minutes: float) -> None:
    """Let time pass for all rows."""
    table = companies.tables.requests.fullname
    for column in ("next_retry_at", "leased_until", "updated_at"):
        back = (
            f"{column} - interval '{minutes} minutes'"
            if connection.dialect.name == "postgresql"
            else f"strftime('%Y-%m-%d %H:%M:%f000', {column}, '-{minutes} minutes')"
        )
        connection.exec_driver_sql(f"UPDATE {table} SET {column} = {back}")


def test_spellings_of_a_name_make_one_request(queue: LookupQueue) -> None:
    """C1, C3: with the normalisation of temporary ids. Blank names make none, and get no id."""
    results = queue.enqueue_many(["Acme Ltd", "  ", "ＡＣＭＥ  ltd", "Bolt"])
    assert [result.created for result in results] == [True, False, False, True]
    assert results[0].temp_id == results[2].temp_id != results[3].temp_id
    assert (results[1].temp_id, results[1].normalized_name) == (None, "")
    assert not queue.enqueue("acme LTD").created
    assert queue.get_queue_stats() == QueueStats(2, 0, 0, 0)


def test_a_name_is_open_again_once_it_is_answered(queue: LookupQueue) -> None:
    """C1: one *open* request per name, also while it is in processing."""
    queue.enqueue("Acme")
    [request] = queue.dequeue(10)
    assert not queue.enqueue("Acme").created
    assert queue.mark_done(request, "C-1")
    assert queue.enqueue("Acme").created


def test_names_of_any_kind_are_stored(queue: LookupQueue) -> None:
    names = ['O\'Brien "&" Co; DROP TABLE x', "中国石油天然气集团有限公司", "A\x00B\ud800C", "%s {} :name"]
    assert all(result.created for result in queue.enqueue_many(names))
    assert not queue.enqueue("word " * 10_000).created
    assert queue.get_queue_depth("pending") == 4


def test_many_names_at_once(queue: LookupQueue) -> None:
    names = [f"Company number {n}" for n in range(2500)]
    assert sum(result.created for result in queue.enqueue_many(names)) == 2500
    assert sum(result.created for result in queue.enqueue_many(reversed(names))) == 0


def test_a_request_is_taken_once_and_the_longest_waiting_first(
    queue: LookupQueue, connection: sa.Connection, companies: Companies
) -> None:
    for name in ("a1", "b2", "c3"):
        queue.enqueue(name)
    table = companies.tables.requests.fullname
    connection.exec_driver_sql(f"UPDATE {table} SET next_retry_at = NULL WHERE raw_name = 'c3'")
    first = queue.dequeue(2)
    assert [request.raw_name for request in first] == ["c3", "a1"], "NULL means due, and comes first"
    assert [request.raw_name for request in queue.dequeue(2)] == ["b2"]
    assert queue.dequeue(2) == []
    assert {request.attempts for request in first} == {1}
    row = row_of(connection, companies, "a1")
    assert (row.status, row.attempts, row.lease < 0) == ("processing", 1, True)


def test_what_waits_for_its_retry_is_not_taken(
    queue: LookupQueue, connection: sa.Connection, companies: Companies
) -> None:
    """C7: 1, then 5 minutes; the third failure is permanent."""
    queue.enqueue("Acme")
    for minutes in (1, 5):
        [request] = queue.dequeue(1)
        assert queue.mark_failed(request, rm.TransientError("Acme is away", code="eqc_503"))
        row = row_of(connection, companies, "Acme")
        assert (row.status, row.last_error) == ("pending", "eqc_503")
        age(connection, companies, minutes - 0.1)
        assert queue.dequeue(1) == []
        age(connection, companies, 0.2)
    [request] = queue.dequeue(1)
    assert queue.mark_failed(request, "no more")
    row = row_of(connection, companies, "Acme")
    assert (row.status, row.attempts, row.next_retry_at, row.last_error) == ("failed", 3, None, "no more")
    age(connection, companies, 10_000)
    assert queue.dequeue(1) == []


def test_a_request_with_its_attempts_used_up_is_not_run_a_fourth_time(
    queue: LookupQueue, connection: sa.Connection, companies: Companies
) -> None:
    queue.enqueue_many(["Acme", "Bolt"])
    table = companies.tables.requests.fullname
    connection.exec_driver_sql(f"UPDATE {table} SET attempts = 3 WHERE raw_name = 'Acme'")
    assert [request.raw_name for request in queue.dequeue(2)] == ["Bolt"]
    row = row_of(connection, companies, "Acme")
    assert (row.status, row.last_error, row.next_retry_at) == ("failed", "attempts_used_up", None)


@pytest.mark.parametrize("mark", ["done", "failed"])
def test_a_mark_of_a_request_that_another_has_taken_changes_nothing(
    queue: LookupQueue, connection: sa.Connection, companies: Companies, mark: str
) -> None:
    queue.enqueue("Acme")
    [slow] = queue.dequeue(1)
    age(connection, companies, 16)
    assert queue.reset_stale_processing() == 1
    [quick] = LookupQueue(connection, companies.settings).dequeue(1)
    before = row_of(connection, companies, "Acme")
    assert not (queue.mark_done(slow, "C-1") if mark == "done" else queue.mark_failed(slow, "late"))
    assert row_of(connection, companies, "Acme") == before
    assert LookupQueue(connection, companies.settings).mark_done(quick, "C-2")
    assert not queue.mark_done(quick, "C-3"), "it is done already"
    assert row_of(connection, companies, "Acme").resolved_company_id == "C-2"


def test_requests_can_be_marked_by_their_number_if_this_queue_took_them(queue: LookupQueue) -> None:
    queue.enqueue("Acme")
    [request] = queue.dequeue(1)
    with pytest.raises(rm.errors.BadRequest, match="was not dequeued by this LookupQueue"):
        queue.mark_done(request.id + 1, "C-1")
    assert queue.mark_done(request.id, "C-1")


def test_done_carries_the_company_to_targets_and_into_the_cache(
    queue: LookupQueue, connection: sa.Connection, companies: Companies
) -> None:
    """C13, in the caller's transaction."""
    connection.exec_driver_sql("CREATE TABLE policies (id INTEGER PRIMARY KEY, company TEXT)")
    register_target(connection, "policies", "company")
    temp = queue.enqueue("Acme").temp_id
    connection.exec_driver_sql(f"INSERT INTO policies VALUES (1, '{temp}'), (2, 'C-9')")
    queue.mark_done(queue.dequeue(1)[0], "C-1", resolved_by="ann")
    found = connection.exec_driver_sql("SELECT company FROM policies ORDER BY id").all()
    assert [row.company for row in found] == ["C-1", "C-9"]
    cached = connection.execute(sa.select(companies.tables.mappings)).one()
    assert (cached.company_id, cached.source) == ("C-1", "ann")


def test_what_is_stale_returns_and_what_is_not_stays(
    queue: LookupQueue, connection: sa.Connection, companies: Companies
) -> None:
    """C8: after 15 minutes. A lease that a worker still renews is not stale; the last attempt is not given again."""
    queue.enqueue_many(["old", "alive", "last", "of an old worker"])
    queue.dequeue(10)
    table = companies.tables.requests.fullname
    connection.exec_driver_sql(f"UPDATE {table} SET attempts = 3 WHERE raw_name = 'last'")
    connection.exec_driver_sql(f"UPDATE {table} SET lease = NULL, leased_until = NULL WHERE raw_name LIKE 'of an%%'")
    age(connection, companies, 14)
    assert queue.reset_stale_processing() == 0
    age(connection, companies, 2)
    later = "now() + interval '1 hour'" if connection.dialect.name == "postgresql" else "datetime('now', '+1 hour')"
    connection.exec_driver_sql(f"UPDATE {table} SET lease = 7, leased_until = {later} WHERE raw_name = 'alive'")
    assert queue.reset_stale_processing(stale_minutes=15) == 3
    rows = {row.raw_name: row for row in connection.execute(sa.select(companies.tables.requests))}
    assert {name: (row.status, row.last_error) for name, row in rows.items()} == {
        "old": ("pending", "stale_processing_requeued"),
        "of an old worker": ("pending", "stale_processing_requeued"),
        "alive": ("processing", None),
        "last": ("failed", "stale_processing_max_attempts"),
    }


def test_nothing_is_kept_of_a_transaction_that_is_rolled_back(companies: Companies) -> None:
    """C2+: the caller owns the transaction."""
    with companies.engine.connect() as connection:
        LookupQueue(connection, companies.settings).enqueue("Acme")
        connection.rollback()
        assert LookupQueue(connection, companies.settings).get_queue_depth() == 0


def test_a_session_will_do(companies: Companies) -> None:
    with Session(companies.engine) as session:
        queue = LookupQueue(session, companies.settings)
        queue.enqueue("Acme")
        [request] = queue.dequeue()
        assert isinstance(request, LookupRequest)
        assert request.created_at.tzinfo is not None
        session.commit()
    with Session(companies.engine) as session:
        assert LookupQueue(session, companies.settings).get_queue_stats() == QueueStats(0, 1, 0, 0)


def test_the_depth_says_how_it_was_counted(queue: LookupQueue, connection: sa.Connection, companies: Companies) -> None:
    """C12: what is many is not counted."""
    queue.enqueue_many(f"Company {n}" for n in range(50))
    exact = queue.get_queue_depth("pending")
    assert (exact, exact.how, exact.exact) == (50, "exact", True)
    connection.exec_driver_sql("ANALYZE")
    many = queue.get_queue_depth("pending", at_most=10)
    assert many.how == ("estimated" if connection.dialect.name == "postgresql" else "capped")
    assert many == (50 if many.how == "estimated" else 10)
    queue.dequeue(5)
    assert (queue.get_queue_depth(), queue.get_queue_depth("processing")) == (50, 5)
    with pytest.raises(rm.errors.BadRequest, match="pending, processing, done, failed"):
        queue.get_queue_depth("open")


def test_the_waits_are_one_five_and_fifteen_minutes() -> None:
    """C7: the last repeats."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    waits = [calculate_next_retry_at(attempts, now) - now for attempts in (0, 1, 2, 3, 4, 99)]
    assert waits == [timedelta(minutes=minutes) for minutes in (1, 1, 5, 15, 15, 15)]
    assert LookupQueue.calculate_next_retry_at(1) > datetime.now(UTC)


def test_another_salt_is_refused_before_it_makes_an_id(database_url: str, companies: Companies) -> None:
    with companies.engine.begin() as connection:
        LookupQueue(connection, companies.settings).enqueue("Acme")
        with pytest.raises(SaltMismatch):
            LookupQueue(connection, settings_for(database_url, temp_id_salt="other")).enqueue("Bolt")


def test_workers_and_callers_share_the_queue(database_url: str) -> None:
    """A request that a caller holds is not taken by a run; one that it left is rescued."""
    with sync_companies(database_url, {"Acme": "C-1", "Bolt": "C-2"}) as (companies, provider):
        service = CompanyEnrichmentService(companies)
        with companies.engine.begin() as connection:
            queue = LookupQueue(connection, companies.settings)
            queue.enqueue_many(["Acme", "Bolt"])
            [held] = queue.dequeue(1)
        assert service.process_lookup_queue().done == 1
        assert held.raw_name not in provider.asked
        with companies.engine.begin() as connection:
            age(connection, companies, 16)
        run = service.process_lookup_queue()
        assert (run.rescued, run.done) == (1, 1)


def test_failed_requests_are_put_back_all_or_by_their_code(database_url: str) -> None:
    """C14: attempts at zero."""
    errors = {"Acme": rm.PermanentError(code="one"), "Bolt": rm.PermanentError(code="two")}
    with sync_companies(database_url, errors) as (companies, provider):
        service = CompanyEnrichmentService(companies)
        with companies.engine.begin() as connection:
            LookupQueue(connection, companies.settings).enqueue_many(["Acme", "Bolt", "Cog"])
        assert service.process_lookup_queue().failed == 2
        assert service.requeue_failed(error_code="one") == 1
        with companies.engine.connect() as connection:
            row = row_of(connection, companies, "Acme")
            assert (row.status, row.attempts, row.last_error) == ("pending", 0, None)
            assert row_of(connection, companies, "Bolt").status == "failed"
        assert service.requeue_failed(where=companies.tables.requests.c.raw_name == "nobody") == 0
        assert service.requeue_failed() == 1
        provider.answers = {"Acme": "C-1", "Bolt": "C-2"}
        assert service.process_lookup_queue().done == 2
