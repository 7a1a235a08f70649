"""C1, C2: mappings, cached answers, and one open request per normalised name."""

import threading
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from rowmill_systems.companies.mappings import (
    CachedAnswer,
    CompanyMappingRepository,
    EnqueueResult,
    KnownName,
    NoSalt,
    alias_of,
)
from rowmill_systems.companies.settings import CompaniesSettings
from systems.tests.companies.ladder.conftest import SALT, engine_of

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def mappings(connection: sa.Connection, settings: CompaniesSettings) -> CompanyMappingRepository:
    return CompanyMappingRepository(connection, settings)


def test_one_open_request_per_normalised_name(mappings: CompanyMappingRepository) -> None:
    names = ["Acme Ltd", "ACME Limited", "Beta", "", "---", "x" * 2001]
    assert mappings.enqueue_for_enrichment(names) == EnqueueResult(enqueued=2, refused=3)
    assert mappings.enqueue_for_enrichment([*names, "Gamma"]) == EnqueueResult(enqueued=1, already_open=2, refused=3)
    table = mappings.tables.requests
    rows = mappings.connection.execute(sa.select(table.c.normalized_name, table.c.temp_id).order_by(table.c.id))
    assert [row.normalized_name for row in rows] == [
        alias_of("company_name", name) for name in ("Acme Ltd", "Beta", "Gamma")
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"status": "done", "resolved_company_id": "C1"}, EnqueueResult(already_done=1)),
        ({"status": "done"}, EnqueueResult(already_done=1)),
        ({"status": "failed"}, EnqueueResult(already_failed=1)),
        ({"status": "failed", "finished_at": LONG_AGO}, EnqueueResult(already_failed=1)),
        ({"status": "processing"}, EnqueueResult(already_open=1)),
    ],
)
def test_a_name_that_was_looked_up_is_requested_again_only_if_asked(
    mappings: CompanyMappingRepository, values: dict[str, object], expected: EnqueueResult
) -> None:
    mappings.enqueue_for_enrichment(["Acme"])
    mappings.connection.execute(sa.update(mappings.tables.requests).values({"finished_at": sa.func.now(), **values}))
    assert mappings.enqueue_for_enrichment(["Acme"]) == expected
    again = EnqueueResult(already_open=1) if expected.already_open else EnqueueResult(enqueued=1)
    assert mappings.enqueue_for_enrichment(["Acme"], again=True) == again


@pytest.mark.parametrize(("company_id", "days"), [("C1", 90), (None, 7)])
def test_an_answer_that_expired_is_requested_again(
    mappings: CompanyMappingRepository, company_id: str | None, days: int
) -> None:
    def finished(ago: int) -> None:
        moment = (
            f"datetime('now', '-{ago} days')"
            if mappings.connection.dialect.name == "sqlite"
            else f"now() - interval '{ago} days'"
        )
        values: dict[str, object] = {
            "status": "done",
            "resolved_company_id": company_id,
            "finished_at": sa.literal_column(moment),
        }
        mappings.connection.execute(sa.update(mappings.tables.requests).values(**values))

    mappings.enqueue_for_enrichment(["Acme"])
    finished(days - 1)
    assert mappings.enqueue_for_enrichment(["Acme"]) == EnqueueResult(already_done=1)
    finished(days + 1)
    assert mappings.enqueue_for_enrichment(["Acme"]) == EnqueueResult(enqueued=1)


def test_more_names_than_a_batch_are_enqueued(mappings: CompanyMappingRepository) -> None:
    names = [f"Name {number}" for number in range(12_000)]
    assert mappings.enqueue_for_enrichment(names) == EnqueueResult(enqueued=12_000)
    assert mappings.enqueue_for_enrichment(reversed(names)) == EnqueueResult(already_open=12_000)


def test_enqueueing_needs_a_salt(connection: sa.Connection, database_url: str) -> None:
    mappings = CompanyMappingRepository(connection, CompaniesSettings(database_url=database_url))
    with pytest.raises(NoSalt):
        mappings.enqueue_for_enrichment(["Acme"])


def test_of_several_cached_answers_the_best_is_found(mappings: CompanyMappingRepository) -> None:
    mappings.cache_answers(
        [
            CachedAnswer("acme", None, "eqc", 0.0),
            CachedAnswer("acme", "C1", "file", 0.99),
            CachedAnswer("acme", "C2", "gleif", 0.91),
            CachedAnswer("beta", None, "eqc", 0.0),
        ]
    )
    known = mappings.find_known(["acme", "beta", "gamma"])
    assert known == {
        "acme": KnownName(CachedAnswer("acme", "C1", "file", 0.99)),
        "beta": KnownName(CachedAnswer("beta", None, "eqc", 0.0)),
    }
    assert all(not tier for tier in mappings.find_mapped(["acme"])), "a cached answer is no mapping"


