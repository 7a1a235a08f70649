"""C2: each name is answered by the first rung that knows it, in the caller's transaction."""

import logging
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

import rowmill as rm
from rowmill_systems.companies.mappings import CachedAnswer, CompanyMappingRepository, NoSalt, alias_of
from rowmill_systems.companies.models import TIERS, CompaniesTables, MatchType
from rowmill_systems.companies.resolver import CompanyIdResolver, CompanyRow, Resolution, rung_counts
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.companies.temp_ids import is_temp_id, normalize_for_temp_id, temp_id
from systems.tests.companies.ladder.conftest import (
    SALT,
    PreparedChain,
    Statements,
    accepted,
    failed,
    no_match,
    unsure,
)


def temporary(name: str) -> str:
    return temp_id(normalize_for_temp_id(name), SALT)


def map_all(mappings: CompanyMappingRepository, *rows: tuple[MatchType, str, str]) -> None:
    for match_type, alias, company_id in rows:
        mappings.store_mapping(match_type, alias_of(match_type, alias), company_id)


@pytest.fixture
def mappings(connection: sa.Connection, settings: CompaniesSettings) -> CompanyMappingRepository:
    return CompanyMappingRepository(connection, settings)


@pytest.fixture
def resolver(connection: sa.Connection, settings: CompaniesSettings) -> CompanyIdResolver:
    return CompanyIdResolver(connection, settings, salt=SALT)


def requests_of(connection: sa.Connection, tables: CompaniesTables) -> list[Any]:
    return list(connection.execute(sa.select(tables.requests).order_by(tables.requests.c.id)))


def test_tiers_answer_in_their_order(mappings: CompanyMappingRepository, resolver: CompanyIdResolver) -> None:
    rows: list[tuple[MatchType, str, str]] = [
        ("company_name", "Acme Ltd", "by company name"),
        ("account_name", "Acme Account", "by account name"),
        ("hardcode", "Acme Ltd", "by hardcode"),
        ("account_number", "12 34", "by account number"),
        ("plan_code", "p-9", "by plan code"),
    ]
    row = CompanyRow("ACME  Limited", plan_code="P-9", account_number="1234", account_name="acme account")
    found = []
    for each in rows:
        map_all(mappings, each)
        [answer] = resolver.resolve([row])
        found.append((answer.company_id, answer.rung))
    assert found == [(f"by {tier.replace('_', ' ')}", tier) for tier in reversed(TIERS)]


def test_an_alias_of_another_tier_does_not_answer(
    mappings: CompanyMappingRepository, resolver: CompanyIdResolver
) -> None:
    map_all(mappings, ("plan_code", "A1234", "C1"), ("account_name", "Acme", "C2"))
    answers = resolver.resolve([CompanyRow("A1234"), CompanyRow("Acme", account_number="A1234")])
    assert [answer.rung for answer in answers] == ["queue", "queue"]


def test_each_name_says_which_rung_answered(
    connection: sa.Connection, settings: CompaniesSettings, mappings: CompanyMappingRepository
) -> None:
    map_all(mappings, ("company_name", "Mapped Ltd", "C1"))
    mappings.cache_answers([CachedAnswer(normalize_for_temp_id("Cached Ltd"), "C2", "eqc", 0.93)])
    chain = PreparedChain({"Asked Ltd": accepted("C3", confidence=0.97)})
    resolver = CompanyIdResolver(connection, settings, salt=SALT, providers=chain)
    resolver.budget.calls = 1
    assert resolver.resolve(["Mapped Ltd", "Cached Ltd", "Asked Ltd", "Queued Ltd", "  ", None, "x" * 1_000_000]) == [
        Resolution("C1", "company_name", 1.0, False, "mapped"),
        Resolution("C2", "cache", 0.93, False, "cached"),
        Resolution("C3", "eqc", 0.97, False, "accepted"),
        Resolution(temporary("Queued Ltd"), "queue", None, True, "enqueued"),
        Resolution(None, "none", None, False, "blank_name"),
        Resolution(None, "none", None, False, "blank_name"),
        Resolution(None, "none", None, False, "name_too_long"),
    ]
    assert chain.asked == ["Asked Ltd"]
    assert resolver.counts.rungs == {"company_name": 1, "cache": 1, "eqc": 1, "queue": 1, "none": 3}
    assert resolver.counts.reasons["blank_name"] == 2
    assert not resolver.counts.failures


