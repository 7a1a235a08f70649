"""The statements of the queue are served by indexes, also before anybody has run ANALYZE."""

from typing import Any

import pytest
import sqlalchemy as sa

from rowmill_systems.companies.index_plans import index_plans
from rowmill_systems.companies.lookup_queue import LookupQueue
from rowmill_systems.companies.models import CompaniesTables
from rowmill_systems.companies.reads import STATUSES, count_open_reviews, one_request, request_page, requests_of
from systems.tests.companies.harness import sync_companies

ROWS = 5000


def fill(connection: sa.Connection, table: str) -> None:
    """Requests of all kinds, as a burst leaves them."""
    numbers = (
        f"SELECT g FROM generate_series(1, {ROWS}) AS g"
        if connection.dialect.name == "postgresql"
        else f"WITH RECURSIVE s(g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s LIMIT {ROWS}) SELECT g FROM s"
    )
    connection.execute(
        sa.text(
            f"INSERT INTO {table} (raw_name, normalized_name, status, next_retry_at) SELECT 'n' || g, 'n' || g, "
            "CASE WHEN g % 5 = 0 THEN 'done' ELSE 'pending' END, "
            f"CASE WHEN g % 3 = 0 THEN NULL ELSE CURRENT_TIMESTAMP END FROM ({numbers}) AS numbers"
        )
    )


def plans(connection: sa.Connection, statements: list[tuple[str, Any]]) -> str:
    explain = "EXPLAIN " if connection.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN "
    with index_plans(connection):
        found = [row[-1] for text, given in statements for row in connection.exec_driver_sql(explain + text, given)]
    return "\n".join(found)


@pytest.mark.parametrize("analysed", [False, True])
def test_claims_and_counts_sort_nothing_and_read_no_whole_table(database_url: str, analysed: bool) -> None:
    """C12: so that they take the same time at ten million requests."""
    with sync_companies(database_url) as (companies, _), companies.engine.begin() as connection:
        fill(connection, companies.tables.requests.fullname)
        if analysed:
            connection.exec_driver_sql("ANALYZE")
        queue, seen = LookupQueue(connection, companies.settings), list[tuple[str, Any]]()

        @sa.event.listens_for(connection, "before_cursor_execute")
        def see(_connection: Any, _cursor: Any, text: str, given: Any, *_: Any) -> None:
            if "enrichment_requests" in text and not text.startswith("EXPLAIN"):
                seen.append((text, given))

        assert len(queue.dequeue(100)) == 100
        assert queue.get_queue_depth("pending") == ROWS * 4 // 5 - 100
        assert queue.get_due_depth() == ROWS * 4 // 5 - 100
        sa.event.remove(connection, "before_cursor_execute", see)
        found = plans(connection, seen)
        assert "rowmill_enrichment_requests_work_ready" in found or "USING COVERING INDEX" in found
        for bad in ("Seq Scan", "Sort", "Bitmap", "TEMP B-TREE", "SCAN enrichment_requests"):
            assert bad not in found, found


def test_the_settings_of_the_caller_are_as_before(pg_url: str) -> None:
    with sync_companies(pg_url) as (companies, _), companies.engine.begin() as connection:
        connection.exec_driver_sql("SET LOCAL enable_sort = off")
        LookupQueue(connection, companies.settings).dequeue(1)
        assert [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in ("enable_sort", "enable_seqscan")] == [
            "off", "on",
        ]  # fmt: skip


def page_plans(connection: sa.Connection, tables: CompaniesTables, work: Any) -> str:
    """Return the plans of the statements on requests and reviews that are run, as they are run."""
    seen: list[tuple[str, Any]] = []

    def see(_connection: Any, _cursor: Any, text: str, given: Any, *_: Any) -> None:
        if "SELECT" in text and "set_config" not in text:
            seen.append((text, given))

    sa.event.listen(connection, "before_cursor_execute", see)
    work(connection, tables)
    sa.event.remove(connection, "before_cursor_execute", see)
    assert seen
    explain = "EXPLAIN " if connection.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN "
    with index_plans(connection):
        return "\n".join(row[-1] for text, given in seen for row in connection.exec_driver_sql(explain + text, given))


@pytest.mark.parametrize("analysed", [False, True])
def test_pages_read_requests_by_an_index(database_url: str, analysed: bool) -> None:
    """C12: a page of a table with ten million requests costs what one of a small table does."""
    with sync_companies(database_url) as (companies, _), companies.engine.begin() as connection:
        fill(connection, companies.tables.requests.fullname)
        if analysed:
            connection.exec_driver_sql("ANALYZE")
        asked: list[tuple[str, Any]] = [
            (key, lambda c, t, status=status, after=after: request_page(c, t, status=status, after=after, limit=5))
            for status, key in [*((each, "ix_enrichment_requests_status_id") for each in STATUSES), ("", "")]
            for after in (None, 2500)
        ]
        asked += [
            ("ix_enrichment_requests_name", lambda c, t: requests_of(c, t, normalized_name="n7", temp_id="x")),
            ("", lambda c, t: one_request(c, t, 7)),
            ("company_reviews", lambda c, t: count_open_reviews(c, t, 100)),
        ]
        for index, work in asked:
            found = page_plans(connection, companies.tables, work)
            assert index in found
            for bad in (
                "Seq Scan on enrichment_requests",
                "Backward using enrichment_requests_pkey",
                "Sort",
                "TEMP B-TREE",
            ):
                few = bad in ("Sort", "TEMP B-TREE") and "name" in index  # of the requests of one name
                primary = "pkey" in bad and not index
                assert few or primary or bad not in found, found
            if index:
                assert "SCAN enrichment_requests" not in found, found