def test_an_answer_replaces_the_one_before_and_expires(
    mappings: CompanyMappingRepository, settings: CompaniesSettings
) -> None:
    mappings.cache_answers([CachedAnswer("acme", None, "eqc", 0.0), CachedAnswer("acme", "C1", "eqc", 0.9)])
    mappings.cache_answers([CachedAnswer("acme", "C2", "eqc", 0.95)])
    assert mappings.find_known(["acme"])["acme"].cached == CachedAnswer("acme", "C2", "eqc", 0.95)
    shortlived = settings.model_copy(update={"cache_days": 0.0, "cache_no_match_days": 0.0})
    CompanyMappingRepository(mappings.connection, shortlived).cache_answers([CachedAnswer("acme", "C3", "eqc", 0.95)])
    assert mappings.find_known(["acme"]) == {}


def test_lifetimes_differ(mappings: CompanyMappingRepository) -> None:
    mappings.cache_answers([CachedAnswer("acme", "C1", "eqc"), CachedAnswer("beta", None, "eqc", 0.0)])
    table = mappings.tables.mappings
    rows = mappings.connection.execute(sa.select(table.c.created_at, table.c.expires_at).order_by(table.c.alias))
    assert [round((row.expires_at - row.created_at).total_seconds() / 86400) for row in rows] == [90, 7]


def test_the_source_of_people_is_refused_for_answers(mappings: CompanyMappingRepository) -> None:
    with pytest.raises(ValueError, match="internal"):
        mappings.cache_answers([CachedAnswer("acme", "C1", "internal")])


@pytest.mark.parametrize(("one", "other"), [("fp 0001", "ＦＰ０００１"), ("00123", " 00123\n"), ("a-1", "A-1")])
def test_spellings_of_a_code_are_one_alias(one: str, other: str) -> None:
    assert alias_of("plan_code", one) == alias_of("plan_code", other)
    assert alias_of("account_number", "00123") != alias_of("account_number", "123")


def test_two_transactions_that_enqueue_the_same_names_both_go_on(pg_url: str, settings: CompaniesSettings) -> None:
    """The second waits for the first, and finds its requests."""
    engine = engine_of(pg_url)
    names = [f"Name {number}" for number in range(50)]
    results: list[EnqueueResult] = []
    with engine.connect() as first, engine.connect() as second:
        CompanyMappingRepository(first, settings, salt=SALT).enqueue_for_enrichment(names)
        waiting = CompanyMappingRepository(second, settings, salt=SALT)
        thread = threading.Thread(target=lambda: results.append(waiting.enqueue_for_enrichment(reversed(names))))
        thread.start()
        first.commit()
        thread.join(30)
        second.commit()
    engine.dispose()
    assert results == [EnqueueResult(already_open=50)]


@pytest.fixture
def big_table(pg_url: str) -> sa.Connection:
    connection = engine_of(pg_url).connect()
    connection.exec_driver_sql(
        "INSERT INTO enterprise.company_mappings (match_type, alias, company_id) "
        "SELECT 'company_name', 'name ' || g, 'C' || g FROM generate_series(1, 50000) g"
    )
    connection.exec_driver_sql(
        "INSERT INTO enterprise.enrichment_requests (raw_name, normalized_name) "
        "SELECT 'name ' || g, 'other ' || g FROM generate_series(1, 50000) g"
    )
    connection.exec_driver_sql("ANALYZE")
    return connection


def test_big_batches_use_the_indexes(big_table: sa.Connection, settings: CompaniesSettings) -> None:
    """By its estimates, PostgreSQL would rather read the whole table for thousands of names."""
    plans: list[str] = []

    @sa.event.listens_for(big_table, "before_execute", retval=True)
    def explain(
        connection: object, statement: object, several: object, params: object, _: object
    ) -> tuple[object, ...]:
        if isinstance(statement, sa.TextClause):
            return sa.text(f"EXPLAIN {statement.text}"), several, params
        return statement, several, params

    names = [f"name {number}" for number in range(5000)]
    mappings = CompanyMappingRepository(big_table, settings, salt=SALT)
    for statement in (mappings._sql.find_mapped, mappings._sql.find_known, mappings._sql.insert_requests):
        given = mappings._names(names) | mappings._believed | {"rows": mappings._rows(zip(names, names, strict=True))}
        wanted = {name: given[name] for name in statement.compile().params}
        plans.append("\n".join(big_table.scalars(statement, wanted)))
    big_table.close()
    for plan in plans:
        assert "Seq Scan" not in plan, plan
        assert "Index" in plan