def test_what_is_left_is_enqueued_once(
    connection: sa.Connection, tables: CompaniesTables, resolver: CompanyIdResolver
) -> None:
    answers = resolver.resolve(["Acme Ltd", "ACME Limited", "Acme Ltd", "Beta"])
    assert [answer.company_id for answer in answers] == [temporary("Acme Ltd")] * 3 + [temporary("Beta")]
    again = resolver.resolve(["Acme Ltd"])
    assert [answer.reason for answer in (*answers, *again)] == ["enqueued"] * 4 + ["already_open"]
    rows = requests_of(connection, tables)
    assert [(row.raw_name, row.temp_id, row.status, row.attempts) for row in rows] == [
        ("Acme Ltd", temporary("Acme Ltd"), "pending", 0),
        ("Beta", temporary("Beta"), "pending", 0),
    ]
    assert all(is_temp_id(row.temp_id) for row in rows)


def test_a_rollback_of_the_caller_takes_everything_back(
    engine: sa.Engine, settings: CompaniesSettings, tables: CompaniesTables
) -> None:
    with engine.connect() as connection:
        chain = PreparedChain({"Asked": accepted("C1"), "Which": unsure("C1", "C2")})
        resolver = CompanyIdResolver(connection, settings, salt=SALT, providers=chain)
        resolver.resolve(["Asked", "Which", "Nobody", *(f"Name {number}" for number in range(20))])
        assert requests_of(connection, tables)
        connection.rollback()
    with engine.connect() as connection:
        for table in (tables.requests, tables.mappings, tables.reviews, tables.rung_counts):
            assert connection.scalar(sa.select(sa.func.count()).select_from(table)) == 0


def test_a_commit_of_the_caller_keeps_everything(
    engine: sa.Engine, settings: CompaniesSettings, tables: CompaniesTables
) -> None:
    with Session(engine) as session, session.begin():
        CompanyIdResolver(session, settings, salt=SALT).resolve(["Acme"])
    with engine.connect() as connection:
        assert [row.raw_name for row in requests_of(connection, tables)] == ["Acme"]


def test_a_batch_takes_one_statement_for_each_rung(
    connection: sa.Connection,
    settings: CompaniesSettings,
    mappings: CompanyMappingRepository,
    statements: Statements,
) -> None:
    map_all(mappings, *(("company_name", f"Known {number}", f"C{number}") for number in range(200)))
    resolver = CompanyIdResolver(connection, settings, salt=SALT, batch_size=1000)
    statements.texts.clear()
    resolver.resolve([f"Known {number}" for number in range(1000)] + ["Known 7"] * 500)
    # Mappings, cache, queue, and the counts of the call.
    assert len(statements.texts) == 4
    statements.texts.clear()
    resolver.resolve([f"Known {number}" for number in range(200)])
    assert len(statements.texts) == 2


def test_a_known_no_match_is_not_asked_again(
    connection: sa.Connection, settings: CompaniesSettings, tables: CompaniesTables
) -> None:
    chain = PreparedChain({})
    first = CompanyIdResolver(connection, settings, salt=SALT, providers=chain).resolve(["Nobody Ltd"])
    second = CompanyIdResolver(connection, settings, salt=SALT, providers=chain).resolve(["Nobody Ltd"])
    assert chain.asked == ["Nobody Ltd"]
    assert first == [Resolution(temporary("Nobody Ltd"), "eqc", None, True, "no_match")]
    assert second == [Resolution(temporary("Nobody Ltd"), "cache", None, True, "no_match")]
    # The temporary id is accounted for, and nothing is left to look up.
    [request] = requests_of(connection, tables)
    assert (request.status, request.temp_id, request.resolved_company_id, request.outcome) == (
        "done", temporary("Nobody Ltd"), None, "no_match",
    )  # fmt: skip
    connection.execute(sa.update(tables.mappings).values(expires_at=sa.text("created_at")))
    connection.execute(sa.update(tables.requests).values(finished_at=sa.literal_column("'2020-01-01 00:00:00'")))
    third = CompanyIdResolver(connection, settings, salt=SALT, providers=chain).resolve(["Nobody Ltd"])
    assert chain.asked == ["Nobody Ltd"] * 2
    assert third[0].rung == "eqc"


