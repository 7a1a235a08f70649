"""Names that a person decides: the providers have candidates, and none is clearly the one."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from rowmill_systems.companies.answered_requests import answer_requests
from rowmill_systems.companies.company_ids import LONGEST_COMPANY_ID
from rowmill_systems.companies.lookup import JudgedCandidate, LookupDecision
from rowmill_systems.companies.mappings import CompanyMappingRepository
from rowmill_systems.companies.models import PERSON, CompaniesTables
from rowmill_systems.companies.salts import Salts
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.parts.clock import now
from rowmill_systems.parts.database import in_utc, upsert_into
from rowmill_systems.parts.values import storable

MOST_CANDIDATES = 20


class ReviewGone(LookupError):
    """The review does not exist, or somebody else decided it meanwhile. The message says which."""


@dataclass(frozen=True, slots=True)
class ReviewReason:
    """One thing that a candidate's name has in common with the name, or that distinguishes them."""

    code: str
    agrees: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ReviewCandidate:
    """A company that may be meant."""

    company_id: str
    name: str
    score: float
    verdict: str
    reasons: tuple[ReviewReason, ...] = ()
    other_names: tuple[str, ...] = ()
    details: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class OpenReview:
    """A name that waits for a person."""

    id: int
    normalized_name: str
    raw_name: str
    provider: str
    candidates: tuple[ReviewCandidate, ...]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ReviewDecision:
    """What was decided, and what it changed."""

    review_id: int
    normalized_name: str
    company_id: str | None
    requests: int
    """Requests that are done by it."""
    temp_ids: tuple[str, ...]
    """Temporary ids of those requests."""


def record_review(
    connection: sa.Connection, tables: CompaniesTables, *, normalized_name: str, raw_name: str, decision: LookupDecision
) -> None:
    """Keep the candidates of a name for a person. An open review of the name gets the new candidates."""
    reviews = tables.reviews
    values = {
        "raw_name": storable(raw_name),
        "provider": (decision.provider or "providers")[:100],
        "candidates": [_as_json(each) for each in decision.candidates[:MOST_CANDIDATES]],
    }
    insert = upsert_into(connection, reviews).values(normalized_name=normalized_name, **values)
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=["normalized_name"], index_where=sa.text("state IN ('open')"), set_=values
        )
    )


def open_reviews(
    connection: sa.Connection, tables: CompaniesTables, *, limit: int = 50, after: int = 0
) -> list[OpenReview]:
    """Return names that wait for a person, the oldest first, from the one after this id."""
    reviews = tables.reviews
    wanted = (
        sa.select(reviews).where(reviews.c.state == "open", reviews.c.id > after).order_by(reviews.c.id).limit(limit)
    )
    return [
        OpenReview(
            row.id,
            row.normalized_name,
            row.raw_name,
            row.provider,
            tuple(_from_json(each) for each in row.candidates),
            in_utc(row.created_at),
        )
        for row in connection.execute(wanted)
    ]


def count_open_reviews(connection: sa.Connection, tables: CompaniesTables) -> int:
    """Return how many names wait for a person."""
    reviews = tables.reviews
    return connection.scalar(sa.select(sa.func.count()).where(reviews.c.state == "open")) or 0


def decide(
    connection: sa.Connection,
    settings: CompaniesSettings,
    review_id: int,
    company_id: str | None,
    *,
    by: str,
    salts: Salts | None = None,
) -> ReviewDecision:
    """Decide an open review: the name means this company, or none of the candidates.

    Stores an internal mapping, and resolves the requests of the name; `decide_review` writes the targets too. Raises
    ReviewGone if it was decided meanwhile: of two people who decide at once, one gets the error.
    """
    if company_id is not None:
        company_id = company_id.strip()
        if not 0 < len(company_id) <= LONGEST_COMPANY_ID:
            raise ValueError(f"a company id has 1 to {LONGEST_COMPANY_ID} characters")
    mappings = CompanyMappingRepository(connection, settings)
    reviews = mappings.tables.reviews
    taken = (
        sa.update(reviews)
        .where(reviews.c.id == review_id, reviews.c.state == "open")
        .values(
            state="none" if company_id is None else "decided",
            decided_company_id=company_id,
            decided_by=storable(by),
            decided_at=sa.func.now(),
        )
        .returning(reviews.c.normalized_name, reviews.c.raw_name)
    )
    decided = connection.execute(taken).first()
    if decided is None:
        raise ReviewGone(_why_gone(connection, reviews, review_id))
    name, raw_name = decided
    if company_id is None:
        _cache_none(mappings, name)
    else:
        mappings.store_mapping("company_name", name, company_id)
    made = None if salts is None else salts.temp_id(name)
    temp_ids = answer_requests(connection, mappings.tables, name, company_id, by=by, raw_name=raw_name, temp_id=made)
    distinct = tuple(dict.fromkeys(filter(None, temp_ids)))
    return ReviewDecision(review_id, name, company_id, len(temp_ids), distinct if company_id is not None else ())


def _cache_none(mappings: CompanyMappingRepository, name: str) -> None:
    """Remember for as long as an answer is believed that no candidate is right: the same ones would come back."""
    table, connection = mappings.tables.mappings, mappings.connection
    expires_at = now(connection.dialect.name, days=mappings.settings.cache_days)
    values = {"company_id": None, "confidence": 0.0, "expires_at": expires_at}
    insert = upsert_into(connection, table).values(match_type="company_name", alias=name, source=PERSON, **values)
    index = ["alias", "match_type", "source"]
    connection.execute(insert.on_conflict_do_update(index_elements=index, set_=values | {"updated_at": sa.func.now()}))


def _why_gone(connection: sa.Connection, reviews: sa.Table, review_id: int) -> str:
    wanted = sa.select(reviews.c.decided_by, reviews.c.decided_company_id).where(reviews.c.id == review_id)
    row = connection.execute(wanted).first()
    if row is None:
        return f"there is no review {review_id}. List the open ones again"
    decided = "none of the candidates" if row.decided_company_id is None else row.decided_company_id
    return f"review {review_id} was decided by {row.decided_by} meanwhile: {decided}. List the open ones again"


def _as_json(judged: JudgedCandidate) -> dict[str, Any]:
    candidate, match = judged.candidate, judged.match
    found: dict[str, Any] = storable(
        {
            "company_id": candidate.company_id,
            "name": candidate.name,
            "score": match.score,
            "verdict": str(match.verdict),
            "reasons": [{"code": each.code, "agrees": each.agrees, "detail": each.detail} for each in match.reasons],
            "other_names": list(candidate.other_names),
            "details": dict(candidate.details),
        }
    )
    return found


def _from_json(stored: Mapping[str, Any]) -> ReviewCandidate:
    return ReviewCandidate(
        stored["company_id"],
        stored["name"],
        stored["score"],
        stored["verdict"],
        tuple(ReviewReason(**each) for each in stored["reasons"]),
        tuple(stored["other_names"]),
        stored["details"],
    )
