"""Names with candidates wait for a person; what the person decides is mapped and resolved."""

import pytest
import sqlalchemy as sa

from rowmill_systems.companies.models import CompaniesTables
from rowmill_systems.companies.resolver import CompanyIdResolver
from rowmill_systems.companies.reviews import (
    ReviewCandidate,
    ReviewGone,
    ReviewReason,
    count_open_reviews,
    decide,
    open_reviews,
    record_review,
)
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.companies.temp_ids import normalize_for_temp_id, temp_id
from systems.tests.companies.ladder.conftest import SALT, PreparedChain, unsure

NAME = normalize_for_temp_id("Acme")
TEMP_ID = temp_id(NAME, SALT)


@pytest.fixture
def chain() -> PreparedChain:
    return PreparedChain({"Acme": unsure("C1", "C2")})


@pytest.fixture
def review(
    connection: sa.Connection, settings: CompaniesSettings, chain: PreparedChain, tables: CompaniesTables
) -> int:
    CompanyIdResolver(connection, settings, salt=SALT, providers=chain).resolve(["Acme"])
    connection.commit()
    [found] = open_reviews(connection, tables)
    return found.id


def test_an_open_review_shows_candidates_with_their_reasons(
    connection: sa.Connection, tables: CompaniesTables, review: int
) -> None:
    [found] = open_reviews(connection, tables)
    assert (found.id, found.normalized_name, found.raw_name, found.provider) == (review, NAME, "Acme", "eqc")
    reasons = (ReviewReason("core", True, "acme"),)
    assert found.candidates == tuple(
        ReviewCandidate(each, f"Acme {each}", 0.8, "unsure", reasons, ("Old Acme",), {"city": "Köln"})
        for each in ("C1", "C2")
    )
    assert found.created_at.tzinfo is not None
    assert open_reviews(connection, tables, after=review) == []


def test_a_later_lookup_replaces_the_candidates(
    connection: sa.Connection, tables: CompaniesTables, review: int
) -> None:
    decision = unsure("C3", provider="gleif")
    record_review(connection, tables, normalized_name=NAME, raw_name="ACME", decision=decision)
    [found] = open_reviews(connection, tables)
    assert (found.id, found.provider, [each.company_id for each in found.candidates]) == (review, "gleif", ["C3"])
    assert count_open_reviews(connection, tables) == 1


def test_a_decision_is_mapped_and_resolved(
    connection: sa.Connection, settings: CompaniesSettings, tables: CompaniesTables, review: int, chain: PreparedChain
) -> None:
    decision = decide(connection, settings, review, " C2 ", by="ada")
    assert (decision.company_id, decision.requests, decision.temp_ids) == ("C2", 1, (TEMP_ID,))
    row = connection.execute(sa.select(tables.requests)).one()
    assert (row.status, row.resolved_company_id, row.resolved_by, row.confidence, row.last_error) == (
        "done", "C2", "ada", 1.0, None,
    )  # fmt: skip
    resolver = CompanyIdResolver(connection, settings, salt=SALT, providers=chain)
    [answer] = resolver.resolve(["ACME"])
    assert (answer.company_id, answer.rung) == ("C2", "company_name")
    assert open_reviews(connection, tables) == []


def test_an_open_request_of_the_name_is_resolved_and_its_worker_loses_it(
    connection: sa.Connection, settings: CompaniesSettings, tables: CompaniesTables, review: int
) -> None:
    connection.execute(sa.update(tables.requests).values(status="processing", lease=7, leased_until=sa.func.now()))
    decide(connection, settings, review, "C1", by="ada")
    row = connection.execute(sa.select(tables.requests)).one()
    assert (row.status, row.lease, row.leased_until, row.next_retry_at) == ("done", None, None, None)
    assert row.finished_at is not None


def test_none_of_the_candidates_is_remembered(
    connection: sa.Connection, settings: CompaniesSettings, tables: CompaniesTables, review: int, chain: PreparedChain
) -> None:
    decision = decide(connection, settings, review, None, by="ada")
    assert (decision.company_id, decision.temp_ids) == (None, ())
    # The provider's own "unsure" expires, and the person's decision stays.
    is_providers = tables.mappings.c.source == "eqc"
    connection.execute(sa.delete(tables.mappings).where(is_providers))
    [answer] = CompanyIdResolver(connection, settings, salt=SALT, providers=chain).resolve(["Acme"])
    assert (answer.company_id, answer.rung, answer.reason) == (TEMP_ID, "cache", "no_match")
    assert chain.asked == ["Acme"]


def test_of_two_people_one_is_refused(
    connection: sa.Connection, settings: CompaniesSettings, tables: CompaniesTables, review: int
) -> None:
    decide(connection, settings, review, "C1", by="ada")
    with pytest.raises(ReviewGone, match="decided by ada meanwhile: C1"):
        decide(connection, settings, review, "C2", by="bob")
    assert connection.scalar(sa.select(tables.requests.c.resolved_company_id)) == "C1"


def test_an_unknown_review_is_refused(connection: sa.Connection, settings: CompaniesSettings) -> None:
    with pytest.raises(ReviewGone, match="there is no review 4711"):
        decide(connection, settings, 4711, "C1", by="ada")


@pytest.mark.parametrize("company_id", ["", "  ", "C" * 101])
def test_an_id_that_is_none_is_refused(
    connection: sa.Connection, settings: CompaniesSettings, tables: CompaniesTables, review: int, company_id: str
) -> None:
    with pytest.raises(ValueError, match="1 to 100 characters"):
        decide(connection, settings, review, company_id, by="ada")
    assert count_open_reviews(connection, tables) == 1