def test_a_name_with_candidates_waits_for_a_person_and_is_not_asked_again(
    connection: sa.Connection, settings: CompaniesSettings, tables: CompaniesTables
) -> None:
    chain = PreparedChain({"Acme": unsure("C1", "C2")})
    for rung in ("eqc", "cache"):
        [answer] = CompanyIdResolver(connection, settings, salt=SALT, providers=chain).resolve(["Acme"])
        assert answer == Resolution(temporary("Acme"), rung, None, True, "unsure")
    assert chain.asked == ["Acme"]
    assert connection.scalar(sa.select(tables.reviews.c.raw_name)) == "Acme"


def test_a_name_in_the_queue_is_not_asked_synchronously(
    connection: sa.Connection, settings: CompaniesSettings, resolver: CompanyIdResolver
) -> None:
    resolver.resolve(["Acme"])
    chain = PreparedChain({"Acme": accepted("C1")})
    [answer] = CompanyIdResolver(connection, settings, salt=SALT, providers=chain).resolve(["Acme"])
    assert (answer.reason, chain.asked) == ("already_open", [])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"status": "done", "resolved_company_id": "C9", "confidence": 0.9}, ("C9", "cache", "resolved")),
        ({"status": "done"}, (None, "queue", "already_done")),
        ({"status": "failed"}, (None, "queue", "already_failed")),
        ({"status": "processing"}, (None, "queue", "already_open")),
    ],
)
def test_an_earlier_request_answers(
    connection: sa.Connection,
    tables: CompaniesTables,
    resolver: CompanyIdResolver,
    values: dict[str, object],
    expected: tuple[str | None, str, str],
) -> None:
    resolver.resolve(["Acme"])
    connection.execute(sa.update(tables.requests).values(**values))
    [answer] = resolver.resolve(["Acme"])
    assert (answer.company_id, answer.rung, answer.reason) == (expected[0] or temporary("Acme"), *expected[1:])
    assert len(requests_of(connection, tables)) == 1


def test_the_budget_is_spent_on_distinct_names_and_never_exceeded(
    connection: sa.Connection, settings: CompaniesSettings, tables: CompaniesTables, caplog: pytest.LogCaptureFixture
) -> None:
    chain = PreparedChain({f"Name {number}": accepted(f"C{number}") for number in range(1000)})
    resolver = CompanyIdResolver(connection, settings, salt=SALT, providers=chain, batch_size=100)
    answers = resolver.resolve([f"Name {number % 300}" for number in range(900)])
    assert len(chain.asked) == len(set(chain.asked)) == settings.eqc_sync_budget == 5
    assert resolver.counts.rungs == {"eqc": 5, "queue": 295}
    assert sum(answer.rung == "eqc" for answer in answers) == 15
    assert not resolver.counts.failures, "a budget that is spent is no failure"
    assert not caplog.records
    assert len(requests_of(connection, tables)) == 295


class BrokenChain(PreparedChain):
    def look_up(self, names: Any, budget: Any, **options: Any) -> Any:
        raise RuntimeError(f"something with {names}")


@pytest.mark.parametrize("chain", [BrokenChain({}), PreparedChain({"Planted": failed(rm.TransientError("down"))})])
def test_a_provider_that_fails_passes_names_to_the_queue(
    connection: sa.Connection, settings: CompaniesSettings, chain: PreparedChain, caplog: pytest.LogCaptureFixture
) -> None:
    resolver = CompanyIdResolver(connection, settings, salt=SALT, providers=chain)
    [answer] = resolver.resolve(["Planted"])
    assert answer == Resolution(temporary("Planted"), "queue", None, True, "enqueued")
    assert resolver.counts.failures.total() == 1
    assert "rung_failed" in caplog.text
    assert "Planted" not in caplog.text


def test_a_provider_that_is_down_is_not_asked_for_every_name(
    connection: sa.Connection, settings: CompaniesSettings
) -> None:
    names = [f"Name {number}" for number in range(1000)]
    chain = PreparedChain(dict.fromkeys(names, failed(rm.TransientError("down"))))
    resolver = CompanyIdResolver(connection, settings, salt=SALT, providers=chain)
    resolver.budget.calls = 10_000
    resolver.resolve(names)
    assert len(chain.asked) == 100
    assert resolver.counts.rungs == {"queue": 1000}


def test_a_temporary_id_for_a_cached_no_match_is_accounted_for(
    connection: sa.Connection, tables: CompaniesTables, mappings: CompanyMappingRepository, resolver: CompanyIdResolver
) -> None:
    mappings.cache_answers([CachedAnswer(normalize_for_temp_id("Nobody Ltd"), None, "eqc", 0.0)])
    for _ in range(2):
        [answer] = resolver.resolve(["Nobody Ltd"])
        assert (answer.rung, answer.reason) == ("cache", "no_match")
    [request] = requests_of(connection, tables)
    assert (request.status, request.temp_id, request.raw_name) == ("done", temporary("Nobody Ltd"), "Nobody Ltd")


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ("company_mappings", {"queue": 2}),
        ("enrichment_requests", {"company_name": 1, "none": 1}),
        ("company_rung_counts", {"company_name": 1, "queue": 1}),
        ("company_reviews", {"company_name": 1, "queue": 1}),
    ],
)
def test_a_rung_whose_table_is_gone_passes_names_to_the_next(
    connection: sa.Connection,
    settings: CompaniesSettings,
    mappings: CompanyMappingRepository,
    tables: CompaniesTables,
    caplog: pytest.LogCaptureFixture,
    broken: str,
    expected: dict[str, int],
) -> None:
    map_all(mappings, ("company_name", "Known", "C1"))
    full = f"{tables.metadata.schema}.{broken}" if tables.metadata.schema else broken
    connection.exec_driver_sql(f"ALTER TABLE {full} RENAME TO away")
    resolver = CompanyIdResolver(connection, settings, salt=SALT)
    answers = resolver.resolve(["Known", "Planted name"])
    assert resolver.counts.rungs == expected
    assert answers[1].company_id == temporary("Planted name")
    assert connection.scalar(sa.text("SELECT 1")) == 1, "the caller's transaction goes on"
    if broken != "company_reviews":
        assert resolver.counts.failures
        assert "Planted" not in caplog.text
        assert SALT not in caplog.text


def test_counts_of_a_day_add_up(connection: sa.Connection, settings: CompaniesSettings) -> None:
    for names in (["A one", "B one"], ["A one", "C one", ""]):
        CompanyIdResolver(connection, settings, salt=SALT).resolve(names)
    [(day, none, blank), (same, queue, queued)] = rung_counts(connection)
    assert (none, blank, queue, queued) == ("none", 1, "queue", 4)
    assert day == same
    assert rung_counts(connection, since=day) == rung_counts(connection)


def test_batches_are_answered_as_they_come(resolver: CompanyIdResolver) -> None:
    resolver.batch_size = 2
    found = resolver.resolve_batches(f"Name {number}" for number in range(5))
    assert [len(some) for some in found] == [2, 2, 1]


def test_characters_that_no_database_stores_harm_no_other_name(
    connection: sa.Connection, tables: CompaniesTables, resolver: CompanyIdResolver
) -> None:
    answers = resolver.resolve(["Nul\x00 Ltd", "half \ud800 Ltd", "unit\x1f Ltd", "Fine Ltd", "{%s} :name Ltd"])
    assert [answer.rung for answer in answers] == ["queue"] * 5
    assert not resolver.counts.failures
    assert len(requests_of(connection, tables)) == 5


def test_without_a_salt_it_does_not_start(connection: sa.Connection, database_url: str) -> None:
    with pytest.raises(NoSalt, match="WDH_TEMP_ID_SALT"):
        CompanyIdResolver(connection, CompaniesSettings(database_url=database_url))


def test_neither_names_nor_salt_are_logged(
    connection: sa.Connection, settings: CompaniesSettings, caplog: pytest.LogCaptureFixture
) -> None:
    chain = PreparedChain({"Plantedname a": accepted("C1"), "Plantedname b": unsure("C2"), "Plantedname c": no_match()})
    with caplog.at_level(logging.DEBUG):
        resolver = CompanyIdResolver(connection, settings, salt=SALT, providers=chain)
        resolver.resolve([f"Plantedname {letter}" for letter in "abcdefgh"])
        connection.exec_driver_sql(f"DROP TABLE {resolver.mappings.tables.requests.fullname}")
        resolver.resolve(["Plantedname z", "Plantedname \x00"])
    shown = repr(resolver) + repr(resolver.settings) + "".join(
        f"{record.getMessage()} {record.__dict__}" for record in caplog.records if record.name.startswith("rowmill")
    )  # fmt: skip
    assert "rung_failed" in shown
    assert "lantedname" not in shown
    assert SALT not in shown
